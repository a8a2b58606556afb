// ioredis and node-redis with an API key as their password, over TLS.
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');

const [port, modules, key] = [Number(process.argv[2]), process.argv[3], process.argv[4]];
const ca = fs.readFileSync(process.argv[5]);
const load = (name) => require(require.resolve(name, { paths: [modules] }));

async function ioredis(name) {
  const client = new (load(name).default)({ host: '127.0.0.1', port, password: key, tls: { ca } });
  assert.equal(await client.set(name, 'me', 'PX', 60_000, 'NX'), 'OK');
  assert.equal(await client.set(name, 'me', 'PX', 60_000, 'NX'), null);
  client.disconnect();
}

async function nodeRedis(name) {
  const client = load(name).createClient({ password: key, socket: { host: '127.0.0.1', port, tls: true, ca } });
  client.on('error', (error) => { throw error; });
  await client.connect();
  assert.equal(await client.set(name, 'me', { NX: true, PX: 1000 }), 'OK');
  if (client.close) await client.close(); else await client.quit();
}

(async () => {
  for (const name of ['ioredis5', 'ioredis6']) await ioredis(name);
  for (const name of ['redis4', 'redis6']) await nodeRedis(name);
  console.log('ioredis and node-redis with an API key over TLS: as with Redis');
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
