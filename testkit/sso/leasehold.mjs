// A server of ours, with an auth file that can change while it runs.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const PROXY_SECRET = 'the-proxy-proves-itself-by-this';

// Until it holds, or a failure that says what did not. Only what hangs takes that long.
export async function until(what, condition) {
  const end = Date.now() + 180_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await new Promise((done) => { setTimeout(done, 50); });
  }
}

// A free port, to listen on soon and after each restart. It is below the ports that the system gives to connections and to those who listen
// on any port, so that none of these takes it meanwhile.
export async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 22_000);
    const server = createServer().listen(port, '127.0.0.1');
    if (!await once(server, 'listening').then(() => true, () => false)) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

export async function startServer(auth, ...flags) {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-sso-'));
  const file = (name, text, mode = 0o600) => writeFileSync(join(folder, name), text, { mode });
  file('auth.toml', auth);
  file('intro', 'a-secret-of-the-tests-0123456789\n');
  file('console', 'a-secret-of-the-tests-0123456789\n');
  file('proxy', `${PROXY_SECRET}\n`);
  const child = spawn(
    process.env.LEASEHOLD_BIN,
    ['serve', '--listen', '127.0.0.1:0', '--port-file', join(folder, 'port'), '--ephemeral',
      '--auth-file', join(folder, 'auth.toml'), '--log', 'warn', ...flags],
    { stdio: ['ignore', 'ignore', 'inherit'] },
  );
  let port;
  await until('the server listens', () => {
    if (child.exitCode !== null) throw new Error(`the server ended: ${child.exitCode}`);
    try {
      port = Number(readFileSync(join(folder, 'port'), 'utf8'));
    } catch {
      return false;
    }
    return port > 0;
  });
  const url = `http://127.0.0.1:${port}`;
  return {
    port,
    url,
    folder,
    write: (text) => { file('auth.toml', text); child.kill('SIGHUP'); },
    // The status of one request, and what it says.
    ask: async (path, headers = {}, init = {}) => {
      const response = await fetch(url + path, { headers, redirect: 'manual', ...init });
      return { status: response.status, text: await response.text() };
    },
    stop: async () => {
      const ended = new Promise((done) => { child.once('exit', done); });
      child.kill('SIGTERM');
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

// A request as it stands, over a connection of its own; gives the status.
export function raw(port, lines) {
  return new Promise((done, failed) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8');
    socket.on('data', (piece) => { text += piece; });
    socket.on('end', () => done({ status: Number(text.split(' ')[1]), text }));
    socket.on('error', failed);
    socket.write(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`);
  });
}
