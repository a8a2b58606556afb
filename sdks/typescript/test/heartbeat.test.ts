import assert from "node:assert/strict";
import { test } from "node:test";

import { BrokenError, NotRenewedError } from "../src/error.js";
import { heartbeat, type Renew } from "../src/heartbeat.js";
import { Tenure } from "../src/tenure.js";
import { FakeClock } from "../testkit/fake-clock.js";

const TTL_MS = 6_000;
const MARGIN_MS = 600;

function beating(renew: Renew): { clock: FakeClock; tenure: Tenure; calls: number[]; done: () => boolean } {
  const clock = new FakeClock();
  const tenure = Tenure.granted(clock, MARGIN_MS, 0, TTL_MS);
  const calls: number[] = [];
  let isDone = false;
  const counted: Renew = (signal) => {
    calls.push(clock.now());
    return renew(signal);
  };
  void heartbeat(clock, tenure, { lock: "a", ttlMs: TTL_MS, end: TTL_MS, renew: counted }).then(() => (isDone = true));
  return { clock, tenure, calls, done: () => isDone };
}

/** A renewal that nobody answers. */
const unanswered: Renew = (signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));

test("it renews after a third of the ttl, for as long as it is held", async () => {
  const { clock, tenure, calls, done } = beating(async () => TTL_MS);
  await clock.advance(20_000);
  assert.deepEqual(calls, [2_000, 4_000, 6_000, 8_000, 10_000, 12_000, 14_000, 16_000, 18_000, 20_000]);
  tenure.lose("released");
  await clock.advance(20_000);
  assert.equal(calls.length, 10, "nothing is renewed after a release");
  assert.equal(done(), true);
});

test("a try takes at most a sixth of the ttl, and is made again until the deadline", async () => {
  const { clock, tenure, calls } = beating(unanswered);
  await clock.advance(5_339);
  assert.equal(tenure.signal.aborted, false);
  await clock.advance(1);
  assert.equal(tenure.check(), "out-of-time");
  const gaps = calls.slice(1).map((at, n) => at - (calls[n] ?? 0));
  assert.ok(calls.length >= 3, `${calls}`);
  assert.ok(gaps.every((gap) => gap > 1_000 && gap <= 1_600), `${gaps}`);
});

test("a renewal in flight is broken off by a release", async () => {
  let wasBrokenOff = false;
  const renew: Renew = (signal) => unanswered(signal).catch((error) => ((wasBrokenOff = true), Promise.reject(error)));
  const { clock, tenure, done } = beating(renew);
  await clock.advance(2_500);
  tenure.lose("released");
  await clock.advance(0);
  assert.deepEqual([wasBrokenOff, done()], [true, true]);
});

test("an answer that comes after the loss changes nothing", async () => {
  let answer: (ms: number) => void = () => undefined;
  const { clock, tenure, calls } = beating(() => new Promise((resolve) => (answer = resolve)));
  await clock.advance(5_340);
  assert.equal(tenure.check(), "out-of-time");
  answer(TTL_MS);
  await clock.advance(20_000);
  assert.equal(tenure.check(), "out-of-time");
  assert.equal(calls.length, 1);
});

test("a failure that says nothing about the lease is tried again, a refusal ends it", async () => {
  let n = 0;
  const { clock, tenure, calls } = beating(async () => {
    n += 1;
    if (n === 1) {
      throw new BrokenError("cut");
    }
    if (n === 2) {
      return TTL_MS;
    }
    throw new NotRenewedError({ renewed: false, reason: "NOT_OWNER_OR_EXPIRED", error: "gone" });
  });
  await clock.advance(2_200);
  assert.equal(calls.length, 2);
  assert.equal(tenure.check(), undefined);
  await clock.advance(2_200);
  assert.equal(tenure.check(), "ended");
});
