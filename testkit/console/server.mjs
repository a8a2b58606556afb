// Servers to look at: on a port that stays the same over restarts, with what the tests want to be there.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort, until } from '../sso/leasehold.mjs';

export { freePort, until };

// Flags may name the server's folder: {folder}.
export async function startServer(...flags) {
  const folder = mkdtempSync(join(tmpdir(), 'leasehold-console-'));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  let child;

  // The answer to a call of the API.
  const call = async (method, path, body, headers = {}) => {
    const sent = body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json', ...headers } };
    const answer = await fetch(url + path, { method, headers, ...sent });
    const text = await answer.text();
    return { status: answer.status, text, json: () => JSON.parse(text), headers: answer.headers };
  };
  const at = (namespace, name, verb) => `/v1/namespaces/${encodeURIComponent(namespace)}/locks/${encodeURIComponent(name)}/${verb}`;

  const server = {
    url,
    port,
    folder,
    call,
    begin: async () => {
      const more = flags.map((flag) => flag.replace('{folder}', folder));
      child = spawn(
        process.env.LEASEHOLD_BIN,
        ['serve', '--listen', `127.0.0.1:${port}`, '--data', join(folder, 'data'), '--port-file', join(folder, 'port'), '--log', 'warn', ...more],
        { stdio: ['ignore', 'ignore', 'inherit'] },
      );
      const own = child;
      await until('the server listens', async () => {
        if (own.exitCode !== null) throw new Error(`the server ended: ${own.exitCode}`);
        return fetch(`${url}/healthz`).then((answer) => answer.ok, () => false);
      });
    },
    end: async (signal = 'SIGTERM') => {
      const ended = once(child, 'exit');
      child.kill(signal);
      await ended;
    },
    stop: async () => {
      if (child && child.exitCode === null && child.signalCode === null) await server.end();
      rmSync(folder, { recursive: true });
    },
    acquire: async (name, owner, more = {}) => {
      const { namespace = 'default', headers, ...rest } = more;
      const answer = await call('POST', at(namespace, name, 'acquire'), { owner_id: owner, ttl_ms: 3_600_000, ...rest }, headers);
      assert.equal(answer.status, 200, answer.text);
      return { namespace, name, owner, ...answer.json() };
    },
    release: async (lease) => {
      const { namespace, name, owner, lease_id, fencing_token } = lease;
      const answer = await call('POST', at(namespace, name, 'release'), { owner_id: owner, lease_id, fencing_token });
      assert.equal(answer.status, 200, answer.text);
    },
    look: async (name, namespace = 'default') => (await call('GET', at(namespace, name, '').replace(/\/$/, ''))).json(),
  };
  return server;
}

export function keyIn(text) {
  const [key] = text.match(/lh_[0-9a-z]+_[0-9a-z]+/) ?? [];
  assert.ok(key, `there is no key in ${text}`);
  return key;
}
