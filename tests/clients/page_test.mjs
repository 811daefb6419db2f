// A product's page as a search engine reads it: Google's rules for products, by structured-data-testing-tool, and the values
// that the tool does not look at.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { promisify } from 'node:util';
import { assert, shop, test } from './shop.mjs';

const run = promisify(execFile);
const here = (path) => new URL(path, import.meta.url).pathname;
const directory = mkdtempSync(join(tmpdir(), 'lastunit-page-'));
after(() => rmSync(directory, { recursive: true, force: true }));

// The page's JSON-LD, after the tool has found a Product in it.
async function product(sku) {
  const html = await (await fetch(`${shop.url}/shop/${encodeURIComponent(sku)}`)).text();
  const file = join(directory, 'page.html');
  writeFileSync(file, html);
  try {
    await run(here('node_modules/node/bin/node'), [here('node_modules/structured-data-testing-tool/bin/cli.js'),
      '--file', file, '--schemas', 'jsonld:Product', '--presets', 'Google']);
  } catch (error) {
    throw new Error(`${error.stdout}${error.stderr}`);
  }
  return JSON.parse(/<script type="application\/ld\+json">([^]*?)<\/script>/.exec(html)[1]);
}

test('sdtt: a product in stock, held and sold out', async () => {
  await shop.stock('PAGE', 1, { en: 'Amber </script><b>lamp</b> "&" co' });
  let read = await product('PAGE');
  assert.equal(read.name, 'Amber </script><b>lamp</b> "&" co');
  assert.equal(read.sku, 'PAGE');
  assert.match(read.offers.availability, /^https:\/\/schema\.org\/(InStock|LimitedAvailability)$/);
  const lines = [{ sku: 'PAGE', quantity: 1 }];
  const held = await shop.ask('web', 'POST', '/v1/reservations', { lines }, { 'idempotency-key': 'page-1' });
  assert.equal((await product('PAGE')).offers.availability, 'https://schema.org/OutOfStock');
  await shop.ask('web', 'POST', `/v1/reservations/${held.body.id}/commit`);
  read = await product('PAGE');
  assert.equal(read.offers.availability, 'https://schema.org/OutOfStock');
});
