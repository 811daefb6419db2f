// The page begins: keys, a product, and everything that watches it.
import { $, el } from './dom.js';
import { api, office, shop, why_not } from './wires.js';
import { close_panes, make_panes, suggest } from './panes.js';
import { begin, follow_sku, look_closely } from './watch.js';
import { race } from './race.js';
import { naive_beside_ours } from './naive.js';

const FAVOURITE = 'LAMP-FIREFLY';
const RETURN_MS = 12000;
const TRIAL = /^(scenario-\w{8}-|race-\d{6}$)/; // what `lastunit scenario` and `lastunit race --url` leave behind, sold out

const titles = new Map();

function choose(sku) {
  shop.sku = sku;
  shop.title = titles.get(sku) ?? sku;
  $('title').textContent = shop.title;
  $('product-page').href = `/shop/${encodeURIComponent(sku)}`;
  suggest(shop.title);
}

async function list_products() {
  const event = await api(shop.playing ? 'admin' : 'read', 'GET', '/v1/skus?limit=200', undefined, { quiet: true });
  if (event.status !== 200) throw new Error(why_not(event));
  const products = event.json.items.filter(({ sku }) => !TRIAL.test(sku));
  for (const item of products) titles.set(item.sku, item.titles.en ?? Object.values(item.titles)[0] ?? item.sku);
  if (!titles.size) throw new Error('There is no product yet. Make one: PUT /v1/skus/{sku}.');
  const wanted = new URLSearchParams(location.search).get('sku'); // of a catalogue that is longer than the list
  if (wanted) titles.set(wanted, titles.get(wanted) ?? wanted);
  choose(wanted ?? (titles.has(FAVOURITE) ? FAVOURITE : titles.keys().next().value));
  $('sku').replaceChildren(...[...titles].map(([sku, title]) => el('option', { value: sku }, `${sku} · ${title}`)));
  $('sku').value = shop.sku;
  $('sku').disabled = false;
  $('sku').addEventListener('change', () => {
    choose($('sku').value);
    follow_sku();
  });
}

function on_press(id, work) {
  $(id).addEventListener('click', async () => {
    $(id).disabled = true;
    try { await work(); } finally { $(id).disabled = false; }
  });
}

async function break_redis() {
  look_closely(RETURN_MS);
  const answer = await fetch('/page-break-redis', { method: 'POST' });
  $('broken').textContent = answer.status === 202 ? 'Redis was ended; dev starts it again. Everything goes on selling, from PostgreSQL.' : 'Redis could not be ended.';
  // The next write finds out, closes the epoch, and is answered.
  await office.receive(1);
  await office.receive(-1);
}

function play() {
  document.body.dataset.mode = 'play';
  on_press('race', race);
  on_press('naive', naive_beside_ours);
  on_press('deliver', () => office.receive(1));
  on_press('break', break_redis);
}

function read_only() {
  document.body.dataset.mode = 'read';
  close_panes();
}

async function start() {
  await list_products();
  $('key-form').hidden = true;
  if (shop.playing) play();
  else read_only();
  begin();
}

// A key that a visitor pastes lives in this page's memory and nowhere else.
function ask_for_key() {
  document.body.dataset.mode = 'ask';
  close_panes();
  $('key-form').hidden = false;
  $('key-form').addEventListener('submit', async (submit) => {
    submit.preventDefault();
    shop.keys = { read: $('key').value.trim() };
    try {
      await start();
      $('key').value = '';
      $('sku').focus();
    } catch (error) {
      $('key-why').textContent = error.message;
    }
  });
}

make_panes();
const answer = await fetch('/page-keys', { method: 'POST' }).catch(() => null);
if (answer?.ok) {
  shop.keys = await answer.json();
  shop.playing = true;
  await start().catch((error) => { $('race-result').textContent = error.message; });
} else {
  ask_for_key();
}
