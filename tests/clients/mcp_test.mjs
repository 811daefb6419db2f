// MCP as its own clients speak it: the SDK of the legacy era, the client of the modern one, the inspector, the
// conformance suite.
import { execFile } from 'node:child_process';
import { createServer, request as httpRequest } from 'node:http';
import { promisify } from 'node:util';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as LegacyTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as FirstClient } from 'mcp-sdk-of-2025-03-26/client/index.js';
import { StreamableHTTPClientTransport as FirstTransport } from 'mcp-sdk-of-2025-03-26/client/streamableHttp.js';
import { assert, shop, test } from './shop.mjs';

const run = promisify(execFile);
const here = (path) => new URL(path, import.meta.url).pathname;
const node24 = here('node_modules/node/bin/node');
const url = new URL('/mcp', shop.url);
const headers = { authorization: `Bearer ${shop.key('agent')}` };
const info = { name: 'lastunit-clients', version: '1.0.0' };

const eras = [
  ['SDK 1.12, which knows 2025-03-26 only', async () => {
    const client = new FirstClient(info);
    await client.connect(new FirstTransport(url, { requestInit: { headers } }));
    return client;
  }],
  ['SDK 1, legacy', async () => {
    const client = new LegacyClient(info);
    await client.connect(new LegacyTransport(url, { requestInit: { headers } }));
    return client;
  }],
  ...[['legacy', 'legacy'], ['auto', 'auto'], ['modern', { pin: '2026-07-28' }]].map(([name, mode]) => [
    `client 2, ${name}`, async () => {
      const client = new Client(info, { versionNegotiation: { mode } });
      await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
      return client;
    }]),
];

for (const [name, connect] of eras) {
  test(`${name}: finds, checks, holds and buys; a lost answer is asked for again`, async () => {
    const sku = `MCP ${name}`;
    await shop.stock(sku, 2, { en: `Lantern for ${name.replace(/\W/g, '')}` });
    const client = await connect();
    const call = async (tool, args) => (await client.callTool({ name: tool, arguments: args })).structuredContent;
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map((tool) => tool.name), ['find_products', 'check_stock', 'hold', 'release_hold', 'buy']);
    const found = await call('find_products', { query: `lanterns for ${name.replace(/\W/g, '')}` });
    assert.equal(found.items[0].sku, sku);
    const checked = await call('check_stock', { skus: [sku] });
    assert.equal(checked.items[0].available, 2);
    const wanted = { offer_id: checked.offer_id, lines: [{ sku, quantity: 2 }] };
    const held = await call('hold', wanted);
    assert.equal(held.granted, true);
    assert.deepEqual((await call('hold', wanted)).hold_id, held.hold_id);
    const other = await call('check_stock', { skus: [sku] });
    const refused = await call('hold', { offer_id: other.offer_id, lines: [{ sku, quantity: 1 }] });
    assert.equal(refused.granted, false);
    assert.deepEqual(refused.lines.map((line) => [line.sku, line.available, line.held]), [[sku, 0, 2]]);
    const bought = await call('buy', { hold_id: held.hold_id });
    assert.equal(bought.sold, true);
    assert.deepEqual(await call('buy', { hold_id: held.hold_id }), bought);
    const invented = await client.callTool({ name: 'hold', arguments: { ...wanted, offer_id: 'order-1' } });
    assert.equal(invented.isError, true);
    await client.close();
    assert.equal((await shop.row(sku)).on_hand, 0);
    shop.audit();
  });
}

test('SDK 1.12 sends a batch, and takes the answers to it', async () => {
  await shop.stock('MCP-BATCH', 3);
  const client = new FirstClient(info);
  const transport = new FirstTransport(url, { requestInit: { headers } });
  await client.connect(transport);
  const answers = [];
  transport.onmessage = (message) => answers.push(message);
  const ask = (id) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'check_stock', arguments: { skus: ['MCP-BATCH'] } } });
  await transport.send([ask(101), { jsonrpc: '2.0', method: 'notifications/initialized' }, ask(102)]);
  assert.deepEqual(answers.map((answer) => [answer.id, answer.result.structuredContent.items[0].available]), [[101, 3], [102, 3]]);
  await client.close();
});

function inspector(...args) {
  return run(node24, [here('node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js'), '--cli',
    '--server-url', url.href, '--transport', 'http', '--header', `Authorization: ${headers.authorization}`,
    '--format', 'json', ...args], { timeout: 120000, env: { ...process.env, PATH: `${here('node_modules/node/bin')}:${process.env.PATH}` } });
}

for (const era of ['legacy', 'auto', 'modern']) {
  test(`inspector, ${era}: the schemas stand a strict look`, async () => {
    const { stdout } = await inspector('--protocol-era', era, '--method', 'tools/list', '--strict');
    assert.match(stdout, /check_stock/);
  });
}

test('inspector as a load: one offer, 200 calls 20 at a time, holds once', async () => {
  await shop.stock('MCP-LOAD', 10);
  const client = await eras[0][1]();
  const { offer_id } = (await client.callTool({ name: 'check_stock', arguments: { skus: ['MCP-LOAD'] } })).structuredContent;
  await client.close();
  await inspector('--protocol-era', 'legacy', '--method', 'tools/call', '--tool-name', 'hold', '--tool-args-json',
    JSON.stringify({ offer_id, lines: [{ sku: 'MCP-LOAD', quantity: 1 }] }),
    '--load', '--load-requests', '200', '--load-concurrency', '20');
  assert.equal((await shop.row('MCP-LOAD')).reserved, 1);
});

test('20 agents, 10 units: 10 are granted', async () => {
  await shop.stock('MCP-TEN', 10);
  const clients = await Promise.all(Array.from({ length: 20 }, (_, i) => eras[i % eras.length][1]()));
  const offers = await Promise.all(clients.map(async (client) =>
    (await client.callTool({ name: 'check_stock', arguments: { skus: ['MCP-TEN'] } })).structuredContent.offer_id));
  const answers = await Promise.all(clients.map((client, i) => client.callTool({
    name: 'hold', arguments: { offer_id: offers[i], lines: [{ sku: 'MCP-TEN', quantity: 1 }] },
  })));
  assert.equal(answers.filter((answer) => answer.structuredContent.granted).length, 10);
  await Promise.all(clients.map((client) => client.close()));
  shop.audit();
});

// The suite cannot send a key: a proxy that does stands between, and changes nothing else.
async function withKey(work) {
  const proxy = createServer((from, to) => {
    const asked = httpRequest(new URL(from.url, shop.url),
      { method: from.method, headers: { ...from.headers, ...headers } }, (answer) => {
        to.writeHead(answer.statusCode, answer.headers);
        answer.pipe(to);
      });
    asked.on('error', () => to.destroy());
    from.pipe(asked);
  });
  await new Promise((resolve) => { proxy.listen(0, '127.0.0.1', resolve); });
  try {
    return await work(`http://127.0.0.1:${proxy.address().port}/mcp`);
  } finally {
    proxy.close();
    proxy.closeAllConnections();
  }
}

// Every scenario that a revision requires; what is excused, check by check, is listed with the reason. An unexpected
// failure ends with 1, and so does an excuse that is no longer needed.
for (const revision of ['2026-07-28', '2025-11-25']) {
  test(`conformance ${revision}: everything but what needs the suite's own fixtures`, () => withKey(async (to) => {
    try {
      await run(node24, [here('node_modules/@modelcontextprotocol/conformance/dist/index.js'), 'server', '--url', to,
        '--requirements', revision, '--expected-failures', here(`conformance-${revision}.yml`)],
      { timeout: 300000, maxBuffer: 1 << 26 });
    } catch (error) {
      throw new Error(error.stdout?.slice(error.stdout.indexOf('=== SUMMARY ===')) || error.message);
    }
  }));
}

test('the public mode: agents without a key find, check and hold for two minutes, and cannot buy', async () => {
  await shop.stock('MCP-PUBLIC', 2, { en: 'Quartz paperweight' });
  const open = await shop.beside(['--public-mcp', shop.key('agent')]);
  const client = new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', open.url)));
  const call = async (tool, args) => (await client.callTool({ name: tool, arguments: args })).structuredContent;
  assert.equal((await call('find_products', { query: 'quartz' })).items[0].sku, 'MCP-PUBLIC');
  const { offer_id } = await call('check_stock', { skus: ['MCP-PUBLIC'] });
  const held = await call('hold', { offer_id, lines: [{ sku: 'MCP-PUBLIC', quantity: 1 }] });
  assert.equal(held.granted, true);
  assert.ok(held.expires_in_seconds <= 120, `${held.expires_in_seconds} s`);
  await assert.rejects(client.callTool({ name: 'buy', arguments: { hold_id: held.hold_id } }));
  assert.deepEqual([(await shop.row('MCP-PUBLIC')).on_hand, (await shop.row('MCP-PUBLIC')).reserved], [2, 1]);
  await client.close();
  const closed = new Client(info, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  await assert.rejects(closed.connect(new StreamableHTTPClientTransport(url)));
});
