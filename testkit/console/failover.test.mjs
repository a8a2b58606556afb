// Three servers that share a store: the one that leads is killed while somebody looks at a page of another.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { close, launch, live, openIn, text } from './page.mjs';
import { freePort, startServer, until } from './server.mjs';

let browser;
let etcd;
let folder;
const servers = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-etcd-'));
  const [client, peer] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
  etcd = spawn('etcd', ['--data-dir', join(folder, 'etcd'), '--log-level', 'error', '--listen-client-urls', client,
    '--advertise-client-urls', client, '--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer,
    '--initial-cluster', `default=${peer}`], { stdio: ['ignore', 'ignore', 'inherit'] });
  const store = `etcd://${client.replace('http://', '')}/console`;
  await until('etcd answers', () => {
    try {
      execFileSync(process.env.LEASEHOLD_BIN, ['init', '--store', store], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  });
  for (const name of ['n1', 'n2', 'n3']) {
    const server = await startServer('--store', store, '--node-name', name);
    await server.begin();
    servers.push(server);
  }
  browser = await launch();
}, { timeout: 60_000 });

after(async () => {
  await browser?.close();
  for (const server of servers) await server.stop();
  if (etcd) {
    const ended = once(etcd, 'exit');
    etcd.kill('SIGKILL');
    await ended;
  }
  rmSync(folder, { recursive: true });
});

async function leader(among) {
  let found;
  await until('somebody leads', async () => {
    for (const server of among) {
      const status = await fetch(`${server.url}/leaderz`).then((answer) => answer.status, () => 0);
      if (status === 200) found = server;
    }
    return found !== undefined;
  });
  return found;
}

test('a fail-over is seen, said and survived by a page of another server', { timeout: 90_000 }, async () => {
  const leads = await leader(servers);
  const follows = servers.find((server) => server !== leads);
  const lease = await follows.acquire('kept', 'vm-1', { ttl_ms: 300_000 });
  const page = await openIn(browser, '/console/lock?namespace=default&name=kept', {}, follows);
  await live(page);
  assert.match(await text(page, '[data-part=holders]'), /Held by vm-1/);
  const began = Date.now();
  await leads.end('SIGKILL');
  await page.waitForSelector('#live[data-state=stale]');
  await live(page);
  console.log(`live again ${Date.now() - began} ms after the leader was killed`);
  assert.match(await text(page, '[data-part=holders]'), /Held by vm-1/);
  assert.equal((await follows.look('kept')).fencing_token, lease.fencing_token);
  await follows.release(lease);
  await page.waitForSelector('ol.timeline >> text=released it');
  await close(page);
});
