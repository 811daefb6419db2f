// What the page watches: the figures (/v1/events), the holds, the ledger, and how the cache is (/readyz, /metrics).
import { $, el, clock, left } from './dom.js';
import { api, shop, sku_path } from './wires.js';
import { name_of, open_entry } from './trace.js';

const LEDGER_KEPT = 40;
const TICKS_KEPT = 90;
const CALM_MS = 1000;
const CLOSE_MS = 200; // while Redis is broken

const reader = () => (shop.playing ? 'admin' : 'read');
const quiet = { quiet: true };

/* --- the number ------------------------------------------------------------------------------------------------------- */

let figures = { version: 0 };

function take(item) {
  if (item.sku !== shop.sku || item.version < figures.version) return;
  const changed = item.available !== figures.available || item.held !== figures.held;
  figures = item;
  if (!changed) return;
  const number = $('number');
  number.textContent = item.tracked ? item.available : '∞';
  number.classList.toggle('none', item.tracked && item.available === 0);
  $('number-words').textContent = !item.tracked ? 'always in stock'
    : `left to sell, on every channel${item.held ? ` · ${item.held} held` : ''}`;
}

export async function look() {
  const event = await api(reader(), 'GET', `/v1/availability/${sku_path()}`, undefined, quiet);
  if (event.status === 200) take(event.json);
  return event;
}

export async function follow_sku() {
  figures = { version: 0 };
  await Promise.all([look(), show_holds()]);
}

/* --- the stream ------------------------------------------------------------------------------------------------------- */

// All changes, over fetch: an EventSource could not send the key as a header.
let stopping = null;

function take_event(block) {
  const lines = block.split('\n');
  const field = (name) => lines.find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1).trim();
  const kind = field('event');
  if (kind === 'reset') follow_sku();
  if (kind !== 'availability') return;
  const item = JSON.parse(field('data'));
  take(item);
  show_ledger();
  if (item.sku === shop.sku) show_holds();
}

async function read_stream(signal) {
  const headers = { Authorization: `Bearer ${shop.keys[reader()]}` };
  const answer = await fetch('/v1/events', { headers, signal, cache: 'no-store' });
  if (!answer.ok) throw new Error(String(answer.status));
  follow_sku(); // what happened while nobody listened
  show_ledger();
  const bytes = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await bytes.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop();
    blocks.forEach(take_event);
  }
}

export async function watch() {
  if (stopping) return;
  stopping = new AbortController();
  const { signal } = stopping;
  while (!signal.aborted) {
    await read_stream(signal).catch(() => {});
    if (!signal.aborted) await new Promise((resolve) => { setTimeout(resolve, 1000); });
  }
}

// A browser has six connections to one address. Six channels that race need them all.
export function pause() {
  stopping?.abort();
  stopping = null;
}

/* --- holds ------------------------------------------------------------------------------------------------------------ */

let holds = [];
let asked_again = 0;

function drain() {
  const now = performance.now();
  for (const hold of holds) {
    const seconds = Math.max(0, (hold.ends - now) / 1000);
    hold.bar.value = seconds;
    hold.time.textContent = left(seconds);
    if (!seconds && now - asked_again > 400) { // expired by now: the next answer says so
      asked_again = now;
      show_holds();
    }
  }
}

function hold_row(item, now) {
  const total = (new Date(item.expires_at) - new Date(item.created_at)) / 1000;
  const units = item.lines.find((line) => line.sku === shop.sku)?.quantity ?? 0;
  const bar = el('progress', { max: total, 'aria-label': `time left of a hold by ${name_of(item.channel)}` });
  const time = el('span', { class: 'took' });
  const release = shop.playing && el('button', { type: 'button', class: 'quiet', onclick: async () => {
    await api('admin', 'POST', `/v1/reservations/${item.id}/release`);
    show_holds();
  } }, 'Release');
  const row = el('li', {}, el('b', {}, `${name_of(item.channel)} · ${units}`), bar, time, release || undefined);
  return { row, bar, time, ends: now + item.expires_in_seconds * 1000 };
}

export async function show_holds() {
  const sku = shop.sku;
  const event = await api(reader(), 'GET', `/v1/reservations?sku=${sku_path()}&status=active&limit=20`, undefined, quiet);
  if (sku !== shop.sku) return;
  if (event.status === 403) {
    $('holds').replaceChildren(el('li', { class: 'empty' }, 'This key may not see holds: it lacks the scope sell.'));
    return;
  }
  if (event.status !== 200) return;
  const now = performance.now();
  holds = event.json.items.map((item) => hold_row(item, now));
  $('holds').replaceChildren(...(holds.length ? holds.map((hold) => hold.row) : [el('li', { class: 'empty' }, 'Nothing is held.')]));
  drain();
}

/* --- the ledger ------------------------------------------------------------------------------------------------------- */

let cursor = null;
let reading = null;

const signed = (n) => (n > 0 ? `+${n}` : n < 0 ? `−${-n}` : '0');

function deltas_of({ on_hand_delta, reserved_delta }) {
  const deltas = [[on_hand_delta, 'on hand'], [reserved_delta, 'held']].filter(([delta]) => delta);
  return deltas.map(([delta, what]) => `${signed(delta)} ${what}`).join(', ') || 'no change';
}

function ledger_row(entry) {
  return el('li', {}, el('button', { type: 'button', class: 'row', onclick: () => open_entry(entry) },
    el('span', { class: 'time' }, clock(new Date(entry.at))), el('b', {}, name_of(entry.channel)), el('span', {}, entry.kind),
    el('code', {}, `${entry.sku} v${entry.version}`),
    el('span', { class: 'delta' }, deltas_of(entry))));
}

async function read_ledger() {
  for (let more = true; more;) {
    const event = await api(reader(), 'GET', `/v1/changes?limit=100&cursor=${cursor ?? 'now'}`, undefined, quiet);
    if (event.status !== 200) {
      if (event.status === 410) cursor = null;
      return;
    }
    const { items, next } = event.json;
    cursor = next;
    if (items.length) $('ledger').querySelector('.empty')?.remove();
    $('ledger').prepend(...items.map(ledger_row).reverse());
    while ($('ledger').children.length > LEDGER_KEPT) $('ledger').lastChild.remove();
    more = items.length === 100;
  }
}

// One reading at a time; what is told meanwhile makes another.
function show_ledger() {
  reading = (reading ?? Promise.resolve()).then(read_ledger);
}

/* --- coherence -------------------------------------------------------------------------------------------------------- */

let broken_at = 0;
let broken_until = 0;
let came_closed = false; // since then the epoch was seen closed
let metrics_due = 0;

function tick(event) {
  const status = event.answer_headers['cache-status'] ?? '';
  const kind = event.status !== 200 ? 'failed' : status.endsWith('hit') ? 'hit' : status.endsWith('miss') ? 'miss' : 'bypass';
  $('ticks').append(el('i', { class: kind }));
  while ($('ticks').children.length > TICKS_KEPT) $('ticks').firstChild.remove();
  $('last-read').textContent = { hit: 'Redis', miss: 'PostgreSQL, and filled', bypass: 'PostgreSQL', failed: 'nobody' }[kind];
  if (came_closed && kind === 'hit') {
    came_closed = false;
    broken_until = 0;
    $('broken').textContent = `Redis is back, in a new epoch. First hit after ${((performance.now() - broken_at) / 1000).toFixed(1)} s.`;
  }
}

function say(id, text, mood = '') {
  if ($(id).textContent !== text) $(id).textContent = text;
  $(id).className = mood;
}

async function show_ready() {
  const answer = await fetch('/readyz', { cache: 'no-store' }).then((r) => r.json()).catch(() => null);
  if (!answer) return say('epoch', 'no answer', 'bad');
  say('epoch', answer.epoch, answer.epoch === 'open' ? 'good' : 'warn');
  came_closed ||= performance.now() < broken_until && answer.epoch !== 'open';
  say('lease', answer.lease ? 'held: hits may be served' : 'none: every read asks PostgreSQL', answer.lease ? 'good' : 'warn');
  say('redis', answer.redis_reachable === null ? 'not configured' : answer.redis_reachable ? 'reachable' : 'away',
    answer.redis_reachable === false ? 'bad' : '');
}

async function show_metrics() {
  const text = await fetch('/metrics', { cache: 'no-store' }).then((r) => r.text()).catch(() => '');
  const value = (name) => Number(new RegExp(`^lastunit_${name} (\\d+)`, 'm').exec(text)?.[1] ?? 0);
  const hits = value('lookup_hits_total');
  const all = hits + value('lookup_misses_total') + value('lookup_bypasses_total');
  say('hits', all ? `${((100 * hits) / all).toFixed(1)} % of ${all.toLocaleString()}` : 'no look-up yet');
  const wrong = value('scrub_wrong_total');
  const compared = value('scrub_checked_total');
  say('scrub', `${compared.toLocaleString()} ${compared === 1 ? 'cell' : 'cells'} compared, ${wrong} wrong`, wrong ? 'bad' : 'good');
}

async function look_after_cache() {
  const close = performance.now() < broken_until;
  if (!document.hidden && stopping) {
    const [seen] = await Promise.all([look(), show_ready()]);
    tick(seen);
    if (close || performance.now() > metrics_due) {
      metrics_due = performance.now() + 3000;
      await show_metrics();
    }
  }
  setTimeout(look_after_cache, close ? CLOSE_MS : CALM_MS);
}

export function look_closely(for_ms) {
  broken_at = performance.now();
  broken_until = broken_at + for_ms;
}

export function begin() {
  watch();
  look_after_cache();
  setInterval(drain, 250);
}
