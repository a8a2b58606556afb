import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { Client, type LostError, NotAcquiredError, NotReleasedError, type NotRenewedError } from "../src/index.js";
import { Link } from "../testkit/link.js";
import { fired, soon, until } from "../testkit/patience.js";
import { Server } from "../testkit/server.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server.stop());

test("several locks are granted together or not at all", async () => {
  const client = server.client();
  const taken = await client.lock("b").acquire();
  const wanted = ["a", { name: "b" }, { name: "c", shared: true }, { name: "d", limit: 2 }];
  await assert.rejects(client.locks(wanted).acquire(), (error: NotAcquiredError) => error.refusal.lock_name === "b");
  assert.equal((await client.calls.look("a")).held, false);
  const waiting = client.locks(wanted, { waitMs: 10_000 }).acquire();
  await until("it waits", async () => (await client.calls.look("b")).n_waiting === 1);
  await taken.release();
  const set = await soon("all are granted", waiting);
  assert.deepEqual(set.leases.map(({ lock_name }) => lock_name), ["a", "b", "c", "d"]);
  assert.deepEqual([set.fencingToken("a"), set.fencingToken("b"), set.fencingToken("x")], [1, 2, undefined]);
  await (await client.lock("c", { shared: true }).acquire()).release();
  await set.release();
  assert.equal((await client.calls.look("a")).held, false);
});

test("they are renewed together, and lost if one of them is", async () => {
  const client = server.client();
  const set = await client.locks(["e", "f"], { ttlMs: 1_500 }).acquire();
  const { end } = set;
  await until("they are renewed", () => set.end > end);
  await client.calls.revoke("f", "host is gone");
  assert.equal(((await fired(set.signal)) as LostError).reason, "ended");
  await set.release();
  assert.equal((await client.calls.look("e")).held, false, "what was left is released");
});

test("a release that was not heard is as good as one that was", async (t) => {
  const link = await Link.to(() => server.url, t);
  const client = new Client({ url: link.url });
  const set = await client.locks(["g", "h"]).acquire();
  let n = 0;
  link.fate = () => ((n += 1) <= 2 ? "cut" : "pass");
  await set.release();
  assert.equal(n, 3);
});

test("that none of them was held any more is told", async () => {
  const client = server.client();
  const set = await client.locks(["i"]).acquire();
  await client.calls.revoke("i", "host is gone");
  await assert.rejects(set.release(), NotReleasedError);
});

test("if they are watched, a revocation is told at once", async () => {
  const client = server.client();
  const set = await client.locks(["j", "k"], { ttlMs: 60_000, watched: true }).acquire();
  await client.calls.revoke("k", "host is gone");
  assert.equal(((await fired(set.signal)) as LostError).reason, "ended");
});

test("which of several leases of one lock is over is told, and is a secret", async () => {
  const client = server.client();
  const held = await Promise.all([0, 1].map(() => client.lock("l", { limit: 2, owner: "ann" }).acquire()));
  const leases = held.map((lease) => ({ lock_name: "l", lease_id: lease.leaseId, fencing_token: lease.fencingToken }));
  await held[1]?.release();
  const renewed = client.calls.renewAll({ owner_id: "ann", extend_by_ms: 1000, leases });
  await assert.rejects(renewed, (error: NotRenewedError) => {
    assert.deepEqual([error.lock, error.leaseId], ["l", leases[1]?.lease_id]);
    assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(String(error.leaseId)));
    return true;
  });
  await held[0]?.release();
});
