/** What is promised when connections break and servers stop. */

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { Client, type Lease, type LostError } from "../src/index.js";
import { Link } from "../testkit/link.js";
import { fired, soon, until } from "../testkit/patience.js";
import { Server } from "../testkit/server.js";

let server: Server;
let link: Link;
let direct: Client;
let client: Client;
before(async () => (server = await Server.start()));
after(() => server.stop());
beforeEach(async () => {
  link = await Link.to(() => server.url);
  direct = server.client();
  client = new Client({ url: link.url, timeoutMs: 6_000 });
});
afterEach(() => link.close());

async function kinds(lock: string): Promise<string[]> {
  const { events } = await direct.calls.history({ lock });
  return events.map(({ kind }) => kind).reverse();
}

test("an acquire whose answer is lost is repeated under the same request id: one lease", async () => {
  link.fate = () => (link.of("/acquire").length <= 3 ? "cut" : "pass");
  const lease = await client.lock("cut-acquire").acquire();
  const ids = link.of("/acquire").map(({ body }) => body["request_id"]);
  assert.equal(ids.length, 4);
  assert.equal(new Set(ids).size, 1);
  assert.deepEqual(await kinds("cut-acquire"), ["granted"]);
  await lease.release();
});

test("a release whose answer is lost is repeated under the same request id: one release", async () => {
  const lease = await client.lock("cut-release").acquire();
  let next: Promise<Lease> | undefined;
  link.fate = ({ path }) => {
    if (path.endsWith("/release") && link.of("/release").length <= 3) {
      next ??= direct.lock("cut-release", { waitMs: 600_000 }).acquire();
      return "cut";
    }
    return "pass";
  };
  await lease.release();
  const ids = link.of("/release").map(({ body }) => body["request_id"]);
  assert.equal(ids.length, 4);
  assert.equal(new Set(ids).size, 1);
  const other = await next;
  assert.equal(other?.held, true);
  assert.deepEqual((await kinds("cut-release")).filter((kind) => kind !== "queued"), ["granted", "released", "granted"]);
  await other?.release();
});

test("nothing is renewed after a release, though its renewal was under way", async () => {
  const lease = await client.lock("no-renewal", { ttlMs: 6_000 }).acquire();
  link.fate = ({ path }) => (path.endsWith("/renew") ? "swallow" : "pass");
  await until("a renewal is under way", () => link.of("/renew").length === 1);
  await lease.release();
  const n = link.seen.length;
  const over = client.clock.now() + 6_100;
  await until("a ttl has passed", () => client.clock.now() > over);
  assert.deepEqual(link.seen.slice(n), []);
  assert.equal(link.seen[n - 1]?.path.endsWith("/release"), true);
});

test("the loss is told before the lease can end, counted from when the request was sent", async () => {
  const [ttlMs, marginMs] = [10_000, 4_000];
  const [sentAt, lease] = [client.clock.now(), await client.lock("swallowed", { ttlMs, marginMs }).acquire()];
  link.fate = () => "swallow";
  const { reason } = (await fired(lease.signal)) as LostError;
  const toldAfterMs = client.clock.now() - sentAt;
  assert.equal(reason, "out-of-time");
  assert.ok(toldAfterMs < ttlMs - 50 && toldAfterMs > ttlMs / 2, `${toldAfterMs}`);
  assert.equal((await direct.calls.look("swallowed")).held, true, "it has not ended at the server");
});

test("the answer to a renewal that comes after the loss changes nothing", async () => {
  const lease = await client.lock("final", { ttlMs: 3_000 }).acquire();
  link.fate = ({ path }) => (path.endsWith("/renew") ? "stall" : "pass");
  await fired(lease.signal);
  link.fate = () => "pass";
  assert.equal(lease.held, false);
  const n = link.of("/renew").length;
  const over = client.clock.now() + 3_100;
  await until("a ttl has passed", () => client.clock.now() > over);
  assert.deepEqual([lease.held, link.of("/renew").length], [false, n]);
});

test("a wait survives a restart of the server, under the same request id", async () => {
  const holder = await direct.lock("restart", { ttlMs: 600_000 }).acquire();
  const waiting = client.lock("restart", { waitMs: 600_000 }).acquire();
  await until("it waits", async () => (await direct.calls.look("restart")).n_waiting === 1);
  await server.kill();
  await server.start();
  await until("it waits again", async () => (await direct.calls.look("restart")).queue?.[0]?.parked === false);
  await holder.release();
  const lease = await soon("it is granted", waiting);
  assert.equal(lease.fencingToken, 2);
  const ids = link.of("/acquire").map(({ body }) => body["request_id"]);
  assert.ok(ids.length > 1);
  assert.equal(new Set(ids).size, 1);
  await lease.release();
});

test("a lease survives a restart of the server", async () => {
  const lease = await client.lock("kept", { ttlMs: 20_000 }).acquire();
  await server.kill();
  await server.start();
  const { end } = lease;
  await until("it is renewed", () => lease.end > end);
  assert.equal(lease.held, true);
  assert.equal((await direct.calls.look("kept")).fencing_token, lease.fencingToken);
  await lease.release();
});

test("a release that cannot be made says so, and can be tried again", async () => {
  const lease = await direct.lock("no-way").acquire();
  await server.kill();
  const message = new RegExp(server.url);
  await assert.rejects(soon("it gives up", lease.release()), { name: "UnreachableError", message });
  assert.equal(lease.held, false);
  await server.start();
  await lease.release();
  await lease.release();
  assert.equal((await direct.calls.look("no-way")).held, false);
});

test("a release that was never heard, and is tried again, is still that one release", async () => {
  const lease = await client.lock("unheard").acquire();
  link.fate = () => "cut";
  await assert.rejects(soon("it gives up", lease.release()), { name: "BrokenError", mayHaveTakenEffect: true });
  link.fate = () => "pass";
  await lease.release();
  assert.equal(new Set(link.of("/release").map(({ body }) => body["request_id"])).size, 1);
});

test("work whose lock is lost is told so at once, though the lock cannot be released", async () => {
  const patient = new Client({ url: link.url, timeoutMs: 600_000 });
  const working = patient.lock("lost-work", { ttlMs: 3_000 }).run(async () => {
    link.fate = () => "swallow";
    await new Promise(() => undefined);
  });
  // One try to release it takes longer than this test has patience.
  await assert.rejects(soon("it is told", working), (error: LostError) => error.reason === "out-of-time");
});

test("a grant that comes after a wait longer than the ttl is held", async () => {
  const holder = await direct.lock("long-wait").acquire();
  const waiting = client.lock("long-wait", { ttlMs: 4_500, waitMs: 600_000 }).acquire();
  await until("it waits", async () => (await direct.calls.look("long-wait")).n_waiting === 1);
  const over = client.clock.now() + 4_600;
  await until("a ttl has passed", () => client.clock.now() > over);
  await holder.release();
  const lease = await waiting;
  const end = lease.end;
  await until("it is renewed", () => lease.end > end);
  assert.equal(lease.held, true);
  await lease.release();
});

test("a lock that was granted to one who has given up is given back", async () => {
  const controller = new AbortController();
  link.fate = ({ path }) => (path.endsWith("/acquire") ? "stall" : "pass");
  const asking = client.lock("abandoned", { signal: controller.signal }).acquire();
  await until("it is granted", async () => (await direct.calls.look("abandoned")).held);
  link.fate = () => "pass";
  controller.abort(new Error("enough"));
  await assert.rejects(asking, /enough/);
  await until("it is free", async () => !(await direct.calls.look("abandoned")).held);
});
