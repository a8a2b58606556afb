// A cluster of three servers: the leader is killed while a user looks at a page of a follower.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { close, launch, live, openIn, serious, text } from './page.mjs';
import { freePort, keyIn, startServer, until } from './server.mjs';

let browser;
let etcd;
let folder;
let where;
const servers = [];

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-etcd-'));
  const [client, peer] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
  etcd = spawn('etcd', ['--data-dir', join(folder, 'etcd'), '--log-level', 'error', '--listen-client-urls', client,
    '--advertise-client-urls', client, '--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer,
    '--initial-cluster', `default=${peer}`], { stdio: ['ignore', 'ignore', 'inherit'] });
  where = `etcd://${client.replace('http://', '')}`;
  browser = await launch();
}, { timeout: 600_000 });

// Servers of these names that share a new store.
async function share(prefix, names, ...flags) {
  const store = `${where}/${prefix}`;
  await until('etcd answers', () => {
    try {
      execFileSync(process.env.LEASEHOLD_BIN, ['init', '--store', store], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  });
  const made = [];
  for (const name of names) {
    const server = await startServer('--store', store, '--node-name', name, ...flags);
    server.name = name;
    servers.push(server);
    await server.begin();
    made.push(server);
  }
  return made;
}

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
  await until('a server leads', async () => {
    for (const server of among) {
      const status = await fetch(`${server.url}/leaderz`).then((answer) => answer.status, () => 0);
      if (status === 200) found = server;
    }
    return found !== undefined;
  });
  return found;
}

test('a fail-over is seen, said and survived by a page of another server', { timeout: 600_000 }, async () => {
  const all = await share('open', ['n1', 'n2', 'n3']);
  const leads = await leader(all);
  const others = all.filter((server) => server !== leads);
  const [follows] = others;
  const lease = await follows.acquire('kept', 'vm-1', { ttl_ms: 300_000 });
  const page = await openIn(browser, '/console/lock?namespace=default&name=kept', {}, follows);
  const cluster = await openIn(browser, '/console/cluster', { bypassCSP: true }, follows);
  const row = (server) => text(cluster, `tr[data-key=${server.name}]`);
  await live(cluster);
  await cluster.waitForSelector(`tr[data-key=${leads.name}] >> text=leads`);
  for (const server of others) await until(`${server.name} follows`, async () => / follows .* 0 records, 0 s /.test(await row(server)));
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
  // The page of the servers has a new leader, and says which one is gone.
  const next = await leader(others);
  await live(cluster);
  await cluster.waitForSelector(`tr[data-key=${next.name}] >> text=leads`);
  await cluster.waitForSelector(`tr[data-key=${leads.name}] >> text=not there`);
  assert.match(await text(cluster, '[data-part=state]'), new RegExp(`Name ${next.name} at ${next.url}`));
  assert.deepEqual(await serious(cluster), []);
  await cluster.setViewportSize({ width: 360, height: 700 });
  // Nothing is wider than the screen, and no cell than its place.
  const wide = await cluster.evaluate(() => [...document.querySelectorAll('html, tbody td')].filter((it) => it.scrollWidth > it.clientWidth + 1).map((it) => it.textContent.slice(0, 60)));
  assert.deepEqual(wide, []);
  await close(cluster);
});

test('users who were signed in at the old leader sign in again and return to their page', { timeout: 600_000 }, async () => {
  const file = join(folder, 'auth.toml');
  const key = keyIn(execFileSync(process.env.LEASEHOLD_BIN, ['auth', 'init', '--auth-file', file], { encoding: 'utf8' }));
  const both = await share('asked', ['n1', 'n2'], '--auth-file', file);
  const leads = await leader(both);
  const follows = both.find((server) => server !== leads);
  const page = await openIn(browser, '/console/cluster', {}, follows);
  const signIn = async () => {
    await page.waitForURL(/sign-in\?to=%2Fconsole%2Fcluster$/);
    await page.fill('input[name=key]', key);
    await page.click('button:text("Sign in")');
    await page.waitForURL(/console\/cluster$/);
    await live(page);
  };
  await signIn();
  await page.waitForSelector(`tr[data-key=${leads.name}] >> text=leads`);
  // A server that is new leads only after it has read what another one wrote.
  await follows.acquire('kept', 'vm-1', { headers: { authorization: `Bearer ${key}` } });
  await leads.end('SIGKILL');
  await page.waitForSelector('#live >> text=Signed out');
  assert.match(await text(page, `tr[data-key=${leads.name}]`), / leads /, 'what was there is still shown, dimmed');
  await page.click('text=Sign in again');
  await signIn();
  await page.waitForSelector(`tr[data-key=${follows.name}] >> text=leads`);
  await close(page);
});
