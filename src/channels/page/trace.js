// Traces: every exchange of this page, and what the service says of where its time went.
import { $, el, clock, ms, pretty } from './dom.js';
import { on_event } from './wires.js';

const KEPT = 60;
const names = { web: 'Site', telegram: 'Telegram', agent: 'Agent', voice: 'Phone', marketplace: 'Marketplace', pos: 'Till', admin: 'Office' };
export const name_of = (channel) => names[channel] ?? channel;

const steps = {
  queue: ['queue', 'waits for a writer; carts of one SKU gather'],
  lock: ['lock', 'BEGIN, the rows locked in one order, read inside the lock'],
  decide: ['decide', 'a pure function over what was read'],
  write: ['write', 'rows, ledger and idempotency keys in one pipeline'],
  intend: ['intend', 'the cell is marked in Redis, beside the write'],
  commit: ['COMMIT', 'durable in PostgreSQL'],
  publish: ['publish', 'the new figures go to Redis, then the answer goes out'],
};

const events = [];
export const event_of_operation = (id) => id && events.find((event) => event.operation === id);

function bars(event) {
  if (!event.steps?.length) return el('p', { class: 'muted' }, 'No operation: nothing was locked, written or published.');
  const longest = Math.max(...event.steps.map((step) => step.ms));
  return el('ol', { class: 'steps' }, ...event.steps.map(({ step, ms: took }) => {
    const bar = el('span', { class: 'bar' });
    bar.style.inlineSize = `${Math.max(1, (100 * took) / longest)}%`;
    return el('li', {}, el('b', {}, steps[step]?.[0] ?? step), el('span', { class: 'track' }, bar),
      el('span', { class: 'took' }, `${ms(took)} ms`), el('small', {}, steps[step]?.[1] ?? ''));
  }));
}

const lines_of = (headers) => Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join('\n');

export function request_text(event) {
  return `${event.method} ${event.path}\n${lines_of(event.shown_headers)}${event.body ? `\n\n${pretty(event.body)}` : ''}`;
}

export function answer_text(event) {
  return `${event.status || 'no answer'}\n\n${pretty(event.answer)}`;
}

const block = (title, text) => [el('h3', {}, title), el('pre', { tabindex: '0', 'aria-label': title }, text)];

function show(title, ...content) {
  $('trace-title').textContent = title;
  $('trace-body').replaceChildren(...content);
  $('trace').showModal();
}

export function open_trace(event) {
  show(`${name_of(event.who)}: ${event.method} ${event.path.split('?')[0]}`,
    el('p', { class: 'muted' }, `${clock(event.at)} · ${event.status || 'no answer'} · ${ms(event.ms)} ms in the browser`),
    bars(event), ...block('The same by curl', event.curl), ...block('Request', request_text(event)),
    ...block('Answer', `${event.status}\n${lines_of(event.answer_headers)}\n\n${pretty(event.answer)}`));
}

export function open_entry(entry) {
  const event = event_of_operation(entry.operation_id);
  if (event) return open_trace(event);
  const path = `/v1/skus/${encodeURIComponent(entry.sku)}/ledger?after=${entry.version - 1}&limit=1`;
  return show(`${entry.sku}, version ${entry.version}`,
    el('p', { class: 'muted' }, 'Not made by this page, so its steps were timed for somebody else. This is its entry in the ledger.'),
    ...block('Entry', JSON.stringify(entry, null, 2)),
    ...block('The same by curl', `curl "$LASTUNIT_URL${path}" \\\n  -H "Authorization: Bearer $LASTUNIT_KEY_WEB"`));
}

on_event((event) => {
  events.unshift(event);
  events.length = Math.min(events.length, KEPT);
  const good = event.status >= 200 && event.status < 300;
  const list = $('events');
  list.querySelector('.empty')?.remove();
  list.prepend(el('li', {}, el('button', { type: 'button', class: 'row', onclick: () => open_trace(event) },
    el('span', { class: 'time' }, clock(event.at)), el('b', {}, name_of(event.who)),
    el('code', {}, `${event.method} ${event.path.split('?')[0]}`),
    el('span', { class: `status ${good ? 'good' : 'bad'}` }, String(event.status || '–')),
    el('span', { class: 'took' }, `${ms(event.ms)} ms`))));
  while (list.children.length > KEPT) list.lastChild.remove();
});

$('trace-close').addEventListener('click', () => $('trace').close());
