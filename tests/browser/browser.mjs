// A browser for the tests: Debian's chromium, one for a file, a page for a test.
//
//   const page = await open('/', { width: 390 });
//   const page = await open('/', { url: 'http://localhost:3000', html: '…', asks: [shop.url] });    a page of another site
//
// A page may complain of nothing: what it throws, what its policy forbids, and whatever it asks of another host fails the
// test that opened it, when it is closed. Refusals (4xx) are answers, not complaints. SHOTS=DIR keeps screenshots.
import { chromium } from 'playwright-core';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach } from 'node:test';
import { assert, shop } from '../clients/shop.mjs';

const quiet = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: quiet });
after(() => browser.close());

let contexts = [];
let complaints = [];

export async function open(path, { width = 1280, height = 900, scheme = 'light', url = shop.url, asks = [], html } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: 'reduce' });
  contexts.push(context);
  // Another site's page is nobody's here, for it comes from no address: it asks a service on loopback only with leave.
  if (html) await context.grantPermissions(['local-network-access'], { origin: url });
  const page = await context.newPage();
  page.setDefaultTimeout(30000);
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' && !/responded with a status of 4/.test(message.text())) complaints.push(message.text());
  });
  page.on('request', (request) => {
    if (![url, ...asks].some((known) => request.url().startsWith(known))) complaints.push(`asks ${request.url()}`);
  });
  if (html) await page.route(url + path, (route) => route.fulfill({ contentType: 'text/html', body: html }));
  await page.goto(url + path);
  return page;
}

afterEach(async () => {
  const said = complaints;
  await Promise.all(contexts.map((context) => context.close()));
  contexts = [];
  complaints = [];
  assert.deepEqual(said, []);
});

export async function shot(page, name) {
  if (!process.env.SHOTS) return;
  mkdirSync(process.env.SHOTS, { recursive: true });
  await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`), fullPage: true });
}

// Runs in the page. Contrast by WCAG 2.1, 1.4.3, of every text that is seen.
export function faint_texts() {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (node) => {
    const color = rgba(getComputedStyle(node).backgroundColor);
    return color[3] === 255 ? color : behind(node.parentElement);
  };
  const has_text = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  return [...document.querySelectorAll('body *')]
    .filter((node) => node.checkVisibility() && !node.disabled && has_text(node))
    .flatMap((node) => {
      const pair = [luminance(rgba(getComputedStyle(node).color)), luminance(behind(node))].sort((x, y) => y - x);
      const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
      return ratio < 4.5 ? [`${ratio.toFixed(2)} ${node.outerHTML.slice(0, 120)}`] : [];
    });
}
