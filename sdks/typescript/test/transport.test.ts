import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { TLSSocket } from "node:tls";
import { inspect } from "node:util";

import { Client } from "../src/index.js";
import { settled } from "../testkit/fake-clock.js";
import { until } from "../testkit/patience.js";
import { Server as RealServer } from "../testkit/server.js";

const FREE = JSON.stringify({ lock_name: "a", held: false, last_token: 0 });

interface Stub {
  url: string;
  seen: IncomingMessage[];
}

async function listen(t: TestContext, server: Server, scheme: string): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server that answers as it is told. */
async function stub(t: TestContext, answer: RequestListener): Promise<Stub> {
  const seen: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    seen.push(request);
    request.resume();
    answer(request, response);
  });
  return { url: await listen(t, server, "http"), seen };
}

const good: RequestListener = (_, response) => void response.end(FREE);

function refusing(status: number, code: string, headers: Record<string, string> = {}): RequestListener {
  const body = JSON.stringify({ error: "no", code, retryable: status === 503, may_have_taken_effect: false });
  return (_, response) => void response.writeHead(status, headers).end(body);
}

test("where no connection comes about, the next URL is asked at once, and stays the one", async (t) => {
  const second = await stub(t, good);
  const client = new Client({ url: ["http://127.0.0.1:1", second.url] });
  await client.calls.look("a");
  await client.calls.look("a");
  assert.equal(second.seen.length, 2);
});

test("if all URLs are tried in vain, the error says so", async () => {
  const client = new Client({ url: ["http://127.0.0.1:1", "http://127.0.0.1:2"] });
  await assert.rejects(client.calls.look("a"), {
    name: "UnreachableError",
    retryable: true,
    mayHaveTakenEffect: false,
    message:
      "cannot connect to http://127.0.0.1:2: connection refused, nor to http://127.0.0.1:1. Is the server running? (LEASEHOLD_URL)",
  });
});

test("after a 503, the next try goes to another URL, under the same request id", async (t) => {
  const ids: string[] = [];
  const noting =
    (listener: RequestListener): RequestListener =>
    (request, response) => {
      request.on("data", (piece) => ids.push(JSON.parse(String(piece)).request_id));
      listener(request, response);
    };
  const first = await stub(t, noting(refusing(503, "OVERLOADED")));
  const second = await stub(t, noting(refusing(409, "LIMIT_DIFFERS")));
  const client = new Client({ url: [first.url, second.url] });
  await assert.rejects(client.lock("a").acquire(), { code: "LIMIT_DIFFERS" });
  assert.deepEqual([first.seen.length, second.seen.length], [1, 1]);
  assert.equal(ids.length, 2);
  assert.equal(ids[0], ids[1]);
});

test("after an answer that did not come in time, the next request goes to another URL", async (t) => {
  const first = await stub(t, () => undefined);
  const second = await stub(t, good);
  const client = new Client({ url: [first.url, second.url], timeoutMs: 5_000 });
  assert.equal((await client.calls.look("a")).held, false);
  assert.deepEqual([first.seen.length, second.seen.length], [1, 1]);
});

test("a follower's 421 is followed to the leader if that is one of our URLs", async (t) => {
  const leader = await stub(t, good);
  const other = await stub(t, refusing(421, "NOT_LEADER"));
  const follower = await stub(t, refusing(421, "NOT_LEADER", { "leasehold-leader": `${leader.url}/` }));
  const client = new Client({ url: [follower.url, other.url, leader.url], apiKey: "key" });
  assert.equal((await client.calls.look("a")).held, false);
  assert.deepEqual([follower.seen.length, other.seen.length, leader.seen.length], [1, 0, 1]);
});

test("a 421 is not followed to a URL that was not configured, and no key goes there", async (t) => {
  const stranger = await stub(t, good);
  const follower = await stub(t, refusing(421, "NOT_LEADER", { "leasehold-leader": stranger.url }));
  const client = new Client({ url: follower.url, apiKey: "key" });
  await assert.rejects(client.calls.look("a"), { code: "NOT_LEADER", retryable: true });
  assert.equal(stranger.seen.length, 0);
});

test("a follower is asked who leads, and then to pass it on", async (t) => {
  const refuse = refusing(421, "NOT_LEADER");
  const follower = await stub(t, (request, response) => {
    (request.headers["leasehold-direct"] === "1" ? refuse : good)(request, response);
  });
  const directs = (): unknown[] => follower.seen.map(({ headers }) => headers["leasehold-direct"]);
  await new Client({ url: [follower.url, "http://127.0.0.1:1"] }).calls.look("a");
  assert.deepEqual(directs(), ["1", undefined]);
  await new Client({ url: follower.url }).calls.look("a");
  assert.deepEqual(directs(), ["1", undefined, undefined]);
});

test("any leader is followed only if that is meant", async (t) => {
  const stranger = await stub(t, good);
  const follower = await stub(t, refusing(421, "NOT_LEADER", { "leasehold-leader": stranger.url }));
  const client = new Client({ url: follower.url, followAnyLeader: true });
  await client.calls.look("a");
  await client.calls.look("a");
  assert.deepEqual([follower.seen.length, stranger.seen.length], [1, 2]);
});

test("another 421 is an answer", async (t) => {
  const first = await stub(t, refusing(421, "HOST_NOT_ALLOWED"));
  const second = await stub(t, good);
  const client = new Client({ url: [first.url, second.url] });
  await assert.rejects(client.calls.look("a"), { code: "HOST_NOT_ALLOWED", retryable: false });
});

test("a redirect is not followed", async (t) => {
  const stranger = await stub(t, good);
  const server = await stub(t, (_, response) => void response.writeHead(307, { location: stranger.url }).end());
  const client = new Client({ url: server.url, apiKey: "key" });
  await assert.rejects(client.calls.look("a"), { name: "ForeignError", status: 307 });
  assert.equal(stranger.seen.length, 0);
});

test("the key goes along with every request", async (t) => {
  const server = await stub(t, good);
  const client = new Client({ url: server.url, apiKey: "key" });
  await client.calls.look("a");
  const events = client.events();
  await events.connect();
  await events.return();
  assert.deepEqual(server.seen.map(({ headers }) => headers.authorization), ["Bearer key", "Bearer key"]);
});

test("an answer that is none of ours is told, and how it begins", async (t) => {
  const server = await stub(t, (_, response) => void response.writeHead(502).end(`<h1>${"x".repeat(999)}`));
  const client = new Client({ url: server.url });
  await assert.rejects(client.calls.look("a"), { name: "ForeignError", retryable: true, body: `<h1>${"x".repeat(196)}` });
});

test("a connection that breaks in the middle of an answer leaves it unknown", async (t) => {
  const server = await stub(t, (_, response) => {
    response.writeHead(200, { "content-length": 100 }).write("{");
    void settled().then(() => response.destroy());
  });
  const client = new Client({ url: server.url });
  await assert.rejects(client.calls.revoke("a", "test"), { name: "BrokenError", mayHaveTakenEffect: true });
  assert.equal(server.seen.length, 1, "it is not repeated by itself");
});

test("a connection the server had closed does not make a question fail", async (t) => {
  const server = await stub(t, (_, response) => void response.end(FREE, () => setImmediate(() => response.socket?.destroy())));
  const client = new Client({ url: server.url });
  for (let n = 1; n <= 5; n += 1) {
    await client.calls.look("a");
  }
  await until("all are seen", () => server.seen.length >= 5);
});

test("TLS: a CA file, a client certificate, and no trust without them", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-ts-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [certFile, keyFile] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const openssl = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test";
  const names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", keyFile, "-out", certFile];
  execFileSync("openssl", [...openssl.split(" "), ...names], { stdio: "ignore" });
  const cert = readFileSync(certFile);
  const options = { key: readFileSync(keyFile), cert, ca: cert, requestCert: true, rejectUnauthorized: false };
  const server = createTlsServer(options, (request, response) => {
    const subject = (request.socket as TLSSocket).getPeerCertificate().subject?.CN;
    response.end(JSON.stringify({ lock_name: subject ?? "nobody", held: false, last_token: 0 }));
  });
  const url = await listen(t, server, "https");
  const known = async (more: object): Promise<string> => (await new Client({ url, ...more }).calls.look("a")).lock_name;
  assert.equal(await known({ caFile: certFile }), "nobody");
  assert.equal(await known({ caFile: certFile, clientCertFile: certFile, clientKeyFile: keyFile, apiKey: "key" }), "test");
  const untrusted = { name: "TlsError", retryable: false, mayHaveTakenEffect: false, message: /cannot be verified.*LEASEHOLD_CA_FILE/ };
  await assert.rejects(known({}), untrusted);
  const other = await stub(t, good);
  const both = new Client({ url: [url, other.url] });
  assert.equal((await both.calls.look("a")).lock_name, "a", "one server's certificate does not keep others from answering");
  await assert.rejects(new Client({ url: [url, "http://127.0.0.1:1"] }).lock("a").acquire(), untrusted);
});

test("a server that speaks TLS knows a client by its certificate", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-ts-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const [certFile, keyFile, authFile] = [join(folder, "cert.pem"), join(folder, "key.pem"), join(folder, "auth.toml")];
  // Its own authority, the server's certificate and the client's.
  const openssl = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test";
  const names = ["-addext", "subjectAltName=IP:127.0.0.1,DNS:web-1", "-addext", "basicConstraints=critical,CA:FALSE"];
  execFileSync("openssl", [...openssl.split(" "), ...names, "-keyout", keyFile, "-out", certFile], { stdio: "ignore" });
  const rule = 'name = "web"\nwho = ["mtls:web-1"]\nmay = ["acquire"]\nnamespaces = ["*"]\n';
  writeFileSync(authFile, `version = 1\n[mtls]\nca-file = "cert.pem"\nprincipal = "dns"\n[[rule]]\n${rule}`, { mode: 0o600 });
  chmodSync(certFile, 0o600);
  const tls = ["--tls-cert-file", certFile, "--tls-key-file", keyFile, "--auth-file", authFile];
  const server = await RealServer.start(tls, "https");
  t.after(() => server.stop());
  const known = server.client({ caFile: certFile, clientCertFile: certFile, clientKeyFile: keyFile });
  const lease = await known.lock("a").acquire();
  assert.equal((await known.calls.look("a")).principal, "mtls:web-1");
  await lease.release();
  await assert.rejects(server.client({ caFile: certFile }).calls.look("a"), { status: 401 });
  // If one of these were tried again, it would be after half a minute.
  const retry = { pauseMinMs: 60_000, pauseMaxMs: 60_000, totalMaxMs: 3_600_000 };
  const begunAt = performance.now();
  await assert.rejects(server.client().lock("a", { retry }).acquire(), { name: "TlsError", message: /LEASEHOLD_CA_FILE/ });
  const plain = new Client({ url: server.url.replace("https", "http") });
  await assert.rejects(plain.lock("a", { retry }).acquire(), { name: "TlsError", retryable: false, message: /speaks TLS: use https/ });
  assert.ok(performance.now() - begunAt < 30_000, "neither is tried again");
});

test("a Unix socket", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-ts-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const url = `unix:${join(folder, "a.sock")}`;
  const server = await RealServer.start(["--listen", url]);
  t.after(() => server.stop());
  const client = new Client({ url, apiKey: "lh_a_b" });
  const lease = await client.lock("a").acquire();
  assert.equal((await client.calls.look("a")).held, true);
  await lease.release();
  await assert.rejects(new Client({ url: `${url}x` }).calls.look("a"), { name: "UnreachableError" });
});

const LEASE = { acquired: true, lock_name: "a", owner_id: "me", lease_id: "1.a", fencing_token: 1, expires_after_send_ms: 9_000 };

test("a 2xx that is none of ours grants nothing and renews nothing", async (t) => {
  let said: unknown = {};
  const { url, seen } = await stub(t, (_, response) => void response.end(typeof said === "string" ? said : JSON.stringify(said)));
  const client = new Client({ url });
  const lacking = Object.keys(LEASE).filter((name) => name !== "acquired");
  const odd = [
    "", "<html>", "[".repeat(100_000), null, [], {}, 7, ...lacking.map((name) => ({ ...LEASE, [name]: undefined })),
    { ...LEASE, expires_after_send_ms: "soon" }, { ...LEASE, expires_after_send_ms: -1 }, { ...LEASE, lease_id: null },
    { ...LEASE, fencing_token: "1" }, { ...LEASE, fencing_token: 2 ** 53 },
  ];
  const retry = { attemptsMax: 1 };
  for (said of odd) {
    const shown = JSON.stringify(said).slice(0, 100);
    await assert.rejects(client.lock("a", { retry }).acquire(), { name: "ForeignError" }, shown);
    await assert.rejects(client.locks(["a", "b"], { retry }).acquire(), { name: "ForeignError" }, shown);
  }
  said = { ...LEASE, lease_id: "1.secret", owner_id: undefined };
  await assert.rejects(client.lock("a", { retry }).acquire(), (error: Error) => !inspect(error).includes("secret"));
  said = {};
  await assert.rejects(client.openSession(), { name: "ForeignError" });
  said = { ...LEASE, expires_after_send_ms: 1_000 };
  const lease = await client.lock("a", { ttlMs: 1_000 }).acquire();
  said = {};
  await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
  assert.equal(lease.signal.reason.reason, "out-of-time");
  assert.ok(seen.some((request) => request.url === "/v1/locks/a/renew"));
});
