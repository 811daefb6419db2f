// The wires: what each channel sends, to the letter, and what it is answered. Nothing here knows a rule of stock.
//
// exchange() is the only way out. Every exchange becomes an event: request, answer, how long it took, where the service says
// that the time went (Server-Timing), and the curl that does the same.

export const shop = {
  keys: {}, // by channel; telegram_secret, twilio_token, public_url; { read } when a visitor pasted one
  playing: false, // the keys are those of `lastunit dev`: the panes may sell
  sku: '',
  title: '',
};

const listeners = [];
export const on_event = (listener) => listeners.push(listener);

const variables = {
  telegram_secret: 'LASTUNIT_TELEGRAM_SECRET',
  twilio_token: 'LASTUNIT_TWILIO_TOKEN',
  read: 'KEY',
};

// A secret is shown by the name that it has in dev.env.
function without_secrets(text) {
  for (const [name, value] of Object.entries(shop.keys)) {
    if (value && name !== 'public_url') text = text.replaceAll(value, `$${variables[name] ?? `LASTUNIT_KEY_${name.toUpperCase()}`}`);
  }
  return text;
}

const in_double_quotes = (text) => `"${text.replace(/(["\\`])/g, '\\$1')}"`;
const in_single_quotes = (text) => `'${text.replaceAll("'", "'\\''")}'`;

function curl_of({ method, path, headers, body }) {
  const parts = [`curl -i${method === 'GET' || (method === 'POST' && body) ? '' : ` -X ${method}`} "$LASTUNIT_URL${path}"`];
  for (const [name, value] of Object.entries(headers)) {
    parts.push(`-H ${in_double_quotes(without_secrets(`${name}: ${value}`))}`);
  }
  if (body) parts.push(`-d ${in_single_quotes(body)}`);
  return parts.join(' \\\n  ');
}

// 'queue;dur=0.1, operation;desc="0190…"' -> [{ step: 'queue', ms: 0.1 }, …] and the operation's id
function read_timing(header) {
  const steps = [];
  let operation;
  for (const part of (header ?? '').split(', ')) {
    const [, step, ms] = /^(\w+);dur=([\d.]+)$/.exec(part) ?? [];
    if (step) steps.push({ step, ms: Number(ms) });
    operation ??= /^operation;desc="(.+)"$/.exec(part)?.[1];
  }
  return { steps, operation };
}

export async function exchange(who, method, path, headers = {}, body = undefined, { quiet = false } = {}) {
  const event = { who, method, path, headers, body, at: new Date(), curl: curl_of({ method, path, headers, body }) };
  const began = performance.now();
  try {
    const answer = await fetch(path, { method, headers, body, cache: 'no-store' });
    event.status = answer.status;
    event.answer = await answer.text();
    event.answer_headers = Object.fromEntries(answer.headers);
    Object.assign(event, read_timing(answer.headers.get('server-timing')));
  } catch (error) {
    event.status = 0;
    event.answer = String(error.message ?? error);
    event.answer_headers = {};
    event.steps = [];
  }
  event.ms = performance.now() - began;
  try {
    event.json = JSON.parse(event.answer);
  } catch { /* not every wire speaks JSON */ }
  event.shown_headers = Object.fromEntries(Object.entries(headers).map(([k, v]) => [k, without_secrets(v)]));
  if (!quiet) listeners.forEach((listener) => listener(event));
  return event;
}

const new_key = (prefix) => `${prefix}-${crypto.randomUUID()}`;

// The API, as the principal of a channel.
export function api(channel, method, path, body, { key, quiet } = {}) {
  const headers = { Authorization: `Bearer ${shop.keys[channel] ?? shop.keys.read}` };
  if (key) headers['Idempotency-Key'] = key;
  if (body) headers['Content-Type'] = 'application/json';
  return exchange(channel, method, path, headers, body && JSON.stringify(body), { quiet });
}

export const sku_path = () => encodeURIComponent(shop.sku);
const one = () => [{ sku: shop.sku, quantity: 1 }];

export const site = {
  buy: () => api('web', 'POST', '/v1/checkouts', { lines: one() }, { key: new_key('order') }),
  hold: (seconds) => api('web', 'POST', '/v1/reservations', { lines: one(), ttl_seconds: seconds }, { key: new_key('cart') }),
  pay: (id) => api('web', 'POST', `/v1/reservations/${id}/commit`),
  release: (id) => api('web', 'POST', `/v1/reservations/${id}/release`),
};

let updates = Date.now();
const chat = { id: 4711, type: 'private' };
const person = { id: 4711, first_name: 'Ada', language_code: 'en' };

function update(content) {
  const headers = {
    'Content-Type': 'application/json',
    'X-Telegram-Bot-Api-Secret-Token': shop.keys.telegram_secret,
  };
  return exchange('telegram', 'POST', '/channels/telegram', headers, JSON.stringify({ update_id: updates++, ...content }));
}

export const telegram = {
  type: (text) => update({ message: { message_id: 1, from: person, chat, date: Math.floor(Date.now() / 1000), text } }),
  press: (data, message_id) =>
    update({ callback_query: { id: String(updates), from: person, chat_instance: '1', data, message: { message_id, chat, text: '' } } }),
};

let calls = 0;

export const agent = {
  async call(name, args) {
    const headers = {
      Authorization: `Bearer ${shop.keys.agent}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': '2025-11-25',
    };
    const body = { jsonrpc: '2.0', id: ++calls, method: 'tools/call', params: { name, arguments: args } };
    const event = await exchange('agent', 'POST', '/mcp', headers, JSON.stringify(body));
    event.result = event.json?.result?.structuredContent;
    event.fault = event.json?.error?.message ?? (event.result ? undefined : event.json?.result?.content?.[0]?.text);
    return event;
  },
  look: () => agent.call('check_stock', { skus: [shop.sku] }),
  hold: (offer_id) => agent.call('hold', { offer_id, lines: one() }),
  buy: (hold_id) => agent.call('buy', { hold_id }),
  release: (hold_id) => agent.call('release_hold', { hold_id }),
};

// Twilio: base64(HMAC-SHA1(token, address, then every field's name and value, by name)).
async function sign(address, fields) {
  const bytes = new TextEncoder();
  const message = address + Object.keys(fields).sort().map((name) => name + fields[name]).join('');
  const key = await crypto.subtle.importKey('raw', bytes.encode(shop.keys.twilio_token), { name: 'HMAC', hash: 'SHA-1' }, false, ['sign']);
  const mac = await crypto.subtle.sign('HMAC', key, bytes.encode(message));
  return btoa(String.fromCharCode(...new Uint8Array(mac)));
}

export class Call {
  sid = `CA${crypto.randomUUID().replaceAll('-', '')}`;
  address = '/channels/twilio?language=en';
  over = false;

  async prepare(speech) {
    const fields = { CallSid: this.sid, From: '+15550100', SpeechResult: speech };
    const headers = {
      'Content-Type': 'application/x-www-form-urlencoded',
      'X-Twilio-Signature': await sign((shop.keys.public_url || location.origin) + this.address, fields),
    };
    return { headers, body: new URLSearchParams(fields).toString() };
  }

  async say(speech, prepared = undefined) {
    const { headers, body } = prepared ?? await this.prepare(speech);
    const event = await exchange('voice', 'POST', this.address, headers, body);
    const twiml = new DOMParser().parseFromString(event.answer, 'text/xml');
    event.said = [...twiml.querySelectorAll('Say')].map((node) => node.textContent).join(' ');
    this.over = event.status !== 200 || twiml.querySelector('Hangup') !== null;
    this.address = twiml.querySelector('Gather')?.getAttribute('action') ?? this.address;
    return event;
  }
}

export const marketplace = {
  put: (number, version, quantity) =>
    api('marketplace', 'PUT', `/v1/orders/${encodeURIComponent(number)}`, { version, lines: quantity ? one() : [] }),
};

export const till = {
  sale: () => ({ operation: 'checkout', idempotency_key: new_key('till-3'), lines: one() }),
  send: (operations) => api('pos', 'POST', '/v1/batch', { operations }),
};

export const office = {
  // The last unit: whatever is held or kept back stays, and one is left to sell.
  one_left: (row) =>
    api('admin', 'POST', '/v1/adjustments', {
      lines: [{ sku: shop.sku, set: row.reserved + row.safety_stock + 1, change_from: null }], reason: 'race for the last unit',
    }, { key: new_key('race') }),
  receive: (delta) =>
    api('admin', 'POST', '/v1/adjustments', { lines: [{ sku: shop.sku, delta }], reason: 'delivery' }, { key: new_key('delivery') }),
  row: () => api('admin', 'GET', `/v1/skus/${sku_path()}`, undefined, { quiet: true }),
};

// Why not, in the words of the answer: what was short, or its detail.
export function why_refused(problem) {
  const line = problem?.lines?.[0];
  if (problem?.code !== 'insufficient_stock' || !line) return problem?.detail;
  const until = line.next_release_at ? `, until ${new Date(line.next_release_at).toLocaleTimeString([], { hour12: false })} at the latest` : '';
  return `${problem.title}: ${line.requested} wanted, ${line.available} available${line.held ? `, ${line.held} held by others${until}` : ''}.`;
}

export const why_not = (event) => why_refused(event.json) ?? event.fault ?? (event.answer || 'no answer');
