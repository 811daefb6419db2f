// The report of `lastunit race --html` in a real browser: it asks nobody, fits a phone, can be read in light and dark, and
// says in words and marks what it says in colours.
//
// Guards against: a report that is broken where its reader opens it, which no one who made it sees.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { assert, shop, test } from '../clients/shop.mjs';
import { faint_texts, open, shot } from './browser.mjs';

const directory = mkdtempSync(join(tmpdir(), 'lastunit-report-'));
after(() => rmSync(directory, { recursive: true, force: true }));
const binary = process.env.LASTUNIT_BIN ?? new URL('../../build/lastunit', import.meta.url).pathname;
execFileSync(binary, ['race', '--workload', 'hot', '--buyers', '4', '--run-ms', '60', '--html', join(directory, 'race.html')], {
  env: { PATH: process.env.PATH, LASTUNIT_DATABASE_URL: shop.variable('DATABASE_URL'), LASTUNIT_REDIS_URL: shop.variable('REDIS_URL') },
  stdio: ['ignore', 'ignore', 'inherit'],
});

const report = (options) => open('/race.html', { url: `file://${directory}`, ...options });
const unfold = (page) => page.evaluate(() => document.querySelectorAll('details').forEach((node) => { node.open = true; }));

test('it tells what happened before anything is unfolded', async () => {
  const page = await report();
  assert.equal(await page.locator('h1').textContent(), 'The race for the last unit');
  const figures = await page.locator('.figures strong').allTextContents();
  assert.deepEqual(figures.slice(0, 2), ['2 of 1', '1 of 1']);
  assert.equal(await page.locator('article', { has: page.locator('h3', { hasText: /^naive$/ }) }).locator('p.bad').textContent(),
    '✗ sold 2; left by the row: -1');
  assert.equal(await page.locator('svg.plot:visible').count(), 7); // two timelines, two numbers of buyers, caches, holds
  await shot(page, 'report');
});

test('every plot has a name, and no text runs out of it', async () => {
  const page = await report();
  await unfold(page);
  const plots = await page.locator('svg.plot').all();
  assert.ok(plots.length > 10);
  for (const plot of plots) {
    const fault = await plot.evaluate((svg) => {
      const name = svg.getAttribute('aria-labelledby').split(' ').map((id) => document.getElementById(id)?.textContent);
      if (!name.every(Boolean)) return 'no name';
      const { width } = svg.viewBox.baseVal;
      const out = [...svg.querySelectorAll('text')].find((text) => text.getBBox().x < 0 || text.getBBox().x + text.getBBox().width > width);
      return out && `${name[0]}: ${out.textContent}`;
    });
    assert.equal(fault, undefined);
  }
});

for (const scheme of ['light', 'dark']) {
  test(`it fits a phone, and every text can be read (${scheme})`, async () => {
    const page = await report({ width: 390, height: 800, scheme });
    await unfold(page);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    assert.deepEqual(await page.evaluate(faint_texts), []);
    await shot(page, `report-${scheme}`);
  });
}

test('a keyboard reaches what scrolls and what unfolds', async () => {
  const page = await report();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the figures');
  const summary = page.locator('summary').first();
  await summary.focus();
  await page.keyboard.press('Enter');
  assert.equal(await summary.evaluate((node) => node.parentElement.open), true);
  assert.equal(await page.locator('.table:not([tabindex="0"][role=region][aria-label])').count(), 0);
  assert.equal(await page.locator('th:not([scope])').count(), 0);
});
