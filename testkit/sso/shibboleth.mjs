// Apache with mod_shib and its shibd, and a SAML identity provider where every user is alice.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import samlp from 'samlp';
import { PROXY_SECRET, until } from './leasehold.mjs';
import { runApache } from './proxies.mjs';

const IDP = 'https://idp.test';
const SP = 'https://sp.test';

// What it says of alice: a name and two groups.
const claims = { uid: 'alice', isMemberOf: ['ops', 'payments'] };

async function startIdp(folder) {
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=idp', '-keyout',
    'idp.key', '-out', 'idp.pem'], { cwd: folder, stdio: 'ignore' });
  const [key, cert] = ['idp.key', 'idp.pem'].map((name) => readFileSync(join(folder, name), 'utf8'));
  const answerTo = (to) => samlp.auth({
    issuer: IDP,
    cert,
    key,
    destination: to,
    recipient: to,
    getUserFromRequest: () => claims,
    getPostURL: (_, __, ___, done) => done(null, to),
    profileMapper: () => ({
      getClaims: () => claims,
      getNameIdentifier: () => ({ nameIdentifier: 'alice' }),
    }),
    responseHandler: (response, options, request, reply) => {
      reply.end(JSON.stringify({
        to: options.postUrl,
        form: { SAMLResponse: response.toString('base64'), RelayState: request.query.RelayState },
      }));
    },
  });
  const server = createServer((request, reply) => {
    const url = new URL(request.url, 'http://x');
    request.query = Object.fromEntries(url.searchParams);
    const asked = inflateRawSync(Buffer.from(request.query.SAMLRequest, 'base64')).toString();
    const answer = answerTo(/AssertionConsumerServiceURL="([^"]+)"/.exec(asked)[1]);
    answer(request, reply, (error) => reply.writeHead(500).end(String(error)));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${server.address().port}/sso`, cert, stop: () => server.close() };
}

function writeConfiguration(folder, idp) {
  const write = (name, text) => writeFileSync(join(folder, name), text);
  const pem = idp.cert.replace(/-----[^-]+-----|\s/g, '');
  write('idp.xml', `<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${IDP}">
  <IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">
    <KeyDescriptor use="signing"><KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data>
      <X509Certificate>${pem}</X509Certificate></X509Data></KeyInfo></KeyDescriptor>
    <SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="${idp.url}"/>
  </IDPSSODescriptor>
</EntityDescriptor>`);
  const format = 'urn:oasis:names:tc:SAML:2.0:attrname-format:unspecified';
  const formats = [format, format.replace('unspecified', 'basic'), format.replace('unspecified', 'uri')];
  const attribute = (name) => formats.map((each) => `<Attribute name="${name}" nameFormat="${each}" id="${name}"/>`).join('');
  write('map.xml', `<Attributes xmlns="urn:mace:shibboleth:2.0:attribute-map">${attribute('uid')}${attribute('isMemberOf')}</Attributes>`);
  write('shibboleth2.xml', `<SPConfig xmlns="urn:mace:shibboleth:3.0:native:sp:config" clockSkew="180">
  <OutOfProcess logger="/etc/shibboleth/console.logger"/>
  <InProcess logger="/etc/shibboleth/console.logger"/>
  <UnixListener address="${folder}/shibd.sock"/>
  <ApplicationDefaults entityID="${SP}" REMOTE_USER="uid">
    <Sessions lifetime="600" timeout="600" checkAddress="false" handlerSSL="false" cookieProps="http">
      <SSO entityID="${IDP}">SAML2</SSO>
    </Sessions>
    <Errors supportContact="root@localhost"/>
    <MetadataProvider type="XML" path="${folder}/idp.xml"/>
    <AttributeExtractor type="XML" path="${folder}/map.xml"/>
  </ApplicationDefaults>
  <SecurityPolicyProvider type="XML" path="/etc/shibboleth/security-policy.xml"/>
  <ProtocolProvider type="XML" path="/etc/shibboleth/protocols.xml"/>
</SPConfig>`);
}

export async function startShibboleth(upstream) {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-shib-'));
  chmodSync(folder, 0o755);
  mkdirSync(join(folder, 'run'));
  const idp = await startIdp(folder);
  writeConfiguration(folder, idp);
  const shibd = spawn('/usr/sbin/shibd', ['-F', '-f', '-c', join(folder, 'shibboleth2.xml'), '-p', join(folder, 'pid')],
    { stdio: 'ignore' });
  await until('shibd listens', () => {
    if (shibd.exitCode !== null) throw new Error(`shibd ended: ${shibd.exitCode}`);
    return existsSync(join(folder, 'shibd.sock'));
  });
  chmodSync(join(folder, 'shibd.sock'), 0o777);
  const apache = await runApache(['shib'], `
ShibConfig ${folder}/shibboleth2.xml
ProxyPreserveHost On
<Location "/">
  AuthType shibboleth
  ShibRequestSetting requireSession 1
  Require valid-user
  RequestHeader set X-Remote-User "expr=%{REMOTE_USER}"
  RequestHeader set X-Remote-Groups "expr=%{reqenv:isMemberOf}"
  RequestHeader set X-Proxy-Secret "${PROXY_SECRET}"
</Location>
<Location "/healthz">
  ShibRequestSetting requireSession 0
  Require all granted
</Location>
ProxyPass "/Shibboleth.sso" "!"
ProxyPass "/" "http://127.0.0.1:${upstream}/"
`);
  return {
    port: apache.port,
    stop: async () => {
      await apache.stop();
      const ended = once(shibd, 'exit');
      shibd.kill('SIGTERM');
      await ended;
      idp.stop();
      rmSync(folder, { recursive: true });
    },
  };
}
