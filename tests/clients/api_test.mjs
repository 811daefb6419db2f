// The API as its description says: redocly lints /openapi.json and drives the live service by it (flows.arazzo.yaml); prism
// stands between as a proxy that lets nothing through, in either direction, that the description does not allow.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { promisify } from 'node:util';
import { assert, shop, test } from './shop.mjs';

const run = promisify(execFile);
const here = (path) => new URL(path, import.meta.url).pathname;
const node = here('node_modules/node/bin/node');
const directory = mkdtempSync(join(tmpdir(), 'lastunit-api-'));
const description = join(directory, 'openapi.json');
writeFileSync(description, await (await fetch(`${shop.url}/openapi.json`)).text());
after(() => rmSync(directory, { recursive: true, force: true }));

async function redocly(...args) {
  try {
    await run(node, [here('node_modules/@redocly/cli/bin/cli.js'), ...args], {
      timeout: 300000, maxBuffer: 1 << 26,
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true', NO_COLOR: '1' },
    });
  } catch (error) {
    throw new Error(`${error.stdout}${error.stderr}`);
  }
}

test('redocly lint: nothing to say about the description', () => redocly('lint', description, '--config', here('redocly.yaml')));

test('redocly respect: a day in a shop goes as described', async () => {
  const flows = join(directory, 'flows.arazzo.yaml');
  copyFileSync(here('flows.arazzo.yaml'), flows);
  await redocly('respect', flows, '--server', `lastunit=${shop.url}`, '--input', `key=${shop.key('admin')}`);
  shop.audit();
});

async function prism(...options) {
  const child = spawn(node, [here('node_modules/@stoplight/prism-cli/dist/index.js'), 'proxy', description, shop.url,
    '--port', '0', ...options], { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, NO_COLOR: '1' } });
  after(async () => {
    child.removeAllListeners('exit');
    child.kill();
    await once(child, 'exit');
  });
  let said = '';
  return new Promise((resolve, reject) => {
    child.stdout.on('data', (bytes) => {
      said += bytes;
      const listening = /listening on (http:[\w:/.]+)/.exec(said);
      if (listening) resolve(listening[1]);
    });
    child.on('exit', () => reject(new Error(said)));
  });
}

// Through a proxy, with a key of its own for each writing call.
async function through(proxy, method, path, body, headers = {}) {
  const answer = await fetch(proxy + path, {
    method,
    headers: {
      authorization: `Bearer ${shop.key('admin')}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(method === 'POST' ? { 'idempotency-key': `prism-${Math.random()}` } : {}),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  const json = /json/.test(answer.headers.get('content-type')) ? JSON.parse(text) : text;
  // What prism finds wrong it answers itself, or, when it lets it pass, tells in a header.
  const violations = JSON.parse(answer.headers.get('sl-violations') ?? '[]').filter(({ location }) => location[0] === 'response');
  assert.deepEqual(violations, [], `${method} ${path} ${answer.status}`);
  assert.ok(!json.validation, `${method} ${path}: ${text}`);
  return { status: answer.status, body: json };
}

test('prism, strict: every call of a day passes in both directions', async () => {
  const proxy = await prism('--errors');
  const ask = async (status, method, path, body, headers) => {
    const answer = await through(proxy, method, path, body, headers);
    assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.body)}`);
    return answer.body;
  };
  const lines = [{ sku: 'PRISM', quantity: 1 }];
  await ask(201, 'PUT', '/v1/skus/PRISM', { on_hand: 9, titles: { en: 'Prism' } });
  await ask(200, 'PUT', '/v1/skus/PRISM', { safety_stock: 1 });
  await ask(200, 'GET', '/v1/skus/PRISM');
  await ask(200, 'GET', '/v1/skus?limit=2');
  await ask(200, 'GET', '/v1/availability/PRISM');
  await ask(200, 'GET', '/v1/availability?sku=PRISM&sku=NOBODY');
  await ask(200, 'POST', '/v1/availability', { skus: ['PRISM'] });
  const sold = await ask(201, 'POST', '/v1/checkouts', { lines, reference: 'P-1' });
  await ask(200, 'GET', `/v1/checkouts/${sold.id}`);
  await ask(200, 'GET', '/v1/checkouts?reference=P-1');
  await ask(200, 'POST', `/v1/checkouts/${sold.id}/cancel`, {});
  const held = await ask(201, 'POST', '/v1/reservations', { lines, ttl_seconds: 60, caller: 'a' });
  const swapped = await ask(201, 'POST', '/v1/reservations', { lines, replaces: held.id });
  await ask(200, 'GET', `/v1/reservations/${held.id}`);
  await ask(200, 'GET', '/v1/reservations?sku=PRISM&status=active');
  await ask(200, 'POST', `/v1/reservations/${swapped.id}/extend`, { ttl_seconds: 900 });
  await ask(200, 'POST', `/v1/reservations/${swapped.id}/commit`, {});
  await ask(409, 'POST', `/v1/reservations/${swapped.id}/release`, {});
  await ask(201, 'POST', '/v1/adjustments', { lines: [{ sku: 'PRISM', delta: 1 }], reason: 'found' });
  await ask(200, 'PUT', '/v1/orders/PRISM-1', { version: 1, lines });
  await ask(200, 'GET', '/v1/orders/PRISM-1');
  await ask(200, 'POST', '/v1/batch', { operations: [{ operation: 'checkout', idempotency_key: 'prism-till', lines }] });
  await ask(200, 'GET', '/v1/skus/PRISM/ledger?limit=3');
  await ask(200, 'GET', '/v1/changes?cursor=now');
  const hook = await ask(201, 'POST', '/v1/webhooks', { url: 'http://127.0.0.1:1/', skus: ['PRISM-NOT'] });
  await ask(200, 'GET', '/v1/webhooks');
  await ask(200, 'GET', `/v1/webhooks/${hook.id}`);
  await ask(200, 'POST', `/v1/webhooks/${hook.id}/rotate`);
  await ask(200, 'POST', `/v1/webhooks/${hook.id}/enable`);
  await ask(200, 'GET', `/v1/webhooks/${hook.id}/deliveries`);
  await ask(204, 'DELETE', `/v1/webhooks/${hook.id}`);
  await ask(200, 'GET', '/feeds/google.tsv');
  await ask(200, 'GET', '/feeds/local.csv?store=main');
  await ask(200, 'GET', '/healthz');
  await ask(200, 'GET', '/readyz');
  await ask(200, 'GET', '/metrics');
  await ask(200, 'GET', '/problems/insufficient_stock');
});

test('prism, lenient: what the description forbids the service refuses, in a problem as described', async () => {
  const proxy = await prism();
  await shop.stock('PRISM-BAD', 1);
  const lines = [{ sku: 'PRISM-BAD', quantity: 1 }];
  const refuse = async (status, code, method, path, body, headers) => {
    const answer = await through(proxy, method, path, body, headers);
    assert.deepEqual([answer.status, answer.body.code], [status, code], `${method} ${path}`);
  };
  await refuse(422, 'invalid_quantity', 'POST', '/v1/checkouts', { lines: [{ sku: 'PRISM-BAD', quantity: 0 }] });
  await refuse(422, 'invalid_lines', 'POST', '/v1/checkouts', { lines: [] });
  await refuse(422, 'invalid_field', 'POST', '/v1/checkouts', { lines, colour: 'red' });
  await refuse(409, 'insufficient_stock', 'POST', '/v1/checkouts', { lines: [{ sku: 'PRISM-BAD', quantity: 2 }] });
  await refuse(404, 'unknown_sku', 'POST', '/v1/checkouts', { lines: [{ sku: 'NOBODY', quantity: 1 }] });
  await refuse(422, 'invalid_ttl', 'POST', '/v1/reservations', { lines, ttl_seconds: 0 });
  await refuse(401, 'unauthorized', 'GET', '/v1/availability/PRISM-BAD', undefined, { authorization: 'Bearer lu_nobody' });
  await refuse(404, 'unknown_reservation', 'GET', '/v1/reservations/01900000-0000-7000-8000-000000000000');
  await refuse(412, 'change_from_mismatch', 'POST', '/v1/adjustments',
    { lines: [{ sku: 'PRISM-BAD', set: 5, change_from: 4 }], reason: 'stock-take' });
  await refuse(409, 'insufficient_stock', 'POST', '/v1/adjustments', { lines: [{ sku: 'PRISM-BAD', delta: -5 }], reason: 'loss' });
  await refuse(409, 'count_out_of_range', 'POST', '/v1/adjustments', { lines: [{ sku: 'PRISM-BAD', delta: 1e15 }], reason: 'gift' });
  await refuse(409, 'sku_exists', 'PUT', '/v1/skus/PRISM-BAD', { on_hand: 5 });
  assert.equal((await shop.row('PRISM-BAD')).on_hand, 1);
});
