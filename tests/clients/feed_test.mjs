// Those who are told of changes: an EventSource that comes back by itself, and the receiver's half of Standard Webhooks.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, createServer as createPipe } from 'node:net';
import { EventSource } from 'eventsource';
import { Webhook } from 'standardwebhooks';
import { assert, shop, test } from './shop.mjs';

const withKey = (url, init) => fetch(url, { ...init, headers: { ...init.headers, authorization: `Bearer ${shop.key('web')}` } });

async function sell(sku) {
  const answer = await shop.ask('pos', 'POST', '/v1/checkouts', { lines: [{ sku, quantity: 1 }] },
    { 'idempotency-key': `${sku}-${Math.random()}` });
  assert.equal(answer.status, 201);
}

// What a source says, one at a time: `await heard()`.
function listen(source) {
  const said = [];
  let wake = () => {};
  source.addEventListener('availability', (event) => {
    said.push({ id: event.lastEventId, ...JSON.parse(event.data) });
    wake();
  });
  return async () => {
    while (!said.length) await new Promise((resolve) => { wake = resolve; });
    return said.shift();
  };
}

test('eventsource: hears what is and what changes, and after a broken connection goes on by itself', async () => {
  await shop.stock('ES-1', 5);
  await shop.stock('ES-2', 5);
  // In between stands a pipe that the test can break.
  const pipes = new Set();
  const { hostname, port } = new URL(shop.url);
  const pipe = createPipe((client) => {
    const server = connect(port, hostname);
    pipes.add(client);
    client.pipe(server).pipe(client);
    for (const end of [client, server]) end.on('error', () => {});
  });
  await once(pipe.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${pipe.address().port}/v1/events`;
  const named = new EventSource(`${url}?sku=ES-1`, { fetch: withKey });
  const all = new EventSource(url, { fetch: withKey });
  try {
    const hear = listen(named);
    const hearAll = listen(all);
    await once(all, 'open');
    assert.deepEqual([(await hear()).available], [5]);
    await sell('ES-1');
    assert.equal((await hear()).version, 2);
    assert.equal((await hearAll()).version, 2);
    for (const client of pipes) client.destroy();
    await sell('ES-2');
    await sell('ES-1');
    // The states of its SKUs again; the changes that were missed, in their order, and none twice.
    assert.deepEqual({ ...(await hear()), id: 0 }, { id: 0, sku: 'ES-1', status: 'in_stock', available: 3, held: 0, tracked: true, version: 3 });
    assert.deepEqual([(await hearAll()).sku, (await hearAll()).sku], ['ES-2', 'ES-1']);
    await sell('ES-2');
    assert.equal((await hearAll()).version, 3);
  } finally {
    named.close();
    all.close();
    pipe.close();
    for (const client of pipes) client.destroy();
  }
});

test('standardwebhooks: verifies what it is sent, with the new secret and the old; a forged body fails', async () => {
  await shop.stock('SW-1', 1);
  const arrived = [];
  let wake = () => {};
  const receiver = createServer(async (request, response) => {
    let body = '';
    for await (const bytes of request) body += bytes;
    arrived.push({ headers: request.headers, body });
    response.end();
    wake();
  });
  await once(receiver.listen(0, '127.0.0.1'), 'listening');
  const made = await shop.ask('admin', 'POST', '/v1/webhooks',
    { url: `http://127.0.0.1:${receiver.address().port}/`, skus: ['SW-1'] });
  const next = async () => {
    while (!arrived.length) await new Promise((resolve) => { wake = resolve; });
    return arrived.shift();
  };
  try {
    assert.equal(made.status, 201);
    const hook = new Webhook(made.body.secret);
    await sell('SW-1');
    const out = await next();
    const told = hook.verify(out.body, out.headers);
    assert.deepEqual([told.type, told.data.sku, told.data.available], ['stock.out', 'SW-1', 0]);
    assert.throws(() => hook.verify(out.body.replace('"available":0', '"available":1'), out.headers));
    const changed = await next();
    assert.equal(hook.verify(changed.body, changed.headers).type, 'availability.changed');
    const rotated = await shop.ask('admin', 'POST', `/v1/webhooks/${made.body.id}/rotate`);
    const renewed = new Webhook(rotated.body.secret);
    for (let known = false; !known;) { // the deliverer learns of it within a second
      await shop.ask('admin', 'POST', '/v1/adjustments', { lines: [{ sku: 'SW-1', delta: 1 }], reason: 'delivery' },
        { 'idempotency-key': `SW-1-${Math.random()}` });
      const message = await next();
      hook.verify(message.body, message.headers);
      try {
        renewed.verify(message.body, message.headers);
        known = true;
      } catch { /* signed before it was known */ }
    }
  } finally {
    await shop.ask('admin', 'DELETE', `/v1/webhooks/${made.body.id}`);
    receiver.close();
    receiver.closeAllConnections();
  }
});
