// Tokens of a real provider: discovery, rotation, introspection.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startProvider } from './provider.mjs';
import { startServer, until } from './leasehold.mjs';

let provider;
let server;

const auth = (issuer) => `version = 1
[[oidc]]
name = "oidc"
issuer = "${issuer}"
audiences = ["leasehold"]
introspection = { url = "${issuer}/token/introspection", client-id = "lh", secret-file = "intro" }
[[rule]]
name = "payments"
groups = ["oidc:payments"]
may = ["acquire"]
namespaces = ["default"]
`;

before(async () => {
  provider = await startProvider();
  server = await startServer(auth(provider.issuer), '--auth-failures-per-minute', '10000');
});

after(async () => {
  await server?.stop();
  provider?.stop();
});

const look = async (token) => (await server.ask('/v1/locks/x', { authorization: `Bearer ${token}` })).status;

test('a signed token is found good by the keys that discovery leads to', async () => {
  const token = await provider.token('urn:jwt');
  assert.equal(token.split('.').length, 3);
  for (let n = 0; n < 5; n += 1) assert.equal(await look(token), 200);
  assert.equal(provider.count('/jwks'), 1);
  const body = JSON.stringify({ owner_id: 'o', ttl_ms: 60_000 });
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const taken = await server.ask('/v1/locks/x/acquire', headers, { method: 'POST', body });
  assert.equal(taken.status, 200, taken.text);
  const seen = await server.ask('/v1/locks/x', headers);
  assert.match(seen.text, /"oidc:ci"/);
});

test('a token for another service is refused', async () => {
  assert.equal(await look(await provider.token('urn:other')), 401);
});

test('an opaque token is asked for, once, and a withdrawn one is not good', async () => {
  const token = await provider.token('urn:opaque');
  assert.equal(token.split('.').length, 1);
  for (let n = 0; n < 5; n += 1) assert.equal(await look(token), 200);
  assert.equal(provider.count('/token/introspection'), 1);
  const withdrawn = await provider.token('urn:opaque');
  await provider.revoke(withdrawn);
  assert.equal(await look(withdrawn), 401);
});

test('a new key is noticed, and the old one is not believed for ever', async () => {
  const old = await provider.token('urn:jwt');
  provider.rotate();
  const token = await provider.token('urn:jwt');
  // No sooner than ten seconds after the last time its keys were fetched.
  await until('the new key is known', async () => (await look(token)) === 200);
  assert.equal(await look(old), 401, 'signed with a key that is gone');
});

test('what is known counts while the provider is down', async () => {
  const token = await provider.token('urn:jwt');
  provider.down(true);
  assert.equal(await look(token), 200);
  assert.equal(await look('unknown-opaque-token'), 503);
  provider.down(false);
});
