// Proxies that sign people in: nginx (auth_request) and Apache, with headers that clients make up.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { raw, startServer } from './leasehold.mjs';
import { startApache, startAuthenticator, startNginx } from './proxies.mjs';
import { startShibboleth } from './shibboleth.mjs';

const auth = `version = 1
[proxy]
user-header = "X-Remote-User"
groups-header = "X-Remote-Groups"
from = ["127.0.0.1"]
secret-header = "X-Proxy-Secret"
secret-file = "proxy"
[[rule]]
name = "payments"
groups = ["proxy:payments"]
may = ["acquire"]
namespaces = ["*"]
[[rule]]
name = "root"
who = ["proxy:root"]
may = ["admin"]
namespaces = ["*"]
`;

let server;
let nginx;
let apache;
let authenticator;

before(async () => {
  server = await startServer(auth);
  authenticator = await startAuthenticator();
  nginx = await startNginx(server.port, authenticator.port);
  apache = await startApache(server.port);
});

after(async () => {
  await nginx?.stop();
  await apache?.stop();
  authenticator?.stop();
  await server?.stop();
});

const FORGED = ['X-Remote-User: root', 'x-remote-user: root', 'X-Remote-Groups: admins', 'X_Remote_User: root'];
const alice = `Authorization: Basic ${Buffer.from('alice:wonderland').toString('base64')}`;

async function take(port, lock, headers) {
  const body = JSON.stringify({ owner_id: 'o', ttl_ms: 60_000 });
  return raw(port, [
    `POST /v1/locks/${lock}/acquire HTTP/1.1`, 'Host: localhost', 'Content-Type: application/json',
    `Content-Length: ${body.length}`, ...headers, 'Connection: close', '', body,
  ]);
}

for (const [name, port, signedIn] of [
  ['nginx', () => nginx.port, 'Cookie: session=alice'],
  ['Apache', () => apache.port, alice],
]) {
  test(`${name}: signed-in users get the rights of their groups, and forged headers are removed`, async () => {
    const none = await raw(port(), ['GET /v1/locks/x HTTP/1.1', 'Host: localhost', ...FORGED]);
    assert.equal(none.status, 401, 'no user is signed in');
    for (const headers of [[signedIn], [signedIn, ...FORGED], [...FORGED, signedIn]]) {
      const admin = await raw(port(), ['GET /v1/admin/sessions HTTP/1.1', 'Host: localhost', ...headers]);
      assert.equal(admin.status, 403, admin.text);
      assert.match(admin.text, /proxy:alice/);
    }
    const taken = await take(port(), name, [signedIn, ...FORGED]);
    assert.equal(taken.status, 200, taken.text);
    const seen = await raw(port(), [`GET /v1/locks/${name} HTTP/1.1`, 'Host: localhost', signedIn]);
    assert.match(seen.text, /"proxy:alice"/);
  });
}

test('past the proxy the same headers say nothing', async () => {
  const headers = ['Host: localhost', ...FORGED, 'X-Remote-Groups: payments'];
  assert.equal((await raw(server.port, ['GET /v1/locks/x HTTP/1.1', ...headers])).status, 401);
  const guessed = [...headers, 'X-Proxy-Secret: guess-guess-guess-guess'];
  assert.equal((await raw(server.port, ['GET /v1/locks/x HTTP/1.1', ...guessed])).status, 401);
});

test('a proxy without a user name identifies no principal', async () => {
  const unnamed = await raw(nginx.port, ['GET /v1/locks/x HTTP/1.1', 'Host: localhost', 'Cookie: session=unnamed']);
  assert.equal(unnamed.status, 401, unnamed.text);
  const wrong = await raw(apache.port, ['GET /lock?job=x HTTP/1.1', 'Host: localhost']);
  assert.equal(wrong.status, 401, wrong.text);
  assert.match(wrong.text, /sends no user/);
});

test('Shibboleth: a user whom a SAML identity provider has signed in', { timeout: 600_000 }, async () => {
  const shibboleth = await startShibboleth(server.port);
  try {
    const url = `http://127.0.0.1:${shibboleth.port}`;
    const jar = new Map();
    const ask = async (to, init = {}) => {
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
      const headers = { ...(cookie && { cookie }), 'x-remote-user': 'root', ...init.headers };
      const answer = await fetch(to, { redirect: 'manual', ...init, headers });
      for (const set of answer.headers.getSetCookie()) {
        const [name, value] = set.split(';')[0].split('=');
        jar.set(name, value);
      }
      return answer;
    };
    const away = await ask(`${url}/v1/locks/shib`);
    assert.equal(away.status, 302, await away.text());
    const { to, form } = await (await fetch(away.headers.get('location'))).json();
    assert.ok(to.startsWith(`${url}/Shibboleth.sso/`), to);
    const back = await ask(to, { method: 'POST', body: new URLSearchParams(form) });
    assert.equal(back.status, 302, await back.text());
    assert.equal(back.headers.get('location'), `${url}/v1/locks/shib`);
    const body = JSON.stringify({ owner_id: 'o', ttl_ms: 60_000 });
    const json = { 'content-type': 'application/json' };
    const taken = await ask(`${url}/v1/locks/shib/acquire`, { method: 'POST', headers: json, body });
    assert.equal(taken.status, 200, await taken.text());
    const seen = await ask(`${url}/v1/locks/shib`);
    assert.match(await seen.text(), /"proxy:alice"/);
    assert.equal((await ask(`${url}/v1/admin/sessions`)).status, 403);
  } finally {
    await shibboleth.stop();
  }
});
