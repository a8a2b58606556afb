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
  const set = await client.locks(["e", "f"], { ttlMs: 9_000 }).acquire();
  const { end } = set;
  await until("they are renewed", () => set.end > end);
  await client.calls.revoke("f", "host is gone");
  const lost = (await fired(set.signal)) as LostError;
  assert.equal(lost.reason, "ended");
  assert.match(lost.message, /^locks "e", "f": the server reports that the lease has ended \(lock "f": /);
  await assert.rejects(set.release(), { name: "NotReleasedError", locks: ["f"] });
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

test("that one of them was taken away is told, and the others are released", async (t) => {
  const link = await Link.to(() => server.url, t);
  const client = new Client({ url: link.url, timeoutMs: 4_000 });
  for (const fate of ["pass", "swallow"] as const) {
    const set = await client.locks(["m", "n"]).acquire();
    await client.calls.revoke("n", "host is gone");
    const other = await client.lock("n", { owner: "other" }).acquire();
    let nReleases = 0;
    // Also if the first try was never heard: what the second one releases, the first one did not.
    link.fate = ({ path }) => (path.endsWith("/release") && (nReleases += 1) === 1 ? fate : "pass");
    const message = /^lock "n": .*another owner may have had the lock/;
    await assert.rejects(set.release(), { name: "NotReleasedError", locks: ["n"], message });
    assert.equal((await client.calls.look("m")).held, false);
    assert.equal(other.held, true);
    await other.release();
  }
});

test("a time to leave them for that makes no sense changes nothing", async () => {
  const client = server.client();
  const set = await client.locks(["o", "p"]).acquire();
  await assert.rejects(set.leaveFor(0), { name: "InvalidError" });
  assert.equal(set.held, true);
  await set.leaveFor(60_000);
  assert.equal((await client.calls.look("p")).held, true);
});

test("if they are watched, a revocation is told at once, and why it was", async (t) => {
  const link = await Link.to(() => server.url, t);
  const client = new Client({ url: link.url });
  const set = await client.locks(["j", "k"], { ttlMs: 600_000, watched: true }).acquire();
  await until("they are watched", () => link.of("/watch").length === 2);
  await client.calls.look("k");
  await client.calls.revoke("k", "host is gone");
  const lost = (await fired(set.signal)) as LostError;
  assert.deepEqual([lost.reason, lost.detail], ["ended", 'lock "k": revoked: host is gone']);
  assert.throws(() => set.check(), { name: "LostError", message: /locks "j", "k": .*host is gone/ });
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
