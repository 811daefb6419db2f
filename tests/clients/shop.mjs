// The shop that outside clients visit: `lastunit dev` of its own, and the few words the tests are written in.
//
//   import { test, shop } from './shop.mjs';
//   test('a sentence', async () => { … });
//
// One service per file, stopped behind its last test.
import { spawn, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import assert from 'node:assert/strict';

export { test } from 'node:test';
export { assert };

const binary = process.env.LASTUNIT_BIN ?? new URL('../../build/lastunit', import.meta.url).pathname;

async function start(options = []) {
  const directory = mkdtempSync(join(tmpdir(), 'lastunit-clients-'));
  const data = join(directory, 'data');
  const child = spawn(binary, ['dev', '--data', data, '--listen', '127.0.0.1:0', '--no-demo', ...options],
    { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (bytes) => { said += bytes; });
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (bytes) => {
      said += bytes;
      if (/^ready /m.test(said)) resolve();
    });
    child.on('exit', (code) => reject(new Error(`lastunit dev ended with ${code}: ${said}`)));
  });
  const env = Object.fromEntries(readFileSync(join(data, 'dev.env'), 'utf8').trim().split('\n')
    .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));
  return { child, directory, env };
}

const running = await start(JSON.parse(process.env.LASTUNIT_CLIENTS_OPTIONS ?? '[]'));

after(async () => {
  running.child.removeAllListeners('exit');
  running.child.kill('SIGTERM');
  await once(running.child, 'exit');
  rmSync(running.directory, { recursive: true, force: true });
});

export const shop = {
  url: running.env.LASTUNIT_URL,
  key: (name) => running.env[`LASTUNIT_KEY_${name.toUpperCase()}`],

  async ask(name, method, path, body, headers = {}) {
    const answer = await fetch(shop.url + path, {
      method,
      headers: { authorization: `Bearer ${shop.key(name)}`, 'content-type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, body: text ? JSON.parse(text) : undefined };
  },

  async stock(sku, onHand, titles = {}) {
    const answer = await shop.ask('admin', 'PUT', `/v1/skus/${encodeURIComponent(sku)}`, { on_hand: onHand, titles });
    assert.equal(answer.status, 201);
  },

  async row(sku) {
    return (await shop.ask('admin', 'GET', `/v1/skus/${encodeURIComponent(sku)}`)).body;
  },

  // Every promise recomputed; throws with what it said if one is broken.
  audit() {
    return execFileSync(binary, ['audit'], { env: { ...process.env, ...running.env }, encoding: 'utf8' });
  },
};
