// The console in a real browser: what people see, whatever happens meanwhile.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { close, launch, live, openIn, serious, text } from './page.mjs';
import { keyIn, startServer, until } from './server.mjs';

const pictures = process.env.CONSOLE_IMAGES;
const N_MANY = Number(process.env.CONSOLE_LOCKS ?? 100_000);

let server;
let browser;

const open = (path, options = {}, of = server) => openIn(browser, path, options, of);
const lockPage = (name, namespace = 'default') => `/console/lock?${new URLSearchParams({ namespace, name })}`;

before(async () => {
  server = await startServer('--principal-leases-max', '1000000', '--locks-max', '2000000');
  await server.begin();
  browser = await launch();
}, { timeout: 600_000 });

after(async () => {
  await browser?.close();
  await server?.stop();
});

const limit = { timeout: 600_000 };

test('browsers find it at /, and programs what they always found', limit, async () => {
  const page = await open('/');
  assert.equal(await page.title(), 'Locks · Leasehold');
  await live(page);
  await close(page);
  for (const accept of ['*/*', 'application/json']) {
    const answer = await server.call('GET', '/', undefined, { accept });
    assert.match(answer.headers.get('content-type'), /application\/json/);
    assert.match(answer.headers.get('vary'), /Accept/);
  }
  const answer = await server.call('GET', '/', undefined, { accept: 'text/html' });
  assert.match(answer.headers.get('vary'), /Accept/);
  const policy = answer.headers.get('content-security-policy');
  assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/);
  assert.doesNotMatch(policy, /unsafe|\*|http|nonce/);
});

test('locks are searched, filtered, sorted and paged by the server', limit, async () => {
  for (let n = 0; n < 120; n += 1) await server.acquire(`paged/${String(n).padStart(3, '0')}`, `vm-${n}`, { namespace: 'paging', ttl_ms: 600_000 - n * 1000 });
  const page = await open('/console?namespace=paging');
  assert.equal(await text(page, '.pages span'), '1 to 50 of 120');
  await page.click('text=Next page');
  assert.equal(await text(page, '.pages span'), '51 to 100 of 120');
  await page.click('text=Next page');
  assert.equal(await text(page, '.pages span'), '101 to 120 of 120');
  await page.click('text=Previous page');
  assert.equal(await text(page, '.pages span'), '51 to 100 of 120');
  await page.click('text=Next page');
  assert.match(await text(page, 'tbody tr:last-child th'), /^paged\/119/);
  await page.click('thead >> text=Time left');
  assert.match(await text(page, 'tbody tr:first-child th'), /^paged\/119/);
  await page.fill('#search', 'VM-77');
  await page.press('#search', 'Enter');
  await page.waitForURL(/q=VM-77/);
  assert.equal(await page.locator('tbody tr').count(), 1);
  assert.match(await text(page, 'tbody tr th'), /^paged\/077/);
  await page.selectOption('select[name=state]', 'free');
  await page.waitForURL(/state=free/);
  assert.match(await text(page, '.empty'), /None of/);
  await close(page);
});

test('a hand-over is seen live, and the time left runs down', limit, async () => {
  const first = await server.acquire('deploy', 'vm-1', { ttl_ms: 600_000, metadata: { job: 'release 41' } });
  const page = await open(lockPage('deploy'));
  await live(page);
  assert.match(await text(page, '[data-part=holders]'), /Held by vm-1/);
  assert.match(await text(page, 'pre.value'), /release 41/);
  assert.match(await text(page, '.title .sub'), /latest fencing token 1$/);
  const left = () => text(page, '[data-part=holders] [data-left] .run');
  const before = await left();
  const waits = server.acquire('deploy', 'vm-2', { wait_ms: 600_000 });
  await page.waitForSelector('[data-part=queue] >> text=vm-2');
  await until('time runs down', async () => (await left()) !== before);
  const began = Date.now();
  await server.release(first);
  await page.waitForFunction(() => /Held by\s*vm-2/.test(document.querySelector('[data-part=holders]').textContent));
  const took = Date.now() - began;
  assert.match(await text(page, '.title .sub'), /latest fencing token 2$/, 'the heading is as new as the rest');
  console.log(`a hand-over is seen after ${took} ms`);
  await page.waitForSelector('ol.timeline >> text=released it');
  assert.match(await text(page, '[data-part=queue]'), /No client is waiting/);
  await server.release(await waits);
  await close(page);
});

test('a lock is revoked with a reason, and not without', limit, async () => {
  await server.acquire('stuck', 'vm-9');
  const page = await open(lockPage('stuck'));
  await page.click('button:text("Revoke")');
  assert.match(page.url(), /console\/lock\?/, 'the browser asks for a reason');
  await page.fill('input[name=reason]', 'host is gone');
  await page.click('button:text("Revoke")');
  await page.waitForSelector('text=Revoked: vm-9 (fencing token 1) no longer holds the lock.');
  await page.reload();
  assert.equal(await page.locator('.note').count(), 0, 'it is said once');
  assert.match(await text(page, 'ol.timeline'), /vm-9 was revoked.*host is gone/);
  assert.equal((await server.look('stuck')).held, false);
  await close(page);
  const token = (await server.acquire('stuck', 'vm-9')).fencing_token;
  const send = (fields, headers = {}) => fetch(`${server.url}/console/lock/revoke?namespace=default&name=stuck`, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(fields),
  });
  const fields = { token };
  assert.equal((await send(fields)).status, 400, 'no reason');
  assert.equal((await send({ ...fields, reason: '  ' })).status, 400, 'an empty reason');
  assert.equal((await send({ ...fields, reason: 'x', token: token - 1 })).status, 409, 'another client holds it by now');
  assert.equal((await send({ ...fields, reason: 'x', token: 'x' })).status, 400);
  assert.equal((await send({ ...fields, reason: 'x', more: '1' })).status, 400);
  assert.equal((await send({ ...fields, reason: 'x' }, { origin: 'http://evil.example' })).status, 403);
  assert.equal((await send({ ...fields, reason: 'x' }, { 'sec-fetch-site': 'cross-site' })).status, 403);
  assert.equal((await send({ ...fields, reason: 'x' }, { 'content-type': 'text/plain' })).status, 400);
  assert.equal((await server.look('stuck')).held, true);
});

test('entered text stays on the live page, even if another client holds the lock by now', limit, async () => {
  const first = await server.acquire('late', 'vm-1');
  const page = await open(lockPage('late'));
  await live(page);
  await page.fill('input[name=reason]', 'vm-1 is gone');
  await server.release(first);
  await server.acquire('late', 'vm-2');
  await page.click('button:text("Revoke")');
  await page.waitForSelector('[role=alert] >> text=nothing was revoked');
  await live(page);
  assert.match(await text(page, '[data-part=holders]'), /Held by vm-2/);
  const waits = server.acquire('late', 'vm-3', { wait_ms: 600_000 });
  await page.waitForSelector('[data-part=queue] >> text=vm-3');
  assert.equal(await page.inputValue('input[name=reason]'), 'vm-1 is gone');
  await page.click('button:text("Revoke")');
  await page.waitForSelector('text=Revoked: vm-2 (fencing token 2) no longer holds the lock.');
  await server.release(await waits);
  page.wrong = page.wrong.filter((wrong) => !/409/.test(wrong));
  await close(page);
});

test('a session is ended with a reason, on a page that says what ends', limit, async () => {
  const session = (await server.call('POST', '/v1/sessions', { owner_id: 'vm-7', ttl_ms: 3_600_000 })).json();
  const taken = await server.call('POST', '/v1/locks/of-session/acquire', { owner_id: 'vm-7', session_id: session.session_id });
  assert.equal(taken.status, 200, taken.text);
  const page = await open('/console/sessions');
  await page.click('tr:has-text("vm-7") >> text=End');
  await page.waitForURL(/sessions\/end\?number=/);
  assert.match(await text(page, 'main'), /vm-7.*Its lease and its waits are revoked immediately/);
  await page.click('button:text("End the session")');
  assert.match(page.url(), /sessions\/end/, 'the browser asks for a reason');
  await page.fill('input[name=reason]', 'host is gone');
  await page.click('button:text("End the session")');
  await page.waitForSelector('.note >> text=of vm-7: its lease was revoked.');
  assert.equal((await server.look('of-session')).held, false);
  await page.goto(server.url + lockPage('of-session'));
  assert.match(await text(page, 'ol.timeline'), /vm-7 was revoked.*host is gone/);
  await close(page);
});

test('everything can be done with the keyboard', limit, async () => {
  await server.acquire('keys/one', 'vm-3');
  const page = await open('/console');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the content');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
  await page.keyboard.type('keys/one');
  await page.keyboard.press('Enter');
  await page.waitForURL(/q=keys/);
  const tabTo = async (selector) => {
    for (let n = 0; n < 40; n += 1) {
      await page.keyboard.press('Tab');
      if (await page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
    }
    assert.fail(`no way to ${selector}`);
  };
  await tabTo('tbody th a');
  await page.keyboard.press('Enter');
  await page.waitForURL(/console\/lock/);
  await tabTo('input[name=reason]');
  await page.keyboard.type('by hand');
  await page.keyboard.press('Enter');
  await page.waitForSelector('text=no longer holds the lock.');
  await close(page);
});

// Every name that users can choose, as an attacker would choose it.
const EVIL = [
  '<script>window.hurt=1</script>',
  '"><img src=x onerror=window.hurt=1>',
  "'-window.hurt=1-'",
  '<svg/onload=window.hurt=1>',
  '{{7*7}}${7*7}',
  'javascript:window.hurt=1',
  '</textarea><script>window.hurt=1</script>',
  '&lt;b&gt; &amp; &#x3c;',
  '\u202egnp.exe\u0000\u200b',
  '../../etc/passwd',
  '%3Cscript%3E',
  'ünï/cödé 🔒 日本語',
];

test('whatever people name things, it is text', { timeout: 600_000 }, async () => {
  const page = await open();
  const hidden = /[\u0000\u200b\u202e]/g;
  for (const [n, evil] of EVIL.entries()) {
    const namespace = `x${n} ${evil}`.slice(0, 60).trim();
    await server.acquire(evil, evil, { namespace, metadata: { [evil]: evil } });
    const waits = server.acquire(evil, `${evil} 2`, { namespace, wait_ms: 600_000 });
    await until('it waits', async () => (await server.look(evil, namespace)).n_waiting === 1);
    await page.goto(server.url + lockPage(evil, namespace));
    await page.fill('input[name=reason]', evil);
    await page.press('input[name=reason]', 'Enter');
    await page.waitForURL(/notice=/);
    const seen = evil.replace(hidden, '\ufffd');
    for (const where of ['h1', 'ol.timeline', '[data-part=holders]']) {
      assert.ok((await page.textContent(where)).includes(seen), `${where}: ${evil}`);
    }
    const body = await page.textContent('body');
    assert.equal(body.replace(hidden, ''), body);
    assert.equal(await page.evaluate(() => window.hurt), undefined, evil);
    await server.release(await waits);
  }
  await server.call('POST', '/v1/sessions', { owner_id: EVIL[0], ttl_ms: 3_600_000 });
  await server.call('POST', `/lock?${new URLSearchParams({ client: EVIL[1], job: EVIL[1], ttl: '1h' })}`);
  for (const evil of EVIL.slice(0, 3)) {
    for (const path of [`/console?${new URLSearchParams({ q: evil })}`, `/console/take?${new URLSearchParams({ name: evil, namespace: evil })}`]) {
      await page.goto(server.url + path);
      assert.ok((await page.locator('input[type=search], input[name=name]').inputValue()).includes(evil));
      assert.equal(await page.evaluate(() => window.hurt), undefined);
    }
  }
  for (const path of ['/console', '/console?sort=waiters', '/console/sessions', '/lock/page', `/console/files?path=${encodeURIComponent(EVIL[0])}`]) {
    await page.goto(server.url + path);
    assert.equal(await page.evaluate(() => window.hurt), undefined);
  }
  await close(page);
});

async function everyPage() {
  // The waiter of the previous test releases it at some point.
  await until('the lock is free', async () => !(await server.look('tour')).held);
  const lease = await server.acquire('tour', 'vm-4', { metadata: { a: 1 } });
  const session = await server.call('POST', '/v1/sessions', { owner_id: 'vm-5', ttl_ms: 3_600_000 });
  assert.ok(session.status < 300, session.text);
  server.acquire('tour', 'vm-6', { wait_ms: 20_000 }).then((next) => server.release(next), () => undefined);
  const { sessions } = (await server.call('GET', '/v1/admin/sessions')).json();
  const pages = ['/console', '/console?q=nothing-like-it', lockPage('tour'), lockPage('never-seen'), '/console/sessions',
    `/console/sessions/end?number=${sessions[0].number}`, '/console/nope',
    '/console/files', '/console/cluster', '/console/take', '/console/sign-in', '/lock/page', '/console?sort=x'];
  return { lease, pages };
}

test('no page has a serious fault for those who see, hear or move differently; light and dark', { timeout: 600_000 }, async () => {
  const { lease, pages } = await everyPage();
  const dark = pages.filter((path) => /^\/console(\/lock.*tour|\/take|\/cluster|\/sign-in)?$/.test(path));
  for (const [path, colorScheme] of [...pages.map((path) => [path, 'light']), ...dark.map((path) => [path, 'dark'])]) {
    const page = await open(path, { colorScheme, bypassCSP: true });
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [red] = background.match(/\d+/g).map(Number);
    assert.equal(red > 128, colorScheme === 'light', background);
    // Only colours differ in the dark.
    const rules = colorScheme === 'dark' ? { runOnly: ['color-contrast'] } : {};
    assert.deepEqual(await serious(page, rules), [], `${path} ${colorScheme}`);
    await page.context().close();
  }
  await server.release(lease);
});

test('it fits a phone, and breaks no words where there is room', { timeout: 600_000 }, async () => {
  const { lease, pages } = await everyPage();
  await server.call('POST', '/lock?client=laptop-of-a-user&ttl=1h&job=a-job-with-a-name-of-some-length');
  for (const path of pages) {
    const page = await open(path, { viewport: { width: 360, height: 700 } });
    const wide = await page.evaluate(() => document.scrollingElement.scrollWidth);
    assert.ok(wide <= 360, `${path} is ${wide} px wide`);
    await close(page);
  }
  for (const path of ['/lock/page', '/console']) {
    const page = await open(path, { viewport: { width: 1100, height: 700 } });
    // A word that is broken has a rectangle on each of two lines.
    const broken = await page.evaluate(() => [...document.querySelectorAll('th .name, td .name, td time, td.keep')].flatMap((cell) => {
      const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      const found = [];
      while (walker.nextNode()) {
        const node = walker.currentNode;
        for (const { 0: word, index } of node.data.matchAll(/[^\s/-]+/g)) {
          const range = document.createRange();
          range.setStart(node, index);
          range.setEnd(node, index + word.length);
          if (word.length < 40 && range.getClientRects().length > 1) found.push(word);
        }
      }
      return found;
    }));
    assert.deepEqual(broken, [], path);
    await close(page);
  }
  await server.release(lease);
});

test('without JavaScript everything is there and works', limit, async () => {
  await server.acquire('plain', 'vm-8');
  const page = await open('/console?q=plain', { javaScriptEnabled: false });
  await page.click('tbody th a');
  assert.match(await text(page, '[data-part=holders]'), /Held by vm-8/);
  await page.fill('input[name=reason]', 'no script');
  await page.click('button:text("Revoke")');
  assert.match(await text(page, '.note'), /Revoked/);
  await page.click('nav >> text=Take a lock');
  assert.equal(await page.locator('.snippet pre').count(), 6);
  await close(page);
});

test('the command line and curl of the page work as they are', limit, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-paste-'));
  writeFileSync(join(folder, 'job.sh'), '#!/bin/sh\necho "done with token $LEASEHOLD_FENCING_TOKEN"\n', { mode: 0o755 });
  symlinkSync(process.env.LEASEHOLD_BIN, join(folder, 'leasehold'));
  const name = `it's "a" $(false) \\ job/ü`;
  const page = await open(`/console/take?${new URLSearchParams({ name, namespace: 'pasted' })}`);
  const paste = async (language) => {
    const shown = await page.locator(`pre[aria-label="Example for ${language}"]`).textContent();
    const environment = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
    return execFileSync('sh', ['-ec', shown], { cwd: folder, env: environment, timeout: 300_000, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
  };
  assert.match(await paste('Command line'), /^done with token 1$/m);
  const taken = JSON.parse(await paste('curl'));
  assert.deepEqual([taken.acquired, taken.lock_name, taken.fencing_token], [true, name, 2]);
  await page.goto(`${server.url}/console/take?${new URLSearchParams({ name: '..', namespace: '-ns' })}`);
  assert.match(await paste('Command line'), /^done with token 1$/m);
  const dots = JSON.parse(await paste('curl'));
  assert.deepEqual([dots.acquired, dots.lock_name, dots.fencing_token], [true, '..', 2]);
  await server.release({ namespace: 'pasted', name, owner: 'me', ...taken });
  await close(page);
  rmSync(folder, { recursive: true });
});

test('a page of another origin can do nothing', limit, async () => {
  await server.acquire('target', 'vm-1');
  const { fencing_token: token } = await server.look('target');
  const evil = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html>
    <form method=post action="${server.url}/console/lock/revoke?namespace=default&name=target">
    <input name=token value=${token}><input name=reason value=evil></form>`)).listen(0, '127.0.0.1');
  await once(evil, 'listening');
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${evil.address().port}`);
  const [answer] = await Promise.all([page.waitForResponse(/revoke/), page.evaluate(() => document.forms[0].submit())]);
  assert.equal(answer.status(), 403);
  const framed = await page.evaluate((url) => new Promise((done) => {
    const frame = document.createElement('iframe');
    frame.onload = () => { try { done(frame.contentDocument?.title ?? 'closed'); } catch { done('closed'); } };
    frame.src = `${url}/console`;
    document.body.append(frame);
  }), server.url).catch(() => 'closed');
  assert.notEqual(framed, 'Locks · Leasehold');
  assert.equal((await server.look('target')).held, true);
  await context.close();
  evil.closeAllConnections();
  evil.close();
});

test('a restart of the server is seen, said, and survived', { timeout: 600_000 }, async () => {
  await server.acquire('kept', 'vm-1', { ttl_ms: 300_000 });
  const page = await open(lockPage('kept'));
  await live(page);
  await server.end('SIGKILL');
  await page.waitForSelector('#live[data-state=stale]');
  assert.match(await text(page, '#live'), /Not up to date since \d\d:\d\d:\d\d UTC;/);
  assert.match(await text(page, '[data-part=holders]'), /Held by vm-1/, 'what was seen last stays');
  await server.begin();
  await live(page);
  await server.acquire('kept/other', 'vm-2');
  await server.call('POST', '/v1/locks/kept/revoke', { reason: 'after the restart' });
  await page.waitForFunction(() => /after the restart/.test(document.body.textContent));
  await close(page);
});

test('with authentication, users sign in first and see only what they have a right to', { timeout: 600_000 }, async () => {
  const asked = await startServer('--auth-file', '{folder}/auth.toml');
  const run = (...args) => execFileSync(process.env.LEASEHOLD_BIN, args, { encoding: 'utf8' });
  const file = join(asked.folder, 'auth.toml');
  const admin = keyIn(run('auth', 'init', '--auth-file', file));
  const key = (name, may, namespaces) => keyIn(run('key', 'create', '--auth-file', file, '--name', name, '--may', may, '--namespaces', namespaces));
  const reader = key('reader', 'read', 'shop');
  await asked.begin();
  const headers = { authorization: `Bearer ${admin}` };
  for (const namespace of ['shop', 'bank']) await asked.acquire('orders', `of-${namespace}`, { namespace, headers });
  const page = await open('/console', {}, asked);
  assert.match(page.url(), /\/console\/sign-in$/);
  await page.fill('input[name=key]', 'lh_wrong_key');
  await page.click('button:text("Sign in")');
  assert.match(await text(page, '[role=alert]'), /Unknown API key/);
  await page.fill('input[name=key]', reader);
  await page.click('button:text("Sign in")');
  await page.waitForSelector('text=of-shop');
  assert.doesNotMatch(await page.textContent('body'), /bank/, 'not even its name');
  assert.doesNotMatch(await page.textContent('.tiles'), /per second/, 'what is counted of all is not for them');
  await page.goto(asked.url + lockPage('orders', 'shop'));
  await live(page);
  assert.match(await text(page, '[data-part=revoke]'), /key:reader may not revoke/);
  assert.equal(await page.locator('input[name=reason]').count(), 0);
  for (const [path, status] of [[lockPage('orders', 'bank'), 403], ['/console/sessions', 403], ['/console/files', 403]]) {
    assert.equal((await page.goto(asked.url + path)).status(), status, path);
  }
  const refused = await page.evaluate(async (lock) => (await fetch(lock)).status, `/console/live?${new URLSearchParams({ namespace: 'bank', name: 'orders' })}`);
  assert.equal(refused, 403);
  await page.click('text=Sign out');
  await page.waitForURL(/sign-in/);
  await page.goto(asked.url + lockPage('orders', 'shop'));
  assert.match(page.url(), /sign-in\?to=/, 'and back to where they wanted to go');
  await page.fill('input[name=key]', admin);
  await page.click('button:text("Sign in")');
  await page.waitForURL(/console\/lock/);
  // A link on a page of another site leads a signed-in user to the page, not to the sign-in.
  const elsewhere = createServer((request, answer) => {
    answer.setHeader('content-type', 'text/html').end(`<a href="${asked.url}${lockPage('orders', 'bank').replace('&', '&amp;')}">look</a>`);
  }).listen(0, '127.0.0.1');
  await once(elsewhere, 'listening');
  await page.goto(`http://localhost:${elsewhere.address().port}/`);
  await page.click('text=look');
  await page.waitForSelector('text=of-bank');
  elsewhere.close();
  page.wrong = page.wrong.filter((wrong) => !wrong.startsWith('asked http://localhost'));
  await page.goto(asked.url + lockPage('orders', 'shop'));
  await page.fill('input[name=reason]', 'by an admin');
  await page.click('button:text("Revoke")');
  await page.waitForSelector('text=no longer holds the lock.');
  page.wrong = page.wrong.filter((wrong) => !/401|403/.test(wrong));
  await close(page);
  await asked.stop();
});

async function many() {
  // As large a group as the server takes, so that it does not take minutes.
  const size = 50;
  const began = Date.now();
  const sent = [];
  for (let n = 0; n < N_MANY; n += size) {
    const locks = Array.from({ length: size }, (_, m) => ({ lock_name: `job/${String(n + m).padStart(6, '0')}` }));
    const body = { owner_id: `worker-${n}`, ttl_ms: 3_600_000, locks };
    sent.push(server.call('POST', '/v1/namespaces/many/acquire', body).then((answer) => assert.equal(answer.status, 200, answer.text)));
    if (sent.length === 16) await Promise.all(sent.splice(0));
  }
  await Promise.all(sent);
  console.log(`${N_MANY} locks were taken in ${Date.now() - began} ms`);
}

test('100,000 locks are as smooth as ten, and delay no client', { timeout: 600_000 }, async () => {
  await many();
  const page = await open();
  const times = {};
  const visit = async (what, path) => {
    const began = Date.now();
    await page.goto(server.url + path);
    times[what] = Date.now() - began;
  };
  let slowest = 0;
  let isOver = false;
  let n = 0;
  const others = (async () => {
    while (!isOver) {
      const began = Date.now();
      await server.release(await server.acquire('beside', 'vm-1'));
      slowest = Math.max(slowest, Date.now() - began);
      n += 1;
    }
  })();
  await visit('first page', '/console');
  const last = N_MANY - 1;
  await visit('search', `/console?q=job/${String(last).padStart(6, '0')}`);
  assert.equal(await page.locator('tbody tr').count(), 1);
  await visit('by owner', '/console?q=WORKER-500&state=held');
  await visit('sorted', '/console?namespace=many&sort=ends');
  assert.match(await text(page, '.pages span'), new RegExp(`of ${N_MANY.toLocaleString('en')}`));
  await page.click('text=Next page');
  assert.match(await text(page, '.pages span'), /^51 to 100/);
  isOver = true;
  await others;
  console.log(`pages of ${N_MANY} locks in ms: ${JSON.stringify(times)}; meanwhile ${n} acquire and release, the slowest ${slowest} ms`);
  // More than ten times as long as on a machine that has nothing else to do.
  assert.ok(slowest < 30_000, `a client waited ${slowest} ms`);
  await close(page);
});

test('cursors, searches and names that make no sense are refused in words', limit, async () => {
  const page = await open();
  const long = 'x'.repeat(201);
  for (const [path, why] of [
    ['/console?cursor=zz', /not a cursor/],
    ['/console?cursor=5b315d', /not a cursor/],
    [`/console?q=${long}`, /at most 200 bytes/],
    ['/console?sort=random', /sort: must be one of name, ends/],
    ['/console?state=lost', /state: must be one of/],
    ['/console?protocol=smtp', /protocol: must be one of/],
    ['/console/lock?namespace=a', /name/],
    ['/console/lock?namespace=&name=', /bytes/],
    [`/console/lock?namespace=a&name=${'x'.repeat(513)}`, /512 bytes/],
    ['/console/lock?namespace=a&name=b&before=1-2', /before: not an event/],
    ['/console/take?ttl=0', /ttl: must be a number/],
    ['/console/sessions?from=-1', /from/],
    ['/console?q=%FF', /UTF-8/],
  ]) {
    const answer = await page.goto(server.url + path);
    assert.equal(answer.status(), 400, path);
    assert.match(await text(page, '[role=alert]'), why);
  }
  assert.equal((await page.goto(`${server.url}/console/files?path=/../../etc`)).status(), 404);
  assert.equal((await page.goto(`${server.url}/console/files?path=/nowhere`)).status(), 404);
  await close(page);
});

// Made by the tests, so that they show what there is.
test('pictures', { skip: pictures === undefined, timeout: 600_000 }, async () => {
  const shown = await startServer();
  await shown.begin();
  const waits = [];
  await shown.acquire('deploy/shop', 'ci-runner-4', { namespace: 'shop' });
  await shown.call('POST', '/v1/namespaces/shop/locks/deploy%2Fshop/revoke', { reason: 'runner was lost' });
  await shown.release(await shown.acquire('deploy/shop', 'ci-runner-5', { namespace: 'shop', ttl_ms: 30_000 }));
  const hold = [['deploy/shop', 'ci-runner-7', 90], ['migrate/orders', 'vm-12', 240], ['nightly/backup', 'backup-1', 3000], ['encoder', 'render-3', 45],
    ['report/monthly', 'airflow-worker-2', 700], ['terraform/prod', 'anna@laptop', 1500], ['cache/warm', 'web-4', 20]];
  for (const [name, owner, ttl] of hold) await shown.acquire(name, owner, { namespace: name.startsWith('ter') ? 'infra' : 'shop', ttl_ms: ttl * 1000, metadata: { job: 4711, branch: 'main', url: 'https://ci.example.org/4711' } });
  for (const owner of ['ci-runner-9', 'ci-runner-2', 'vm-3']) {
    waits.push(shown.acquire('deploy/shop', owner, { namespace: 'shop', wait_ms: 80_000 }).catch(() => undefined));
    await until('it waits', async () => (await shown.look('deploy/shop', 'shop')).queue.some((waiter) => waiter.owner_id === owner));
  }
  await shown.call('POST', '/lock?client=laptop1&ttl=1s&job=sync');
  const shoot = async (path, name, options) => {
    const page = await open(path, options, shown);
    if (options.wait) await live(page);
    await page.screenshot({ path: join(pictures, `${name}.png`), animations: 'disabled' });
    await close(page);
  };
  // Charts need a while to have something to show.
  await new Promise((done) => { setTimeout(done, Number(process.env.CONSOLE_PAUSE ?? 11_000)); });
  for (let n = 0; n < 40; n += 1) await shown.release(await shown.acquire(`short/${n % 5}`, 'vm-1', { namespace: 'shop' }));
  const light = { viewport: { width: 1180, height: 640 }, colorScheme: 'light', wait: true };
  await shoot('/console', 'console-locks', light);
  await shoot(lockPage('deploy/shop', 'shop'), 'console-lock', { ...light, colorScheme: 'dark', viewport: { width: 1180, height: 760 } });
  if (process.env.CONSOLE_ALL) {
    const phone = { viewport: { width: 360, height: 740 }, wait: true };
    await shoot('/console', 'phone-locks', phone);
    await shoot(lockPage('deploy/shop', 'shop'), 'phone-lock', phone);
    await shoot('/console/take', 'take', { ...light, wait: false });
    await shoot('/console/cluster', 'cluster', light);
    await shoot('/console/sessions', 'sessions', light);
    await shoot('/console/files', 'files', light);
    await shoot('/lock/page', 'sticky', { ...light, wait: false });
    await shoot('/console/sign-in', 'sign-in', { ...light, wait: false });
  }
  await shown.end('SIGKILL');
  await Promise.all(waits);
  await shown.stop();
});
