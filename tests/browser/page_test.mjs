// The page in a real browser: the race, a hold and its end, Redis broken and back, a phone, a keyboard, a visitor's own key.
//
// Guards against: a simulator that does not speak its wire; a page that says "sold" and is not asked by the ledger; figures
// that stand still when Redis goes; a page that only a mouse can use; a key that outlives its page.
import { execFileSync } from 'node:child_process';
import { assert, shop, test } from '../clients/shop.mjs';
import { faint_texts, open, shot } from './browser.mjs';

const LAMP = 'LAMP-FIREFLY';
await shop.stock(LAMP, 3, { en: 'Firefly jar lamp', ru: 'Лампа со светлячками' });
await shop.stock('MUG-RED', 24, { en: 'Red stoneware mug' });

const number = (page) => page.locator('#number');
const says = (locator, text) => locator.filter({ hasText: text }).waitFor();

async function available() {
  return (await shop.ask('web', 'GET', `/v1/availability/${LAMP}`)).body.available;
}

async function receive(delta) {
  const body = { lines: [{ sku: LAMP, delta }], reason: 'delivery', idempotency_key: crypto.randomUUID() };
  assert.equal((await shop.ask('admin', 'POST', '/v1/adjustments', body)).status, 201);
}

async function race(page) {
  await says(page.locator('.race-note'), 'setting the stock of this product to 1');
  await page.click('#race');
  await says(page.locator('#race-result'), /^sold 1 · oversold 0 · [\d.]+ ms$/);
  assert.equal(await page.locator('.pane[data-mood=won]').count(), 1);
  assert.equal(await page.locator('.pane[data-mood=lost]').count(), 5);
  for (const sentence of await page.locator('.pane[data-mood=lost] .outcome').allTextContents()) {
    assert.match(sentence, /^In the race: .*(0 available|held by another|sold out)/i);
  }
  // It stands until somebody goes on in that pane.
  const till = page.locator('.pane[data-channel=pos]');
  await till.getByRole('button', { name: 'Ring up, offline' }).click();
  assert.equal(await till.locator('.outcome').textContent(), '');
  assert.equal(await page.locator('.outcome:not(:empty)').count(), 5);
  await says(number(page), /^0$/);
}

test('six channels race for the last unit, and one has it', async () => {
  const page = await open('/');
  await says(number(page), /^\d+$/);
  for (let i = 0; i < 3; i++) {
    await race(page);
    assert.equal(await available(), 0);
  }
  for (const channel of ['Site', 'Telegram', 'Agent', 'Phone', 'Marketplace', 'Till']) {
    await page.locator('#events button', { hasText: channel }).first().waitFor();
  }
  await shot(page, 'race');
  shop.audit();
});

test('the index of problems fits a phone', async () => {
  const page = await open('/problems', { width: 390, height: 800 });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await says(page.locator('tr', { hasText: 'insufficient_stock' }), /409.*Not enough stock.*same answer/);
  await shot(page, 'problems-phone');
});

test('the naive control oversells beside ours, for a keyboard too', async () => {
  const page = await open('/');
  await says(number(page), /^\d+$/);
  const result = page.locator('#naive-result');
  for (let i = 0; i < 2; i++) {
    await page.locator('#naive').focus();
    await page.keyboard.press('Enter');
    await says(result, /^naive: sold 2 of 1 · ours: sold 1 of 1$/);
    assert.equal(await available(), 0);
    await page.locator('#naive:enabled').waitFor();
  }
  assert.match(await page.locator('#naive-why').textContent(), /its stock now says -1/);
  await page.locator('#naive').scrollIntoViewIfNeeded();
  await shot(page, 'naive');
  shop.audit();
});

test('a hold drains, and is over', async () => {
  await receive(1);
  const before = await available();
  const page = await open('/');
  await says(number(page), new RegExp(`^${before}$`));
  const site = page.locator('.pane[data-channel=web]');
  await site.getByLabel('hold for').selectOption('5');
  await site.getByRole('button', { name: 'Hold' }).click();
  const bar = page.locator('#holds progress');
  await bar.waitFor();
  await says(number(page), new RegExp(`^${before - 1}$`));
  const full = await bar.evaluate((node) => node.value / node.max);
  assert.ok(full > 0 && full <= 1);
  await page.waitForFunction((was) => (document.querySelector('#holds progress')?.value ?? 0) < was, full * 5);
  await shot(page, 'hold');
  await says(page.locator('#holds'), 'Nothing is held.');
  await says(number(page), new RegExp(`^${before}$`));
  await says(page.locator('#ledger'), 'expire');
});

test('Redis goes, everything is answered, and hits come back', async () => {
  await receive(1);
  const page = await open('/');
  await says(page.locator('#epoch'), /^open$/);
  await page.locator('#ticks .hit').first().waitFor({ state: 'attached' });
  await page.click('#break');
  await says(page.locator('#broken'), 'Redis was ended; dev starts it again.');
  await says(page.locator('#epoch'), /^(closing|closed)$/);
  const site = page.locator('.pane[data-channel=web]');
  const before = await available();
  await site.getByRole('button', { name: 'Buy' }).click();
  await says(site.getByRole('log'), 'It is yours.');
  await says(number(page), new RegExp(`^${before - 1}$`));
  await says(page.locator('#broken'), /Redis is back, in a new epoch\. First hit after [\d.]+ s\./);
  await says(page.locator('#epoch'), /^open$/);
  assert.equal(await page.locator('#ticks .failed').count(), 0);
  await shot(page, 'redis');
});

const offered = (page) => page.locator('#sku option').evaluateAll((options) => options.map(({ value }) => value));

test('what races and scenarios left behind is not offered, unless it is asked for', async () => {
  const left = ['race-000001', 'scenario-Ab3dEf9K-last-unit-1-LAMP'];
  for (const sku of [...left, 'race-bike']) await shop.ask('admin', 'PUT', `/v1/skus/${sku}`, { on_hand: 0 });
  const page = await open('/');
  await says(number(page), /^\d+$/);
  const list = await offered(page);
  assert.ok(list.includes(LAMP) && list.includes('race-bike'));
  assert.deepEqual(list.filter((sku) => left.includes(sku)), []);
  const asked = await open(`/?sku=${left[0]}`);
  await says(asked.locator('#title'), left[0]);
  assert.ok((await offered(asked)).includes(left[0]));
});

test('an answer opens into its trace, and closes where it was opened', async () => {
  const page = await open('/');
  await says(number(page), /^\d+$/);
  await page.locator('#sku').selectOption('MUG-RED');
  await says(page.locator('#title'), 'Red stoneware mug');
  await page.locator('.pane[data-channel=web]').getByRole('button', { name: 'Buy' }).click();
  const row = page.locator('#events button').first();
  await row.focus();
  await page.keyboard.press('Enter');
  const trace = page.getByRole('dialog');
  await trace.waitFor();
  for (const step of ['queue', 'lock', 'decide', 'write', 'COMMIT']) await trace.locator('.steps b', { hasText: step }).waitFor();
  const text = await trace.textContent();
  assert.match(text, /curl -i .*\$LASTUNIT_URL\/v1\/checkouts/);
  assert.doesNotMatch(text, new RegExp(shop.key('web')));
  await shot(page, 'trace');
  await page.keyboard.press('Escape');
  await trace.waitFor({ state: 'hidden' });
  assert.equal(await row.evaluate((node) => node === document.activeElement), true);
  // The ledger's own entry of it leads to the same trace.
  await page.locator('#ledger button', { hasText: 'MUG-RED' }).first().click();
  await trace.locator('.steps b', { hasText: 'COMMIT' }).waitFor();
});

// Each was answered under its key, or is a turn that is told again: the same once more is the same answer.
test('the curl of each exchange does the same', async () => {
  const page = await open('/');
  await says(number(page), /^\d+$/);
  await race(page);
  const variables = Object.fromEntries(['URL', 'KEY_ADMIN', 'KEY_WEB', 'KEY_AGENT', 'KEY_MARKETPLACE', 'KEY_POS', 'TELEGRAM_SECRET']
    .map((name) => [`LASTUNIT_${name}`, shop.variable(name)]));
  const trace = page.getByRole('dialog');
  const rows = page.locator('#events button');
  for (const row of await rows.all()) {
    await row.click();
    const curl = await trace.getByLabel('The same by curl').textContent();
    await page.keyboard.press('Escape');
    const env = { PATH: process.env.PATH, ...variables };
    const said = execFileSync('sh', ['-c', `${curl} -sS`], { env, encoding: 'utf8' });
    assert.equal(/^HTTP\/1.1 (\d+)/.exec(said)[1], await row.locator('.status').textContent(), curl);
  }
  assert.ok(await rows.count() >= 10);
  assert.equal(await available(), 0);
});

test('it is a page for a phone', async () => {
  const page = await open('/', { width: 390, height: 800, scheme: 'dark' });
  await says(number(page), /^\d+$/);
  await race(page);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.locator('#events button').first().click();
  const box = await page.getByRole('dialog').boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 390);
  await shot(page, 'phone');
});

test('a keyboard and a screen reader find their way', async () => {
  const page = await open('/');
  await says(number(page), /^\d+$/);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the channels');
  const nameless = await page.evaluate(() => {
    const named = (node) => node.getAttribute('aria-label') || node.getAttribute('aria-labelledby') || node.labels?.length
      || node.textContent.trim();
    const all = document.querySelectorAll('button, input, select, progress, dialog, [role=log], pre');
    return [...all].filter((node) => !named(node)).map((node) => node.outerHTML);
  });
  assert.deepEqual(nameless, []);
  for (const id of ['race-result', 'broken', 'naive-result']) assert.equal(await page.locator(`#${id}`).getAttribute('aria-live'), 'polite');
  const focus = await page.locator('#race').evaluate((node) => {
    node.focus();
    return getComputedStyle(node).outlineStyle;
  });
  assert.notEqual(focus, 'none');
  const ids = await page.evaluate(() => [...document.querySelectorAll('[id]')].map((node) => node.id));
  assert.equal(new Set(ids).size, ids.length);
});

for (const scheme of ['light', 'dark']) {
  test(`every text can be read (${scheme})`, async () => {
    const page = await open('/', { scheme });
    await says(number(page), /^\d+$/);
    await race(page);
    assert.deepEqual(await page.evaluate(faint_texts), []);
  });
}

test('under serve it watches with a key that is pasted, and keeps it nowhere', async () => {
  const { url } = await shop.beside([]);
  const page = await open('/', { url });
  await page.getByLabel(/A key of this service/).fill('lu_nobody');
  await page.getByRole('button', { name: 'Watch' }).click();
  await says(page.locator('#key-why'), 'not known');
  await page.getByLabel(/A key of this service/).fill(shop.key('web'));
  const ledger_began = page.waitForResponse((answer) => answer.url().includes('/v1/changes?') && answer.ok());
  await page.getByRole('button', { name: 'Watch' }).click();
  await ledger_began; // at `now`: what was sold before is not shown
  await says(number(page), new RegExp(`^${await available()}$`));
  assert.equal(await page.locator('#race').isVisible(), false);
  assert.equal(await page.locator('#break').isVisible(), false);
  assert.equal(await page.locator('#naive').isVisible(), false);
  assert.equal(await page.locator('#panes button:enabled').count(), 0);
  await receive(2);
  await says(number(page), new RegExp(`^${await available()}$`));
  await says(page.locator('#ledger'), 'adjust');
  assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0);
  await shot(page, 'serve');
  await page.reload();
  await page.getByLabel(/A key of this service/).waitFor();
});

test('a product has a page that stays true', async () => {
  await shop.stock('SHOP-1', 2, { en: 'A </script> lamp' });
  const page = await open('/shop/SHOP-1');
  const state = page.locator('#availability');
  await says(state, '2 in stock');
  assert.equal(await page.locator('h1').textContent(), 'A </script> lamp');
  await shot(page, 'product');
  const lines = [{ sku: 'SHOP-1', quantity: 1 }];
  const sell = () => shop.ask('pos', 'POST', '/v1/checkouts', { lines, idempotency_key: crypto.randomUUID() });
  await sell();
  await says(state, 'The last one');
  await sell();
  await says(state, 'Sold out');
  assert.equal(await state.getAttribute('class'), 'out');
});

test('five lines show the number on a page of another site', async () => {
  await shop.stock('SHOP-2', 4, { en: 'Kettle' });
  const product = await open('/shop/SHOP-2');
  await product.locator('summary').click();
  const html = await product.locator('pre').textContent();
  assert.equal(html.split('\n').length, 5);
  const page = await open('/', { url: 'http://localhost:3000', html, asks: [shop.url] });
  await says(page.locator('#stock'), /^4$/);
  assert.equal((await shop.ask('web', 'POST', '/v1/checkouts', {
    lines: [{ sku: 'SHOP-2', quantity: 3 }], idempotency_key: crypto.randomUUID(),
  })).status, 201);
  await says(page.locator('#stock'), /^1$/);
});
