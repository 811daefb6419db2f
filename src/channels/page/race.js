// The race: six channels, each on its own wire, for the one unit that is left.
import { $, ms } from './dom.js';
import { Call, agent, marketplace, office, shop, site, sku_path, api, telegram, till, why_not, why_refused } from './wires.js';
import { panes } from './panes.js';
import { pause, watch } from './watch.js';

const sold = (sentence) => ({ sold: true, sentence });
const refused = (sentence) => ({ sold: false, sentence });

// ready(): what its customer had done before, up to the last press. go(): that press, and buying what it got.
const racers = {
  web: {
    press: 'Buy one',
    ready: async () => {},
    async go() {
      const event = await site.buy();
      return event.status === 201 ? sold('Sold on the site.') : refused(why_not(event));
    },
  },
  telegram: {
    press: 'Hold',
    async ready() {
      const event = await telegram.type(shop.title);
      const keys = event.json?.reply_markup?.inline_keyboard ?? [];
      const row = keys.length > 1 ? keys.find(([key]) => key.text.endsWith(`: ${shop.title}`)) : keys[0];
      return row?.[0].callback_data;
    },
    async go(hold) {
      let event = await telegram.press(hold ?? '', 1);
      const buy = event.json?.reply_markup?.inline_keyboard?.[0]?.find((key) => key.text === 'Buy');
      if (!buy) return refused(event.json?.text ?? why_not(event));
      event = await telegram.press(buy.callback_data, 1);
      return / bought/.test(event.json?.text) ? sold(event.json.text) : refused(event.json?.text ?? why_not(event));
    },
  },
  agent: {
    press: 'hold',
    ready: async () => (await agent.look()).result?.offer_id,
    async go(offer) {
      const event = await agent.hold(offer);
      if (!event.result?.granted) {
        const line = event.result?.lines?.[0];
        return refused(line ? `granted: false. ${line.requested} requested, ${line.available} available, ${line.held} held.` : why_not(event));
      }
      const bought = await agent.buy(event.result.hold_id);
      return bought.result?.sold ? sold('granted: true, then sold: true.') : refused(why_not(bought));
    },
  },
  voice: {
    press: 'yes',
    async ready() {
      const call = new Call();
      let event = await call.say(shop.title);
      const [, first] = /Do you mean (.*) or /.exec(event.said) ?? [];
      if (first) event = await call.say(first === shop.title ? 'the first one' : 'the second one');
      return { call, yes: await call.prepare('yes') };
    },
    async go({ call, yes }) {
      const event = await call.say('yes', yes);
      if (!/ held for you/.test(event.said)) return refused(event.said || why_not(event));
      const bought = await call.say('yes');
      return / bought/.test(bought.said) ? sold(bought.said) : refused(bought.said || why_not(bought));
    },
  },
  marketplace: {
    press: 'A new order',
    ready: async () => `R-${crypto.randomUUID().slice(0, 8)}`,
    async go(number) {
      const event = await marketplace.put(number, 1, 1);
      return event.status === 200 ? sold(`Order ${number} stands.`) : refused(why_not(event));
    },
  },
  pos: {
    press: 'sends 1',
    ready: async () => [till.sale()],
    async go(queue) {
      const event = await till.send(queue);
      const result = event.json?.results?.[0];
      return result?.status === 201 ? sold('Sold at the till.') : refused(why_refused(result?.body) ?? why_not(event));
    },
  },
};

const channels = Object.keys(racers);

// What the ledger says: units sold since that version.
export async function units_sold(version) {
  const event = await api('admin', 'GET', `/v1/skus/${sku_path()}/ledger?after=${version}&limit=500`, undefined, { quiet: true });
  return event.json.items.reduce((sum, entry) => sum - entry.on_hand_delta, 0);
}

// In a new order each time: who is sent first by a browser often is first.
async function all_at_once(ready) {
  const ends = [];
  const order = channels.map((_, i) => ({ i, at: Math.random() })).sort((a, b) => a.at - b.at);
  await Promise.all(order.map(async ({ i }) => { ends[i] = await racers[channels[i]].go(ready[i]); }));
  return ends;
}

// The version of the SKU at which its last unit is the only one.
export async function one_left() {
  const row = (await office.row()).json;
  if (!row?.tracked) throw new Error(`${shop.sku} is not counted: there is no last unit of it.`);
  const set = await office.one_left(row);
  if (set.status !== 201) throw new Error(why_not(set));
  return set.json.lines[0].version;
}

async function prepare() {
  const version = await one_left();
  const ready = await Promise.all(channels.map((channel) => racers[channel].ready()));
  // Six connections, open and idle.
  await Promise.all(channels.map(() => fetch('/healthz', { cache: 'no-store' })));
  return { version, ready };
}

export async function race() {
  const result = $('race-result');
  result.className = '';
  result.textContent = 'Setting the stock to one; six customers make up their minds …';
  channels.forEach((channel) => panes[channel].outcome(''));
  pause();
  try {
    const { version, ready } = await prepare();
    const began = performance.now();
    const ends = await all_at_once(ready);
    const took = performance.now() - began;
    ends.forEach((end, i) => {
      const pane = panes[channels[i]];
      pane.say(racers[channels[i]].press, 'ours');
      pane.outcome(`In the race: ${end.sentence}`, end.sold ? 'won' : 'lost');
    });
    const units = await units_sold(version);
    const over = Math.max(0, units - 1, ends.filter((end) => end.sold).length - 1);
    result.textContent = `sold ${units} · oversold ${over} · ${ms(took)} ms`;
    result.className = units === 1 && over === 0 ? 'good' : 'bad';
  } catch (error) {
    result.textContent = `The race did not begin. ${error.message}`;
    result.className = 'bad';
  }
  watch();
}
