// An OpenID provider: the certified implementation that npm has, on a free port of this machine.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { once } from 'node:events';
import Provider from 'oidc-provider';

const SECRET = 'a-secret-of-the-tests-0123456789';

// What tokens are for decides how they look: `urn:jwt` or `urn:opaque`.
const resources = {
  'urn:jwt': { audience: 'leasehold', scope: '', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } },
  'urn:other': { audience: 'other', scope: '', accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } } },
  'urn:opaque': { audience: 'leasehold', scope: '', accessTokenFormat: 'opaque' },
};

function key(id) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), kid: id, use: 'sig', alg: 'RS256' };
}

function configuration(keys, redirectUri) {
  const machine = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
  return {
    jwks: { keys },
    clients: [
      { client_id: 'ci', client_secret: SECRET, ...machine },
      { client_id: 'lh', client_secret: SECRET, ...machine },
      {
        client_id: 'lh-console',
        client_secret: SECRET,
        grant_types: ['authorization_code'],
        redirect_uris: [redirectUri],
        response_types: ['code'],
      },
    ],
    // Groups are in the ID token, so that no request for them is needed.
    claims: { openid: ['sub', 'groups'] },
    conformIdTokenClaims: false,
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: ['payments'] }) }),
    extraTokenClaims: (_, token) => ({ groups: ['payments'], sub: token.accountId ?? token.clientId }),
    cookies: { keys: ['tests'] },
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: true },
      clientCredentials: { enabled: true },
      revocation: { enabled: true, allowedPolicy: () => true },
      introspection: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (_, resource) => resources[resource],
      },
    },
  };
}

export async function startProvider(redirectUri = 'http://127.0.0.1/console/callback') {
  let keys = [key('first')];
  let answer;
  let isDown = false;
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(new URL(request.url, 'http://x').pathname);
    if (isDown) return response.writeHead(503).end();
    return answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const renew = () => {
    answer = new Provider(issuer, configuration(keys, redirectUri)).callback();
  };
  renew();
  return {
    issuer,
    secret: SECRET,
    count: (path) => asked.filter((each) => each === path).length,
    down: (value) => { isDown = value; },
    // Signs with another key from now on; the old one is gone.
    rotate: () => { keys = [key('second')]; renew(); },
    redirectTo: (uri) => { redirectUri = uri; renew(); },
    stop: () => server.closeAllConnections() ?? server.close(),
    token: (resource) => post(`${issuer}/token`, { grant_type: 'client_credentials', resource }),
    revoke: (token) => post(`${issuer}/token/revocation`, { token }),
  };
}

async function post(url, form) {
  const response = await fetch(url, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`ci:${SECRET}`).toString('base64')}` },
    body: new URLSearchParams(form),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  return text ? JSON.parse(text).access_token : undefined;
}
