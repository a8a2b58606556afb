// An issuer over TLS is asked only if its certificate is good.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createSign, generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startServer } from './leasehold.mjs';

// An authority, and a certificate of it for this machine.
function certificates(folder) {
  const openssl = (...words) => execFileSync('openssl', words, { cwd: folder, stdio: 'ignore' });
  const made = ['-newkey', 'rsa:2048', '-nodes', '-days', '2'];
  openssl('req', '-x509', ...made, '-subj', '/CN=ca', '-keyout', 'ca.key', '-out', 'ca.pem');
  openssl('req', '-x509', ...made, '-subj', '/CN=id', '-keyout', 'id.key', '-out', 'id.pem', '-CA', 'ca.pem',
    '-CAkey', 'ca.key', '-addext', 'subjectAltName=DNS:localhost', '-addext', 'basicConstraints=critical,CA:FALSE');
  return (name) => readFileSync(join(folder, name));
}

function sign(key, claims) {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const message = `${part({ alg: 'RS256', kid: 'k' })}.${part(claims)}`;
  return `${message}.${createSign('RSA-SHA256').update(message).sign(key).toString('base64url')}`;
}

test('the keys of an issuer are fetched over TLS from whom the system trusts', { timeout: 600_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-tls-'));
  const read = certificates(folder);
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'k' };
  const site = createServer({ key: read('id.key'), cert: read('id.pem') }, (_, response) => {
    response.end(JSON.stringify({ keys: [jwk] }));
  }).listen(0, '127.0.0.1');
  await once(site, 'listening');
  const issuer = `https://localhost:${site.address().port}`;
  const exp = Math.floor(Date.now() / 1000) + 600;
  const token = sign(privateKey, { iss: issuer, sub: 'alice', aud: 'leasehold', exp });
  const auth = `version = 1
[[oidc]]
name = "oidc"
issuer = "${issuer}"
audiences = ["leasehold"]
jwks-url = "${issuer}/jwks"
[[rule]]
name = "alice"
who = ["oidc:alice"]
may = ["read"]
namespaces = ["*"]
`;
  for (const [trusted, expected] of [['ca.pem', 200], [undefined, 503]]) {
    if (trusted) process.env.SSL_CERT_FILE = join(folder, trusted);
    else delete process.env.SSL_CERT_FILE;
    const server = await startServer(auth);
    const answer = await server.ask('/v1/locks/x', { authorization: `Bearer ${token}` });
    assert.equal(answer.status, expected, answer.text);
    await server.stop();
  }
  site.close();
  rmSync(folder, { recursive: true });
});
