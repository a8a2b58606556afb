import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { inspect } from "node:util";

import { Client, type LostError } from "../src/index.js";
import { Link } from "../testkit/link.js";
import { fired, until } from "../testkit/patience.js";
import { Server } from "../testkit/server.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server.stop());

test("one keep-alive holds many locks, and closing releases them", async (t) => {
  const link = await Link.to(() => server.url, t);
  const client = new Client({ url: link.url, owner: "ann" });
  {
    await using session = await client.openSession({ ttlMs: 6_000 });
    const leases = await Promise.all([1, 2, 3].map((n) => session.lock(`shard-${n}`).acquire()));
    await until("it is kept alive", () => link.of("/keepalive").length >= 3);
    assert.deepEqual(leases.map(({ held }) => held), [true, true, true]);
    await leases[0]?.release();
    assert.deepEqual([session.held, leases[0]?.held, leases[1]?.held], [true, false, true]);
    assert.ok(!inspect(session, { depth: 9, showHidden: true }).includes(session.id));
    await session.close();
    assert.deepEqual(leases.map(({ held }) => held), [false, false, false]);
  }
  assert.deepEqual(link.of("/renew"), []);
  assert.deepEqual((await client.calls.list({ state: "held" })).locks, []);
});

test("a lost session takes its locks with it", async (t) => {
  const link = await Link.to(() => server.url, t);
  const client = new Client({ url: link.url });
  const session = await client.openSession({ ttlMs: 6_000 });
  const lease = await session.lock("lost").acquire();
  link.fate = () => "swallow";
  const reasons = await Promise.all([fired(session.signal), fired(lease.signal)]);
  assert.deepEqual(reasons.map((lost) => (lost as LostError).reason), ["out-of-time", "out-of-time"]);
  await assert.rejects(session.lock("another").acquire(), { name: "LostError" });
});

test("a session that the server has ended is lost with the next keep-alive", async () => {
  const client = server.client();
  const session = await client.openSession({ ttlMs: 6_000 });
  await client.calls.closeSession(session.id);
  assert.equal(((await fired(session.signal)) as LostError).reason, "ended");
  await assert.rejects(session.close(), { code: "NO_SUCH_SESSION" });
});

test("a session whose closing was not heard is closed", async (t) => {
  const link = await Link.to(() => server.url, t);
  const client = new Client({ url: link.url });
  const session = await client.openSession();
  let n = 0;
  link.fate = () => ((n += 1) <= 2 ? "cut" : "pass");
  await session.close();
  assert.equal(n, 3);
});

test("a session's lock has no time of its own", async () => {
  const session = await server.client().openSession();
  const options = { ttlMs: 1_000 } as object;
  await assert.rejects(session.lock("a", options).acquire(), { name: "InvalidError" });
  await session.close();
});
