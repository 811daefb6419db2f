// The bot as Telegram's side sees it: an emulated Bot API delivers updates and executes our replies, and a bot written with
// grammy says what such a reply looks like.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createRequire } from 'node:module';
import { Bot, InlineKeyboard, webhookCallback } from 'grammy';
import TelegramServer from 'telegram-test-api';
import { assert, shop, test } from './shop.mjs';

const webhook = `${shop.url}/channels/telegram`;
const secret = { 'X-Telegram-Bot-Api-Secret-Token': shop.variable('TELEGRAM_SECRET') };
const token = '1:bot';

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

// The emulator sends no secret and ignores the body of our answer. Telegram does neither: that is put in here.
async function openTelegram() {
  const server = new TelegramServer({ port: await freePort(), host: '127.0.0.1' });
  await server.start();
  const axios = createRequire(createRequire(import.meta.url).resolve('telegram-test-api'))('axios');
  axios.interceptors.request.use((config) => {
    if (config.url === webhook) Object.assign(config.headers ??= {}, secret);
    return config;
  });
  axios.interceptors.response.use(async (answer) => {
    if (answer.config.url !== webhook) return answer;
    const { method, ...parameters } = answer.data;
    await fetch(`${server.config.apiURL}/bot${token}/${method}`,
      { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(parameters) });
    return answer;
  });
  server.setWebhook({ url: webhook }, token);
  return server;
}

test('telegram-test-api: a person asks, holds, buys; the message says how things stand after each press', async () => {
  await shop.stock('TG-CLIENT', 1, { en: 'Cinnabar teapot', ru: 'Киноварный чайник' });
  const server = await openTelegram();
  try {
    const client = server.getClient(token, { userId: 5000000001, chatId: 5000000001 });
    const told = server.waitBotMessage();
    await client.sendMessage(client.makeMessage('cinnabar teapots?'));
    await told;
    const [shown] = (await client.getUpdates()).result;
    assert.match(shown.message.text, /^Cinnabar teapot: 1 piece available\./);
    const press = async (row, column) => {
      const message = server.storage.botMessages.find((one) => one.messageId === shown.messageId).message;
      const button = message.reply_markup.inline_keyboard[row][column];
      const edited = server.waitBotEdits();
      await client.sendCallback(client.makeCallbackQuery(button.callback_data,
        { message: { message_id: shown.messageId, text: message.text } }));
      await edited;
      return server.storage.botMessages.find((one) => one.messageId === shown.messageId).message.text;
    };
    assert.match(await press(0, 0), /1 piece held for you until /);
    assert.deepEqual([(await shop.row('TG-CLIENT')).on_hand, (await shop.row('TG-CLIENT')).reserved], [1, 1]);
    assert.match(await press(0, 0), /1 piece bought/);
    assert.match(await press(0, 0), /sold out/);
    assert.deepEqual([(await shop.row('TG-CLIENT')).on_hand, (await shop.row('TG-CLIENT')).reserved], [0, 0]);
    shop.audit();
  } finally {
    await server.stop();
  }
});

// What we answer to an update; the next one's id.
let update_id = 800000000000;

async function ours(update) {
  const answer = await fetch(webhook,
    { method: 'POST', headers: { ...secret, 'content-type': 'application/json' }, body: JSON.stringify(update) });
  assert.equal(answer.status, 200);
  return answer.json();
}

// What a bot made with grammy puts into the body of its webhook's answer, given what it has to say.
async function grammys(update, act) {
  const bot = new Bot(token, {
    botInfo: { id: 1, is_bot: true, first_name: 'Shop', username: 'shop_bot' },
    client: { canUseWebhookReply: () => true },
  });
  bot.use(act);
  return JSON.parse(await new Promise((resolve, reject) => {
    webhookCallback(bot, 'callback')(update, resolve, undefined, reject).catch(reject);
  }));
}

function keyboard(reply) {
  const made = new InlineKeyboard();
  for (const row of reply.reply_markup.inline_keyboard) {
    for (const button of row) made.text(button.text, button.callback_data);
    made.row();
  }
  // row() opens one more, which stays empty.
  return { inline_keyboard: made.inline_keyboard.filter((row) => row.length) };
}

const from = { id: 5000000002, is_bot: false, first_name: 'A', language_code: 'en' };
const chat = { id: 5000000002, type: 'private', first_name: 'A' };

test('grammy: says the same things in the same JSON', async () => {
  await shop.stock('TG-GRAMMY', 1, { en: 'Umber inkwell' });
  const asked = { update_id: update_id += 1, message: { message_id: 1, date: 1, from, chat, text: 'umber inkwell' } };
  const found = await ours(asked);
  assert.deepEqual(found, await grammys(asked, (context) => context.reply(found.text, { reply_markup: keyboard(found) })));
  const pressed = (data) => ({
    update_id: update_id += 1,
    callback_query: { id: '77', from, chat_instance: '1', data, message: { message_id: 9, date: 1, chat, text: 'Umber inkwell' } },
  });
  const hold = pressed(found.reply_markup.inline_keyboard[0][0].callback_data);
  const held = await ours(hold);
  assert.match(held.text, /held for you/);
  assert.deepEqual(held, await grammys(hold, (context) => context.editMessageText(held.text, { reply_markup: keyboard(held) })));
  const nonsense = pressed('nonsense');
  const alert = await ours(nonsense);
  assert.deepEqual(alert, await grammys(nonsense, (context) =>
    context.answerCallbackQuery({ text: alert.text, show_alert: true })));
});
