/** Servers and connections that have fallen silent: what is asked is asked elsewhere, or again. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Client } from "../src/index.js";
import { RETRY_DEFAULT } from "../src/retry.js";
import { settings } from "../src/settings.js";
import { FakeClock } from "../testkit/fake-clock.js";
import { Link, type Seen } from "../testkit/link.js";
import { soon, until } from "../testkit/patience.js";
import { Server } from "../testkit/server.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server.stop());

const swallowing = (): "swallow" => "swallow";
const ids = (seen: readonly Seen[]): number => new Set(seen.map(({ body }) => body["request_id"])).size;

test("by default a server that does not answer leaves time to ask another one", () => {
  const { timeoutMs } = settings({}, {});
  assert.ok(timeoutMs > 5_000, "a follower may hold a request for 5 s");
  assert.ok(RETRY_DEFAULT.totalMaxMs >= 3 * timeoutMs);
});

test("a silent first URL costs one timeout, then the next one is asked under the same request id", async (t) => {
  const silent = await Link.to(() => server.url, t);
  const good = await Link.to(() => server.url, t);
  silent.fate = swallowing;
  const client = new Client({ url: [silent.url, good.url], timeoutMs: 4_000 });
  const lease = await soon("it is granted", client.lock("silent-first").acquire());
  assert.deepEqual([silent.of("/acquire").length, good.of("/acquire").length], [1, 1]);
  assert.equal(ids([...silent.of("/acquire"), ...good.of("/acquire")]), 1);
  await lease.release();
});

test("a long wait is asked for again every 30 s, keeps its place, and that is no failure", async (t) => {
  const [link, clock, direct] = [await Link.to(() => server.url, t), new FakeClock(), server.client()];
  const holder = await direct.lock("sliced").acquire();
  const client = new Client({ url: link.url, clock });
  const waiting = client.lock("sliced", { waitMs: 3_600_000, retry: { attemptsMax: 1 } }).acquire();
  await until("it waits", async () => (await direct.calls.look("sliced")).n_waiting === 1);
  for (let n = 1; n <= 3; n += 1) {
    await clock.advance(29_000);
    assert.equal(link.of("/acquire").length, n);
    await clock.advance(1_000);
    await until("it is asked again", () => link.of("/acquire").length === n + 1);
    await until("it waits again", async () => (await direct.calls.look("sliced")).queue?.[0]?.parked === false);
  }
  assert.equal(ids(link.of("/acquire")), 1);
  assert.deepEqual(link.of("/acquire").map(({ body }) => body["wait_ms"]), [3_600_000, 3_570_000, 3_540_000, 3_510_000]);
  assert.equal((await direct.calls.look("sliced")).n_waiting, 1);
  await holder.release();
  const lease = await soon("it is granted", waiting);
  assert.equal(lease.fencingToken, 2);
  await lease.release();
});

test("a wait over a connection that has fallen silent goes on over another one", async (t) => {
  const [link, clock, direct] = [await Link.to(() => server.url, t), new FakeClock(), server.client()];
  link.fate = () => (link.of("/acquire").length === 1 ? "swallow" : "pass");
  const waiting = new Client({ url: link.url, clock }).lock("fallen", { waitMs: 60_000 }).acquire();
  await until("it is asked", () => link.of("/acquire").length === 1);
  await clock.advance(30_000);
  const lease = await soon("it is granted", waiting);
  assert.equal((await direct.calls.look("fallen")).held, true);
  await lease.release();
});

test("after a part of a wait another server is asked if the first is silent", async (t) => {
  const [silent, good] = [await Link.to(() => server.url, t), await Link.to(() => server.url, t)];
  silent.fate = swallowing;
  const clock = new FakeClock();
  const client = new Client({ url: [silent.url, good.url], clock, timeoutMs: 500 });
  const waiting = client.lock("other-server", { waitMs: Infinity }).acquire();
  await until("it is asked", () => silent.of("/acquire").length === 1);
  await clock.advance(30_000);
  await until("another one is asked", () => good.of("/acquire").length === 1);
  await (await soon("it is granted", waiting)).release();
  assert.equal(ids([...silent.of("/acquire"), ...good.of("/acquire")]), 1);
});

test("a wait stays where somebody answers: at a silent server it would lose its place", async (t) => {
  const [good, silent] = [await Link.to(() => server.url, t), await Link.to(() => server.url, t)];
  silent.fate = swallowing;
  const holder = await server.client().lock("stays").acquire();
  const clock = new FakeClock();
  const client = new Client({ url: [good.url, silent.url], clock, timeoutMs: 500 });
  const waiting = client.lock("stays", { waitMs: Infinity }).acquire();
  for (let n = 1; n <= 3; n += 1) {
    await until("it waits", () => good.of("/acquire").length === n);
    await clock.advance(30_000);
  }
  await holder.release();
  await (await soon("it is granted", waiting)).release();
  assert.equal(silent.of("/acquire").length, 0);
});

test("a short wait that nobody answered is asked for once more, at the next URL", async (t) => {
  const [silent, good] = [await Link.to(() => server.url, t), await Link.to(() => server.url, t)];
  silent.fate = swallowing;
  const client = new Client({ url: [silent.url, good.url], timeoutMs: 4_000 });
  const lease = await soon("it is granted", client.lock("short-wait", { waitMs: 200 }).acquire());
  assert.equal(good.of("/acquire").length, 1);
  await lease.release();
  good.fate = swallowing;
  const alone = new Client({ url: [silent.url, good.url], timeoutMs: 1_000 }).lock("short-wait", { waitMs: 200 }).acquire();
  await assert.rejects(soon("it fails", alone), { name: "BrokenError", mayHaveTakenEffect: true });
  assert.equal(good.of("/acquire").length, 2, "once, not again and again");
});

test("a campaign is asked for in parts too", async (t) => {
  const [link, clock] = [await Link.to(() => server.url, t), new FakeClock()];
  link.fate = () => (link.of("/acquire").length <= 2 ? "swallow" : "pass");
  const campaign = new Client({ url: link.url, clock }).election("sliced-election").campaign("me");
  for (let n = 1; n <= 2; n += 1) {
    await until("it is asked", () => link.of("/acquire").length === n);
    await clock.advance(30_000);
  }
  await (await soon("it leads", campaign)).release();
  assert.equal(ids(link.of("/acquire")), 1);
});
