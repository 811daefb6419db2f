// The shop that outside clients visit: `lastunit dev` of its own, and the few words the tests are written in.
//
//   import { test, shop } from './shop.mjs';
//   test('a sentence', async () => { … });
//
// One service per file, stopped behind its last test; `shop.beside(options)` starts a further instance on the same stock.
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

// Resolves when it serves, to its URL.
async function launch(words, env = {}) {
  const child = spawn(binary, words, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stderr.on('data', (bytes) => { said += bytes; });
  const url = await new Promise((resolve, reject) => {
    child.stdout.on('data', (bytes) => {
      said += bytes;
      const ready = /^ready (\S+)/m.exec(said);
      if (ready) resolve(ready[1]);
    });
    child.on('exit', (code) => reject(new Error(`lastunit ${words[0]} ended with ${code}: ${said}`)));
  });
  return { child, url };
}

async function stop({ child }) {
  child.removeAllListeners('exit');
  child.kill('SIGTERM');
  await once(child, 'exit');
}

const directory = mkdtempSync(join(tmpdir(), 'lastunit-clients-'));
const data = join(directory, 'data');
const running = [await launch(['dev', '--data', data, '--listen', '127.0.0.1:0', '--no-demo'])];
const variables = Object.fromEntries(readFileSync(join(data, 'dev.env'), 'utf8').trim().split('\n')
  .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]));

after(async () => {
  while (running.length) await stop(running.pop());
  rmSync(directory, { recursive: true, force: true });
});

export const shop = {
  url: variables.LASTUNIT_URL,
  key: (name) => variables[`LASTUNIT_KEY_${name.toUpperCase()}`],
  // Of dev.env: `shop.variable('TELEGRAM_SECRET')`.
  variable: (name) => variables[`LASTUNIT_${name}`],

  async beside(options) {
    const instance = await launch(['serve', '--listen', '127.0.0.1:0', ...options], variables);
    running.push(instance);
    return instance;
  },

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
    return execFileSync(binary, ['audit'], { env: { ...process.env, ...variables }, encoding: 'utf8' });
  },
};
