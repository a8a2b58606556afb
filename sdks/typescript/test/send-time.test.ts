/** Deadlines count from when a request was sent, however long its answer takes. Both sides are on the test's clock. */

import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";

import { Client } from "../src/index.js";
import { FakeClock } from "../testkit/fake-clock.js";
import { until } from "../testkit/patience.js";

const TTL_MS = 9_000;
const TOOK_MS = 2_000;
const GRANTED = {
  acquired: true,
  renewed: true,
  lock_name: "a",
  owner_id: "ann",
  lease_id: "1.x",
  session_id: "s",
  fencing_token: 1,
  leases: [{ lock_name: "a", lease_id: "1.x", fencing_token: 1, released: true }],
  lease_expiry_ms: 0,
  expires_in_ms: TTL_MS,
  expires_after_send_ms: TTL_MS,
  released: true,
};

/** A server whose answers take so long as `tookMs` says of each, and that grants so much more. */
async function slow(t: TestContext, clock: FakeClock, tookMs: (nAnswers: number) => number): Promise<{ client: Client; n: () => number }> {
  let nAnswers = 0;
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const ms = tookMs(nAnswers);
      clock.pause(ms);
      nAnswers += 1;
      const waitedMs = ms === TOOK_MS ? 0 : ms;
      const answer = { ...GRANTED, expires_after_send_ms: waitedMs + TTL_MS };
      response.setHeader("connection", "close").end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { client: new Client({ url, clock }), n: () => nAnswers };
}

/** What `hold` is given by a server whose answers take a while. */
async function check(t: TestContext, hold: (client: Client) => Promise<{ end: number; release(): Promise<void> }>): Promise<void> {
  const clock = new FakeClock();
  const { client, n } = await slow(t, clock, () => TOOK_MS);
  const held = await hold(client);
  assert.equal(held.end, 0.99 * TTL_MS, "the grant");

  // It is renewed a third of the ttl after the request that was answered was sent.
  const renewedAt = TTL_MS / 3;
  await clock.advance(renewedAt - clock.now());
  await until("it is renewed", () => n() === 2);
  await until("the answer is there", () => held.end > 0.99 * TTL_MS);
  assert.ok(Math.abs(held.end - (renewedAt + 0.99 * TTL_MS)) < 1, `the renewal: ${held.end}`);
  await held.release();
}

test("for a lease", (t) => check(t, (client) => client.lock("a", { ttlMs: TTL_MS }).acquire()));
test("for several leases", (t) => check(t, (client) => client.locks(["a"], { ttlMs: TTL_MS }).acquire()));
test("for a session", (t) => check(t, (client) => client.openSession({ ttlMs: TTL_MS })));

test("after a wait longer than the ttl it is renewed at once, and counts from then", async (t) => {
  const clock = new FakeClock();
  const waitedMs = 100_000;
  const { client, n } = await slow(t, clock, (nAnswers) => (nAnswers === 0 ? waitedMs : TOOK_MS));
  const lease = await client.lock("a", { ttlMs: TTL_MS, waitMs: 600_000 }).acquire();
  assert.deepEqual([n(), lease.end], [2, waitedMs + 0.99 * TTL_MS]);
  await lease.release();
});
