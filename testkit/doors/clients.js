// ioredis, node-redis, redlock and redis-semaphore, unchanged, with a Leasehold server in place of Redis.
'use strict';

const assert = require('node:assert');
const { setTimeout: sleep } = require('node:timers/promises');

const port = Number(process.argv[2]);
const modules = process.argv[3];
const load = (name) => require(require.resolve(name, { paths: [modules] }));
const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function ioredis(name) {
  const client = new (load(name).default)(port, '127.0.0.1', { db: 4 });
  assert.equal(await client.set('job', 'me', 'PX', 5000, 'NX'), 'OK');
  assert.equal(await client.set('job', 'you', 'PX', 5000, 'NX'), null);
  assert.equal(await client.get('job'), 'me');
  client.defineCommand('release', { numberOfKeys: 1, lua: DELETE });
  assert.equal(await client.release('job', 'you'), 0);
  assert.equal(await client.release('job', 'me'), 1);
  await assert.rejects(client.flushall(), /Leasehold/);
  const piped = client.pipeline();
  for (let n = 0; n < 16; n++) piped.set(`k${n}`, 'me', 'PX', 60000, 'NX');
  assert.deepEqual((await piped.exec()).map(([, answer]) => answer), Array(16).fill('OK'));
  client.disconnect();
}

async function nodeRedis(name) {
  const client = load(name).createClient({ url: `redis://127.0.0.1:${port}/5` });
  client.on('error', (error) => { throw error; });
  await client.connect();
  assert.equal(await client.set('job', name, { NX: true, PX: 5000 }), 'OK');
  assert.equal(await client.set('job', 'you', { NX: true, PX: 5000 }), null);
  assert.equal(await client.get('job'), name);
  assert.equal(await client.eval(DELETE, { keys: ['job'], arguments: [name] }), 1);
  assert.equal(await client.ping(), 'PONG');
  if (client.close) await client.close(); else await client.quit();
}

async function redlock4(redis) {
  const client = new (load(redis).default)(port);
  const Redlock = load('redlock4');
  const lock = await new Redlock([client]).lock(['a', 'b'], 60_000);
  await assert.rejects(new Redlock([client], { retryCount: 0 }).lock(['b', 'c'], 5000), /Exceeded 0 attempts/);
  await lock.extend(60_000);
  await lock.unlock();
  await assert.rejects(lock.unlock(), /Unable to fully release/);
  const again = await new Redlock([client]).lock('b', 30_000);
  await again.unlock();
  client.disconnect();
}

async function redlock5(redis) {
  const client = new (load(redis).default)(port);
  const Redlock = load('redlock5').default;
  const redlock = new Redlock([client], { retryCount: 0 });
  redlock.on('error', () => {});
  let lock = await redlock.acquire(['c', 'd'], 60_000);
  await assert.rejects(redlock.acquire(['d'], 5000));
  lock = await lock.extend(60_000);
  await lock.release();
  await redlock.using(['c'], 6000, { automaticExtensionThreshold: 3000 }, async (signal) => {
    await sleep(7000);
    assert.equal(signal.aborted, false);
  });
  client.disconnect();
}

async function semaphore(redis) {
  const client = new (load(redis).default)(port);
  const { Mutex, MultiSemaphore, Semaphore, RedlockMutex, TimeoutError } = load('redis-semaphore');
  const times = { lockTimeout: 4000, acquireTimeout: 1000, retryInterval: 10, refreshInterval: 500 };
  const patient = { ...times, acquireTimeout: 60_000 };
  const mutex = new Mutex(client, 'm', patient);
  await mutex.acquire();
  await assert.rejects(new Mutex(client, 'm', times).acquire(), TimeoutError);
  await sleep(4500); // longer than it lasts: it is refreshed
  assert.equal(mutex.isAcquired, true);
  await mutex.release();
  const [one, two, four] = [1, 2, 4].map(() => new Semaphore(client, 's', 2, patient));
  const three = new Semaphore(client, 's', 2, times);
  await one.acquire();
  await two.acquire();
  await assert.rejects(three.acquire(), TimeoutError);
  await sleep(4500);
  await two.release();
  await four.acquire();
  await one.release();
  await four.release();
  const [some, more] = [3, 2].map((permits) => new MultiSemaphore(client, 'ms', 4, permits, patient));
  await some.acquire();
  await assert.rejects(new MultiSemaphore(client, 'ms', 4, 2, times).acquire(), TimeoutError);
  await sleep(4500);
  assert.equal(some.isAcquired, true);
  await some.release();
  await more.acquire();
  await more.release();
  const redlock = new RedlockMutex([client], 'rm', patient);
  await redlock.acquire();
  await redlock.release();
  client.disconnect();
}

const tries = [
  ['ioredis 5', () => ioredis('ioredis5')],
  ['ioredis 6', () => ioredis('ioredis6')],
  ['node-redis 4', () => nodeRedis('redis4')],
  ['node-redis 6', () => nodeRedis('redis6')],
  ['redlock 4 with ioredis 5', () => redlock4('ioredis5')],
  ['redlock 4 with ioredis 6', () => redlock4('ioredis6')],
  ['redlock 5 with ioredis 5', () => redlock5('ioredis5')],
  ['redis-semaphore with ioredis 5', () => semaphore('ioredis5')],
  ['redis-semaphore with ioredis 6', () => semaphore('ioredis6')],
];

(async () => {
  // The ioredis tries leave their pipelines' locks behind, in a database of their own.
  for (const [name, tryIt] of tries) {
    const cleaner = new (load('ioredis5').default)(port, '127.0.0.1', { db: 4 });
    await cleaner.del(...Array.from({ length: 16 }, (_, n) => `k${n}`));
    cleaner.disconnect();
    await tryIt();
    console.log(`${name}: as with Redis`);
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
