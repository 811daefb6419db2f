// The phone and the skill as their own makers speak: an emulated Alexa, and Twilio's own library, which signs requests and
// writes the answers that ours are compared with.
import twilio from 'twilio';
import { VirtualAlexa } from 'virtual-alexa';
import { assert, shop, test } from './shop.mjs';

const model = {
  languageModel: {
    intents: [
      { name: 'CheckStockIntent', slots: [{ name: 'product', type: 'PRODUCT' }], samples: ['is {product} in stock', 'find {product}'] },
      { name: 'BuyIntent', samples: ['buy it'] },
      { name: 'AMAZON.YesIntent', samples: [] },
      { name: 'AMAZON.NoIntent', samples: [] },
    ],
    types: [{ name: 'PRODUCT', values: [{ id: 'ALEXA-TRAY', name: { value: 'the red tray', synonyms: ['red tray'] } }] }],
  },
};

const alexa = (application = shop.variable('ALEXA_APPLICATION')) => VirtualAlexa.Builder().interactionModel(structuredClone(model))
  .skillURL(`${shop.url}/channels/alexa`).applicationID(application).create();

test('virtual-alexa: is welcomed, asks, holds and buys in one session', async () => {
  await shop.stock('ALEXA-TRAY', 1, { en: 'Vermilion tray' });
  const skill = alexa();
  assert.match((await skill.launch()).prompt(), /Which product/);
  assert.match((await skill.utter('is red tray in stock')).prompt(), /^Vermilion tray: 1 piece available/);
  const held = await skill.intend('AMAZON.YesIntent');
  assert.match(held.prompt(), /held for you/);
  assert.match(held.reprompt(), /Shall I buy it/);
  assert.equal((await shop.row('ALEXA-TRAY')).reserved, 1);
  const bought = await skill.intend('BuyIntent');
  assert.match(bought.prompt(), /bought/);
  assert.equal(bought.response.shouldEndSession, true);
  assert.equal((await shop.row('ALEXA-TRAY')).on_hand, 0);
  shop.audit();
});

test('virtual-alexa: a slot that its model resolves is looked up, any other is searched for', async () => {
  await shop.stock('ALEXA-JUG', 2, { en: 'Sepia jug' });
  const skill = alexa();
  assert.match((await skill.intend('CheckStockIntent', { product: 'red tray' })).prompt(), /^Vermilion tray: sold out/);
  assert.match((await skill.intend('CheckStockIntent', { product: 'sepia jugs' })).prompt(), /^Sepia jug: 2 pieces available/);
  assert.match((await skill.intend('AMAZON.NoIntent')).prompt(), /What else/);
  assert.equal((await shop.row('ALEXA-JUG')).reserved, 0);
  await skill.endSession();
});

test('virtual-alexa: another skill is refused, and so is a request of ten minutes ago', async () => {
  await assert.rejects(alexa('amzn1.ask.skill.another').launch(), /403/);
  const late = alexa().filter((request) => { request.request.timestamp = new Date(Date.now() - 600000).toISOString(); });
  await assert.rejects(late.launch(), /400/);
});

const token = shop.variable('TWILIO_TOKEN');
const spoken = { CallSid: 'CA1', From: '+15550100', To: '+15550199', Confidence: '0.9' };

// `to`: where it is sent, if not to the address that is signed.
async function call(path, fields, { signed = fields, base = shop.url, to = shop.url } = {}) {
  const answer = await fetch(to + path, {
    method: 'POST',
    headers: { 'X-Twilio-Signature': twilio.getExpectedTwilioSignature(token, base + path, signed) },
    body: new URLSearchParams(fields),
  });
  return { status: answer.status, type: answer.headers.get('content-type'), twiml: await answer.text() };
}

const unescaped = (text) => text.replace(/&(lt|gt|quot|amp);/g, (_, name) => ({ lt: '<', gt: '>', quot: '"', amp: '&' })[name]);
const actionOf = (twiml) => unescaped(/action="([^"]*)"/.exec(twiml)[1]);
const sentenceOf = (twiml) => unescaped(/<Say[^>]*>([^<]*)<\/Say>/.exec(twiml)[1]);

test('twilio: its signature is accepted; its library writes the same TwiML; a caller holds and buys', async () => {
  await shop.stock('TWILIO-VASE', 1, { en: 'Cobalt & "gold" vase <small>' });
  let turn = await call('/channels/twilio?language=en', { ...spoken, SpeechResult: 'cobalt vase' });
  assert.equal(turn.status, 200);
  assert.match(turn.type, /^text\/xml/);
  assert.match(sentenceOf(turn.twiml), /^Cobalt & "gold" vase <small>: 1 piece available/);
  const reference = new twilio.twiml.VoiceResponse();
  reference.gather({
    input: 'speech dtmf', language: 'en-US', action: actionOf(turn.twiml), method: 'POST', speechTimeout: 'auto', actionOnEmptyResult: true,
  }).say({ language: 'en-US' }, sentenceOf(turn.twiml));
  const canonical = (twiml) => unescaped(twiml.replaceAll('\n', ''));
  assert.equal(canonical(turn.twiml), canonical(reference.toString()));
  turn = await call(actionOf(turn.twiml), { ...spoken, SpeechResult: 'Yes, please.' });
  assert.match(sentenceOf(turn.twiml), /held for you/);
  turn = await call(actionOf(turn.twiml), { ...spoken, Digits: '1' });
  assert.match(sentenceOf(turn.twiml), /bought/);
  assert.equal((await shop.row('TWILIO-VASE')).on_hand, 0);
  shop.audit();
});

test('twilio: what is tampered with is refused: a field, a field more, the address, the token', async () => {
  const fields = { ...spoken, SpeechResult: 'cobalt vase' };
  const path = '/channels/twilio?language=en';
  assert.equal((await call(path, fields)).status, 200);
  assert.equal((await call(path, { ...fields, From: '+15550101' }, { signed: fields })).status, 403);
  assert.equal((await call(path, { ...fields, Digits: '1' }, { signed: fields })).status, 403);
  assert.equal((await call(path, fields, { base: 'http://shop.example' })).status, 403);
  const forged = await fetch(shop.url + path, {
    method: 'POST',
    headers: { 'X-Twilio-Signature': twilio.getExpectedTwilioSignature('another token', shop.url + path, fields) },
    body: new URLSearchParams(fields),
  });
  assert.equal(forged.status, 403);
  assert.equal((await fetch(shop.url + path, { method: 'POST', body: new URLSearchParams(fields) })).status, 403);
});

test('twilio: behind a proxy the address that is signed is the public one', async () => {
  const instance = await shop.beside(['--public-url', 'https://shop.example', '--twilio-key', shop.key('voice'), '--twilio-token', token]);
  const fields = { ...spoken, SpeechResult: 'cobalt vase' };
  const behind = { to: instance.url };
  assert.equal((await call('/channels/twilio?language=en', fields, { ...behind, base: 'https://shop.example' })).status, 200);
  assert.equal((await call('/channels/twilio?language=en', fields, { ...behind, base: instance.url })).status, 403);
});
