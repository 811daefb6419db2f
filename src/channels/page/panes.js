// The six panes: each a small simulator of what stands at the other end of a wire.
import { $, el, keep_end } from './dom.js';
import { Call, agent, marketplace, on_event, shop, site, telegram, till, why_not, why_refused } from './wires.js';
import { answer_text, request_text } from './trace.js';

export const panes = {}; // by channel: { root, log, say(), outcome(), forget() }

function button(label, work, properties = {}) {
  const node = el('button', { type: 'button', ...properties, onclick: async () => {
    node.disabled = true;
    try { await work(); } finally { node.disabled = false; }
  } }, label);
  return node;
}

function pane(channel, title, wire) {
  const log = el('div', { class: 'screen', role: 'log', 'aria-label': `${title}: what is said`, tabindex: '0' });
  const controls = el('div', { class: 'controls' });
  const outcome = el('p', { class: 'outcome', role: 'status' });
  const request = el('pre', { tabindex: '0', 'aria-label': `${title}: request` });
  const answer = el('pre', { tabindex: '0', 'aria-label': `${title}: answer` });
  const root = el('article', { class: 'pane', 'data-channel': channel, 'aria-label': title },
    el('header', {}, el('h3', {}, title), el('code', {}, wire)), log, controls, outcome,
    el('details', {}, el('summary', {}, 'On the wire'), el('h4', {}, 'Request'), request, el('h4', {}, 'Answer'), answer));
  $('panes').append(root);
  on_event((event) => {
    if (event.who !== channel) return;
    request.textContent = request_text(event);
    answer.textContent = answer_text(event);
  });
  const it = {
    root,
    controls,
    say(text, side = 'theirs') {
      const line = el('p', { class: side }, text);
      log.append(line);
      while (log.children.length > 30) log.firstChild.remove();
      keep_end(log);
      return line;
    },
    outcome(text, mood = '') {
      outcome.textContent = text;
      root.dataset.mood = mood;
    },
  };
  // What came of a race stands until somebody goes on in this pane.
  root.addEventListener('click', ({ target }) => { if (target.closest('button')) it.outcome(''); });
  it.says = (event, good, text) => it.say(good ? text : why_not(event), good ? 'theirs good' : 'theirs bad');
  panes[channel] = it;
  return it;
}

function site_pane() {
  const it = pane('web', 'Site', 'POST /v1/checkouts');
  let held = null;
  const pay = button('Pay', async () => {
    const event = await site.pay(held);
    it.says(event, event.status === 200, 'Paid. The hold became a sale.');
    hold_is(null);
  });
  const release = button('Let go', async () => {
    const event = await site.release(held);
    it.says(event, event.status === 200, event.json?.status === 'expired' ? 'It had ended before.' : 'Let go. It is no longer held.');
    hold_is(null);
  });
  function hold_is(id) {
    held = id;
    pay.hidden = release.hidden = !id;
  }
  const seconds = el('select', { 'aria-label': 'hold for' }, ...[['5', '5 s'], ['60', '1 min'], ['900', '15 min']].map(
    ([value, text]) => el('option', { value, selected: value === '60' }, text)));
  it.controls.append(
    button('Buy', async () => {
      it.say('Buy one', 'ours');
      const event = await site.buy();
      it.says(event, event.status === 201, 'Thank you. It is yours.');
    }),
    button('Hold', async () => {
      it.say('Keep one for me', 'ours');
      const event = await site.hold(Number(seconds.value));
      it.says(event, event.status === 201, `Held for ${event.json?.expires_in_seconds} seconds.`);
      if (event.status === 201) hold_is(event.json.id);
    }), seconds, pay, release);
  hold_is(null);
}

function telegram_pane() {
  const it = pane('telegram', 'Telegram', 'POST /channels/telegram');
  let message_id = 100;
  it.reply = (event) => {
    const reply = event.json;
    if (!reply?.text) return it.say(event.status === 200 ? '(nothing)' : why_not(event), 'theirs bad');
    const line = it.say(reply.text);
    const id = message_id++;
    const keys = (reply.reply_markup?.inline_keyboard ?? []).flat().map(({ text, callback_data }) => button(text, async () => {
      it.say(text, 'ours');
      it.reply(await telegram.press(callback_data, id));
    }, { class: 'key' }));
    if (keys.length) line.append(el('span', { class: 'keys' }, ...keys));
    keep_end(line.parentNode);
    return line;
  };
  const words = el('input', { 'aria-label': 'message to the bot', value: 'red mug?', autocomplete: 'off', enterkeyhint: 'send' });
  const form = el('form', { class: 'type' }, words, el('button', {}, 'Send'));
  form.addEventListener('submit', async (submit) => {
    submit.preventDefault();
    it.say(words.value, 'ours');
    it.reply(await telegram.type(words.value));
  });
  it.suggest = (text) => { words.value = text; };
  it.controls.append(form);
}

function agent_pane() {
  const it = pane('agent', 'Agent', 'POST /mcp');
  let offer = null;
  let hold = null;
  const said = (event, good) => it.say(event.fault ?? JSON.stringify(event.result), `theirs code ${good ? 'good' : 'bad'}`);
  it.controls.append(
    button('check_stock', async () => {
      it.say('check_stock', 'ours code');
      const event = await agent.look();
      offer = event.result?.offer_id ?? null;
      said(event, offer);
    }),
    button('hold', async () => {
      it.say('hold', 'ours code');
      offer ??= (await agent.look()).result?.offer_id;
      const event = await agent.hold(offer);
      hold = event.result?.hold_id ?? null;
      said(event, event.result?.granted);
      offer = null; // an offer holds once
    }),
    button('buy', async () => {
      if (!hold) return it.say('There is no hold to buy. Hold first.', 'theirs bad');
      it.say('buy', 'ours code');
      const event = await agent.buy(hold);
      return said(event, event.result?.sold);
    }),
    button('release_hold', async () => {
      if (!hold) return it.say('There is no hold to release.', 'theirs bad');
      it.say('release_hold', 'ours code');
      const event = await agent.release(hold);
      return said(event, event.result?.released);
    }));
}

function phone_pane() {
  const it = pane('voice', 'Phone', 'POST /channels/twilio');
  let call = null;
  async function speak(text) {
    if (!call || call.over) {
      call = new Call();
      if (!text) it.say('(dials)', 'ours');
    }
    if (text) it.say(text, 'ours');
    const event = await call.say(text);
    it.say(event.said || why_not(event), event.said ? 'theirs' : 'theirs bad');
    if (call.over) it.say('(the line is closed)');
  }
  const words = el('input', { 'aria-label': 'words to the phone', value: 'red mug', autocomplete: 'off', enterkeyhint: 'send' });
  const form = el('form', { class: 'type' }, words, el('button', {}, 'Say'));
  form.addEventListener('submit', (submit) => {
    submit.preventDefault();
    speak(words.value);
  });
  it.suggest = (text) => { words.value = text; };
  const dial = () => {
    call = null;
    return speak('');
  };
  it.controls.append(form, button('Dial', dial), button('“Yes”', () => speak('yes')), button('“No”', () => speak('no')));
}

function marketplace_pane() {
  const it = pane('marketplace', 'Marketplace', 'PUT /v1/orders/{number}');
  let order = null;
  async function put(quantity) {
    it.say(`${order.number}, version ${order.version}: ${quantity ? `${quantity} × ${shop.sku}` : 'cancelled'}`, 'ours');
    const event = await marketplace.put(order.number, order.version, quantity);
    it.says(event, event.status === 200, event.json && `The order stands at version ${event.json.version}: ${event.json.status}.`);
  }
  it.controls.append(
    button('New order', () => {
      order = { number: `M-${Date.now() % 1e8}`, version: 1, quantity: 1 };
      return put(1);
    }),
    button('Tell it again', () => (order ? put(order.quantity) : it.say('There is no order yet.', 'theirs bad'))),
    button('Cancel it', () => {
      if (!order) return it.say('There is no order yet.', 'theirs bad');
      order = { ...order, version: order.version + 1, quantity: 0 };
      return put(0);
    }));
}

function till_pane() {
  const it = pane('pos', 'Till', 'POST /v1/batch');
  let queue = [];
  let sent = [];
  const count = el('span', { class: 'muted' }, 'queue: 0');
  const show = () => { count.textContent = `queue: ${queue.length}`; };
  async function send(operations) {
    if (!operations.length) return it.say('The queue is empty. Ring something up first.', 'theirs bad');
    it.say(`sends ${operations.length}`, 'ours');
    const event = await till.send(operations);
    if (event.status !== 200) return it.say(why_not(event), 'theirs bad');
    event.json.results.forEach(({ status, body, idempotent_replayed: again }, i) => {
      const words = status === 201 ? `sold${again ? ', as answered before' : ''}` : why_refused(body);
      it.say(`${i + 1}. ${status} ${words}`, `theirs ${status === 201 ? 'good' : 'bad'}`);
    });
    sent = operations;
    return undefined;
  }
  it.controls.append(
    button('Ring up, offline', () => {
      queue.push(till.sale());
      it.say('rung up while offline', 'ours');
      show();
    }),
    button('Send the queue', async () => {
      const operations = queue;
      queue = [];
      show();
      await send(operations);
    }),
    button('Send it again', () => send(sent)), count);
}

export function make_panes() {
  site_pane();
  telegram_pane();
  agent_pane();
  phone_pane();
  marketplace_pane();
  till_pane();
}

// What people would call the product.
export function suggest(words) {
  panes.telegram.suggest(`${words}?`);
  panes.voice.suggest(words);
}

export function close_panes() {
  document.querySelectorAll('#panes button, #panes input, #panes select').forEach((node) => { node.disabled = true; });
}
