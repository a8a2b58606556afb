import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { LostError, NotAcquiredError, NotReleasedError } from "../src/index.js";
import { fired, soon, until } from "../testkit/patience.js";
import { Server } from "../testkit/server.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server.stop());

test("a lock is held until the block ends", async () => {
  const client = server.client({ owner: "ann" });
  let signal: AbortSignal;
  {
    await using lease = await client.lock("block", { metadata: { host: "a1" } }).acquire();
    signal = lease.signal;
    assert.deepEqual([lease.name, lease.owner, lease.fencingToken, lease.held], ["block", "ann", 1, true]);
    const state = await client.calls.look("block");
    assert.deepEqual([state.owner_id, state.metadata], ["ann", { host: "a1" }]);
    lease.check();
  }
  assert.equal((signal.reason as LostError).reason, "released");
  assert.equal((await client.calls.look("block")).held, false);
});

test("a lock that another has is refused, and the refusal says who has it", async () => {
  const lease = await server.client({ owner: "ann" }).lock("taken").acquire();
  const refused = server.client({ owner: "bob" }).lock("taken").acquire();
  await assert.rejects(refused, (error: NotAcquiredError) => {
    assert.equal(error.message, 'lock "taken": the lock is held, held by ann');
    return error instanceof NotAcquiredError && error.refusal.reason === "HELD" && error.retryAfterMs > 0;
  });
  await lease.release();
});

test("a release is asked for once, however often it is called", async () => {
  const lease = await server.client().lock("twice").acquire();
  await Promise.all([lease.release(), lease.release()]);
  await lease.release();
  await lease[Symbol.asyncDispose]();
  assert.throws(() => lease.check(), LostError);
});

test("waiters get the lock in order, with growing tokens", async () => {
  const client = server.client();
  const first = await client.lock("queue").acquire();
  const order: number[] = [];
  const wait = async (): Promise<void> => {
    const lease = await client.lock("queue", { waitMs: 10_000 }).acquire();
    order.push(lease.fencingToken);
    await lease.release();
  };
  const waiting = [];
  for (let n = 1; n <= 3; n += 1) {
    waiting.push(wait());
    await until(`${n} wait`, async () => (await client.calls.look("queue")).n_waiting === n);
  }
  await first.release();
  await soon("all are served", Promise.all(waiting));
  assert.deepEqual(order, [2, 3, 4]);
});

test("a wait that is over says so", async () => {
  const client = server.client();
  const lease = await client.lock("late").acquire();
  const late = client.lock("late", { waitMs: 50 }).acquire();
  await assert.rejects(late, (error: NotAcquiredError) => error.refusal.reason === "WAIT_TIMEOUT");
  await lease.release();
});

test("whoever gives up leaves the queue at once", async () => {
  const client = server.client();
  const lease = await client.lock("impatient").acquire();
  const controller = new AbortController();
  const waiting = client.lock("impatient", { waitMs: 60_000, signal: controller.signal }).acquire();
  const nWaiting = async (): Promise<number> => (await client.calls.look("impatient")).n_waiting ?? 0;
  await until("it waits", async () => (await nWaiting()) === 1);
  const why = new Error("enough");
  controller.abort(why);
  await assert.rejects(waiting, why);
  await until("nobody waits", async () => (await nWaiting()) === 0);
  await assert.rejects(client.lock("impatient", { signal: controller.signal }).acquire(), why);
  await lease.release();
});

test("a lock is lost when it is revoked: with the next renewal", async () => {
  const client = server.client();
  const lease = await client.lock("revoked", { ttlMs: 9_000 }).acquire();
  await client.calls.revoke("revoked", "host is gone");
  assert.equal(((await fired(lease.signal)) as LostError).reason, "ended");
  await assert.rejects(lease.release(), NotReleasedError);
});

test("a watched lock is lost as soon as it is revoked", async () => {
  const client = server.client();
  const lease = await client.lock("watched", { ttlMs: 600_000, watched: true }).acquire();
  await client.calls.revoke("watched", "host is gone");
  assert.equal(((await fired(lease.signal)) as LostError).reason, "ended");
  await assert.rejects(lease[Symbol.asyncDispose](), NotReleasedError);
});

test("a lock outlives its ttl while it is held", async () => {
  const client = server.client();
  const lease = await client.lock("renewed", { ttlMs: 4_500 }).acquire();
  const { end } = lease;
  await until("two ttls have passed", () => client.clock.now() > end + 4_500);
  assert.equal(lease.held, true);
  const { fencing_token } = await client.calls.look("renewed");
  assert.equal(fencing_token, lease.fencingToken);
  await lease.release();
});

test("a lock can be left held for a while", async () => {
  const client = server.client();
  const lease = await client.lock("left", { ttlMs: 9_000 }).acquire();
  await lease.leaveFor(60_000);
  const { holders } = await client.calls.look("left");
  assert.ok((holders?.[0]?.expires_in_ms ?? 0) > 50_000);
  assert.equal(lease.held, false);
  await lease.release();
  assert.equal((await client.calls.look("left")).held, true, "what was left is not released");
});

test("a time to leave it for that makes no sense changes nothing", async () => {
  const client = server.client();
  const lease = await client.lock("left-wrong").acquire();
  for (const timeMs of [0, -1, Number.NaN, Infinity, "5", undefined]) {
    await assert.rejects(lease.leaveFor(timeMs as number), { name: "InvalidError" });
    assert.equal(lease.held, true);
  }
  await lease.release();
});

test("a lease that the server does not leave for so long can be released", async () => {
  const client = server.client();
  const lease = await client.lock("left-long").acquire();
  await assert.rejects(lease.leaveFor(25 * 3_600_000), { code: "INVALID_REQUEST" });
  assert.equal((await client.calls.look("left-long")).held, true);
  await lease.release();
  assert.equal((await client.calls.look("left-long")).held, false);
});

test("one signal may end any number of requests", async (t) => {
  const warnings: Error[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on("warning", note);
  t.after(() => process.off("warning", note));
  const [client, { signal }] = [server.client(), new AbortController()];
  const leases = await Promise.all(Array.from({ length: 12 }, (_, n) => client.lock(`signal-${n}`, { signal }).acquire()));
  await Promise.all(leases.map((lease) => lease.release()));
  assert.deepEqual(warnings, []);
});

test("shared leases share, counted ones count", async () => {
  const client = server.client();
  const readers = [];
  for (let n = 0; n < 3; n += 1) {
    readers.push(await client.lock("shared", { shared: true }).acquire());
  }
  await assert.rejects(client.lock("shared").acquire(), NotAcquiredError);
  const counted = [await client.lock("pool", { limit: 2 }).acquire(), await client.lock("pool", { limit: 2 }).acquire()];
  await assert.rejects(client.lock("pool", { limit: 2 }).acquire(), NotAcquiredError);
  await assert.rejects(client.lock("pool", { limit: 3 }).acquire(), { code: "LIMIT_DIFFERS" });
  await Promise.all([...readers, ...counted].map((lease) => lease.release()));
});

test("a lock can be had by coming back for it", async () => {
  const client = server.client();
  const lease = await client.lock("returning").acquire();
  const returning = client.lock("returning").acquireWithRetry();
  await lease.release();
  await (await soon("it came back", returning)).release();
});

test("work under a lock gives its result, and the lock back", async () => {
  const client = server.client();
  assert.equal(await client.lock("work").run((lease) => lease.fencingToken + 1), 2);
  await assert.rejects(client.lock("work").run(() => Promise.reject(new Error("broken work"))), /broken work/);
  assert.equal((await client.calls.look("work")).held, false);
});

test("work whose lock is lost is told so at once, though it goes on", async () => {
  const client = server.client();
  const working = client.lock("lost-work", { watched: true }).run(async (lease) => {
    await client.calls.revoke("lost-work", "host is gone");
    await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    await new Promise(() => undefined);
  });
  await assert.rejects(soon("it is told", working), (error: LostError) => error.reason === "ended");
});

test("what makes no sense is refused before it is sent", async () => {
  const client = server.client({ url: "http://127.0.0.1:1" });
  await assert.rejects(client.lock("").acquire(), { name: "InvalidError" });
  await assert.rejects(client.lock("a", { ttlMs: 1_000, marginMs: 501 }).acquire(), { name: "InvalidError" });
  await assert.rejects(client.lock("a", { ttlMs: 0 }).acquire(), { name: "InvalidError" });
  await assert.rejects(client.lock("\ud800").acquire(), { name: "InvalidError" });
});

test("names and namespaces may have anything in them", async () => {
  for (const name of ["a/b c", "ü?#%", "..", "(it's)*!"]) {
    const client = server.client({ namespace: `of ${name}` });
    const lease = await client.lock(name).acquire();
    assert.equal(lease.name, name);
    const { locks } = await client.calls.list({ state: "held" });
    assert.deepEqual(locks.map((lock) => lock.lock_name), [name]);
    await lease.release();
  }
});

test("nothing that prints a lease shows its id", async () => {
  const lease = await server.client().lock("secret").acquire();
  assert.ok(!inspect(lease, { depth: 9, showHidden: true }).includes(lease.leaseId));
  assert.ok(!JSON.stringify(lease).includes(lease.leaseId));
  await lease.release();
});

test("an admin revokes all that an owner has", async () => {
  const client = server.client();
  const lease = await client.lock("admin/a", { owner: "admin/ann", ttlMs: 9_000 }).acquire();
  const asked = { owner: "admin/ann", reason: "test" };
  assert.equal((await client.calls.revokeAll({ ...asked, dry_run: true })).n_revoked, 1);
  assert.ok(lease.held);
  const { revoked } = await client.calls.revokeAll(asked);
  assert.deepEqual(revoked.map(({ lock_name, fencing_token }) => [lock_name, fencing_token]), [["admin/a", 1]]);
  assert.equal(((await fired(lease.signal)) as LostError).reason, "ended");
  await client.calls.ready();
  await assert.rejects(client.calls.takeBackup(), { code: "BACKUPS_OFF" });
});

test("what makes no sense is not sent", async () => {
  const client = server.client();
  const circle: { self?: unknown } = {};
  circle.self = circle;
  let deep: unknown[] = [];
  for (let n = 0; n < 100_000; n += 1) {
    deep = [deep];
  }
  const large = "x".repeat(1 << 20);
  for (const options of [
    { ttlMs: Infinity },
    { ttlMs: NaN },
    { waitMs: NaN },
    { waitMs: -1 },
    ...[circle, deep, large, 10n].map((metadata) => ({ metadata })),
  ]) {
    await assert.rejects(client.lock("sense", options).acquire(), { name: "InvalidError" });
  }
  await assert.rejects(client.lock("\ud800").acquire(), { name: "InvalidError" });
});
