// nginx and Apache in front of a server of ours, each from a folder of its own, as docs/operate/single-sign-on.md has them.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PROXY_SECRET, freePort, raw, until } from './leasehold.mjs';

// Apache cannot open the pipe that is its standard error.
function log(folder) {
  const file = join(folder, 'error.log');
  return existsSync(file) ? readFileSync(file, 'utf8') : '';
}

async function run(folder, port, command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  await until(`${command} listens`, async () => {
    if (child.exitCode !== null) throw new Error(`${command} ended: ${child.exitCode}\n${log(folder)}`);
    try {
      await raw(port, ['GET /healthz HTTP/1.1', 'Host: localhost']);
      return true;
    } catch {
      return false;
    }
  });
  return {
    port,
    stop: async () => {
      const ended = once(child, 'exit');
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

// Stands for oauth2-proxy: who has the cookie `alice` is alice, in two groups.
export async function startAuthenticator() {
  const server = createHttp((request, response) => {
    const user = /session=(\w+)/.exec(request.headers.cookie ?? '')?.[1];
    if (!user) return response.writeHead(401).end();
    return response.writeHead(202, {
      'X-Auth-Request-User': user === 'unnamed' ? '' : user,
      'X-Auth-Request-Groups': 'ops;payments',
    }).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: server.address().port, stop: () => server.close() };
}

export async function startNginx(upstream, authenticator) {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-nginx-'));
  const port = await freePort();
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`).join(' ');
  writeFileSync(join(folder, 'nginx.conf'), `
daemon off; worker_processes 1; pid ${folder}/pid; error_log stderr crit;
events {}
http {
  access_log off; ${paths}
  server {
    listen 127.0.0.1:${port};
    location = /auth {
      internal;
      proxy_pass http://127.0.0.1:${authenticator};
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
    }
    location = /healthz { proxy_pass http://127.0.0.1:${upstream}; }
    location / {
      auth_request /auth;
      auth_request_set $user $upstream_http_x_auth_request_user;
      auth_request_set $groups $upstream_http_x_auth_request_groups;
      proxy_set_header X-Remote-User $user;
      proxy_set_header X-Remote-Groups $groups;
      proxy_set_header X-Proxy-Secret "${PROXY_SECRET}";
      proxy_set_header Host $http_host;
      proxy_pass http://127.0.0.1:${upstream};
    }
  }
}`);
  return run(folder, port, 'nginx', ['-c', join(folder, 'nginx.conf'), '-p', folder]);
}

// Apache with these modules beside the usual ones, and this configuration.
export async function runApache(more, configuration) {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-apache-'));
  const port = await freePort();
  const modules = ['mpm_event', 'authn_core', 'authn_file', 'authz_core', 'authz_user', 'auth_basic', 'headers',
    'proxy', 'proxy_http', 'setenvif', ...more];
  const load = modules.map((name) => `LoadModule ${LOADED[name] ?? `${name}_module`} /usr/lib/apache2/modules/mod_${name}.so`);
  mkdirSync(join(folder, 'run'));
  // SHA-1, because every openssl can make it; no other program reads this file.
  const hash = execFileSync('openssl', ['dgst', '-sha1', '-binary'], { input: 'wonderland' }).toString('base64');
  writeFileSync(join(folder, 'users'), `alice:{SHA}${hash}\n`);
  writeFileSync(join(folder, 'apache.conf'), `
ServerRoot ${folder}
DefaultRuntimeDir ${folder}/run
PidFile ${folder}/run/pid
ServerName localhost
Listen 127.0.0.1:${port}
ErrorLog ${folder}/error.log
LogLevel error
${load.join('\n')}
${process.getuid() === 0 ? 'User www-data\nGroup www-data' : ''}
${configuration}
`);
  execFileSync('chmod', ['755', folder]);
  execFileSync('chmod', ['644', join(folder, 'users')]);
  return run(folder, port, '/usr/sbin/apache2', ['-X', '-f', join(folder, 'apache.conf')]);
}

// Not called after its file.
const LOADED = { shib: 'mod_shib' };

export async function startApache(upstream) {
  return runApache([], `
ProxyPreserveHost On
<Location "/">
  AuthType Basic
  AuthName "sso"
  AuthUserFile users
  Require valid-user
  RequestHeader set X-Remote-User "expr=%{REMOTE_USER}"
  RequestHeader set X-Remote-Groups "payments"
  RequestHeader set X-Proxy-Secret "${PROXY_SECRET}"
</Location>
<Location "/healthz">
  Require all granted
</Location>
# A common mistake: no user signs in here, and Apache writes (null).
<Location "/lock">
  Require all granted
  RequestHeader set X-Remote-User "%{REMOTE_USER}e"
</Location>
ProxyPass "/" "http://127.0.0.1:${upstream}/"
`);
}
