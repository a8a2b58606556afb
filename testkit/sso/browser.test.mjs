// A real browser: people sign in with it, and pages of other origins try what they can.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { startProvider } from './provider.mjs';
import { startServer, until } from './leasehold.mjs';

let provider;
let server;
let browser;
let evil;

const auth = (issuer, url) => `version = 1
${url ? `public-url = "${url}"` : ''}
[[oidc]]
name = "oidc"
issuer = "${issuer}"
audiences = ["leasehold"]
${url ? 'login = { client-id = "lh-console", secret-file = "console", session = "1h" }' : ''}
[[rule]]
name = "payments"
groups = ["oidc:payments"]
may = ["acquire", "read", "revoke"]
namespaces = ["default"]
# What a page could do if the server trusted every client that can reach it.
[[rule]]
name = "any"
who = ["anonymous"]
may = ["acquire", "revoke"]
namespaces = ["default"]
`;

// A site of an attacker, to which any name resolves.
async function startEvil() {
  const site = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>evil</title>');
  }).listen(0, '127.0.0.1');
  await once(site, 'listening');
  return { port: site.address().port, stop: () => site.closeAllConnections() ?? site.close() };
}

before(async () => {
  provider = await startProvider();
  server = await startServer(auth(provider.issuer));
  provider.redirectTo(`${server.url}/console/callback`);
  server.write(auth(provider.issuer, server.url));
  await until('one can sign in', async () => (await server.ask('/console/sign-in')).text.includes('with=oidc'));
  evil = await startEvil();
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--host-resolver-rules=MAP evil.example 127.0.0.1, MAP rebound.example 127.0.0.1'],
  });
}, { timeout: 600_000 });

after(async () => {
  await browser?.close();
  evil?.stop();
  await server?.stop();
  provider?.stop();
});

// Cookies do not tell ports apart, so the provider's are there too.
async function ours(context) {
  const cookies = await context.cookies(server.url);
  return cookies.filter((cookie) => cookie.name.startsWith('__Host-leasehold'));
}

// Signs alice in as a person would.
async function signIn(page) {
  await page.goto(`${server.url}/console/sign-in?to=/console`);
  await page.click('text=Sign in with oidc');
  await page.fill('input[name=login]', 'alice');
  await page.fill('input[name=password]', 'any');
  await page.click('button[type=submit]');
  // What the provider asks once: whether alice wants this.
  await page.click('button[type=submit]');
  await page.waitForURL(`${server.url}/console`);
}

test('a user signs in with a provider, and out again', { timeout: 600_000 }, async () => {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  await signIn(page);
  assert.match(await page.textContent('body'), /Signed in as oidc:alice/);
  const [cookie] = await ours(context);
  assert.equal(cookie.name, '__Host-leasehold');
  assert.deepEqual([cookie.httpOnly, cookie.secure, cookie.sameSite, cookie.path], [true, true, 'Strict', '/']);
  const status = await page.evaluate(async () => (await fetch('/v1/locks/x')).status);
  assert.equal(status, 200, 'the page of the server may ask');
  await page.click('text=Sign out');
  await page.waitForURL(`${server.url}/console/sign-in`);
  assert.deepEqual(await ours(context), []);
  await context.close();
});

// Everything here is done by the page of another origin, with the cookie of a signed-in user.
const attacks = {
  'a no-cors POST with a blob, which says no Content-Type': (url) => fetch(`${url}/v1/locks/attack/acquire`, {
    method: 'POST',
    mode: 'no-cors',
    credentials: 'include',
    body: new Blob([JSON.stringify({ owner_id: 'evil', ttl_ms: 60_000 })]),
  }).catch(() => undefined),
  'a no-cors POST as text/plain': (url) => fetch(`${url}/v1/locks/attack/acquire`, {
    method: 'POST',
    mode: 'no-cors',
    credentials: 'include',
    body: JSON.stringify({ owner_id: 'evil', ttl_ms: 60_000 }),
  }).catch(() => undefined),
  'a POST of JSON, which the browser asks about first': (url) => fetch(`${url}/v1/locks/attack/acquire`, {
    method: 'POST',
    credentials: 'include',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ owner_id: 'evil', ttl_ms: 60_000 }),
  }).catch(() => undefined),
  'a form that is sent by itself': (url) => {
    const frame = document.createElement('iframe');
    frame.name = 'hidden';
    document.body.append(frame);
    const form = document.createElement('form');
    form.method = 'post';
    form.enctype = 'text/plain';
    form.target = 'hidden';
    form.action = `${url}/v1/locks/attack/acquire`;
    const field = document.createElement('input');
    field.name = '{"owner_id":"evil","ttl_ms":60000,"x":"';
    field.value = '"}';
    form.append(field);
    document.body.append(form);
    form.submit();
    return new Promise((done) => { setTimeout(done, 500); });
  },
  'a form of the sticky lock': (url) => {
    const frame = document.createElement('iframe');
    frame.name = 'hidden';
    document.body.append(frame);
    const form = document.createElement('form');
    form.method = 'post';
    form.target = 'hidden';
    form.action = `${url}/lock?client=evil&job=attack`;
    document.body.append(form);
    form.submit();
    return new Promise((done) => { setTimeout(done, 500); });
  },
  'an image that takes a lock': (url) => new Promise((done) => {
    const image = new Image();
    image.onload = done;
    image.onerror = done;
    image.src = `${url}/f?lock=acquire`;
  }),
};

for (const [name, attack] of Object.entries(attacks)) {
  test(`a page of another origin: ${name}`, { timeout: 600_000 }, async () => {
    const context = await browser.newContext({ bypassCSP: true });
    const page = await context.newPage();
    await signIn(page);
    // Another port of the same host is the same site, and another origin.
    for (const origin of [`http://127.0.0.1:${evil.port}`, `http://evil.example:${evil.port}`]) {
      await page.goto(origin);
      const answers = [];
      const note = (response) => {
        if (response.url().startsWith(server.url)) answers.push(response.status());
      };
      let isSent = false;
      const see = (request) => { isSent ||= request.url().startsWith(server.url); };
      page.on('response', note);
      page.on('request', see);
      await page.evaluate(attack, server.url).catch(() => undefined);
      await page.waitForLoadState();
      assert.ok(isSent, `${origin}: it was never sent`);
      assert.ok(answers.every((status) => status >= 400), `${origin}: ${answers}`);
      page.off('response', note);
      page.off('request', see);
    }
    await page.goto(`${server.url}/console`);
    const locks = await page.evaluate(async () => (await fetch('/v1/locks')).text());
    assert.doesNotMatch(locks, /attack/, 'it had no effect');
    await context.close();
  });
}

test('a page of another origin cannot follow events', { timeout: 600_000 }, async () => {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  await signIn(page);
  await page.goto(`http://127.0.0.1:${evil.port}`);
  const heard = await page.evaluate((url) => new Promise((done) => {
    const events = new EventSource(`${url}/v1/events`, { withCredentials: true });
    events.onopen = () => done('open');
    events.onerror = () => done('refused');
  }), server.url);
  assert.equal(heard, 'refused');
  await context.close();
});

test('a name that was made to lead here is not answered', { timeout: 600_000 }, async () => {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  const answer = await page.goto(`http://rebound.example:${server.port}/v1/locks`);
  assert.equal(answer.status(), 421);
  const status = await page.evaluate(async () => {
    const taken = await fetch('/v1/locks/attack/acquire', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ owner_id: 'evil', ttl_ms: 60_000 }),
    });
    return taken.status;
  });
  assert.equal(status, 421);
  await context.close();
});

test('a link cannot sign a user in as another user', { timeout: 600_000 }, async () => {
  // The attacker signs in up to the way back, and has the victim follow that.
  const attacker = await browser.newContext({ bypassCSP: true });
  const theirs = await attacker.newPage();
  let back;
  theirs.on('request', (request) => { if (request.url().includes('/console/callback')) back = request.url(); });
  await signIn(theirs);
  assert.match(back, /code=/);
  const victim = await browser.newContext({ bypassCSP: true });
  const page = await victim.newPage();
  await page.goto(`http://127.0.0.1:${evil.port}`);
  await page.evaluate((to) => { window.location.href = to; }, back);
  await page.waitForURL('**/console/callback*');
  assert.match(await page.textContent('body'), /was started in another browser/);
  assert.deepEqual(await ours(victim), []);
  await attacker.close();
  await victim.close();
});
