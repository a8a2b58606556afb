import assert from "node:assert/strict";
import { test } from "node:test";

import { LostError } from "../src/error.js";
import { Tenure } from "../src/tenure.js";
import { FakeClock } from "../testkit/fake-clock.js";

const TTL_MS = 10_000;
const MARGIN_MS = 1_000;

function fresh(): { clock: FakeClock; tenure: Tenure } {
  const clock = new FakeClock();
  return { clock, tenure: Tenure.granted(clock, MARGIN_MS, clock.now(), TTL_MS) };
}

test("the deadline is the send time and the ttl, less drift and margin", () => {
  const { clock, tenure } = fresh();
  assert.equal(tenure.end, 9_900);
  assert.equal(tenure.deadline, 8_900);
  clock.pause(8_899);
  assert.equal(tenure.check(), undefined);
  clock.pause(1);
  assert.equal(tenure.check(), "out-of-time");
});

test("the signal fires at the deadline, and not before", async () => {
  const { clock, tenure } = fresh();
  const { signal } = tenure;
  await clock.advance(8_899);
  assert.equal(signal.aborted, false);
  await clock.advance(1);
  assert.equal(signal.aborted, true);
  assert.ok(signal.reason instanceof LostError);
  assert.equal(signal.reason.reason, "out-of-time");
  assert.equal(clock.isAwaited, false, "nothing keeps the process running");
});

test("a renewal counts from when it was sent, and never shortens", () => {
  const { clock, tenure } = fresh();
  clock.pause(5_000);
  assert.equal(tenure.extend(3_000, TTL_MS), undefined);
  assert.equal(tenure.end, 12_900);
  assert.equal(tenure.extend(clock.now(), 1_000), undefined);
  assert.equal(tenure.end, 12_900);
});

test("a renewal moves the alarm", async () => {
  const { clock, tenure } = fresh();
  await clock.advance(5_000);
  tenure.extend(clock.now(), TTL_MS);
  await clock.advance(8_899);
  assert.equal(tenure.signal.aborted, false);
  await clock.advance(1);
  assert.equal(tenure.signal.aborted, true);
});

test("what was lost is not brought back by an answer that comes late", () => {
  const { clock, tenure } = fresh();
  clock.pause(8_000);
  const sentAt = clock.now();
  clock.pause(1_000);
  assert.equal(tenure.extend(sentAt, TTL_MS), "out-of-time");
  assert.equal(tenure.check(), "out-of-time");
  assert.equal(tenure.lose("ended"), "out-of-time", "the first reason is the reason");
});

test("the first question after a pause says lost, though no timer has rung", () => {
  const { clock, tenure } = fresh();
  clock.pause(TTL_MS);
  assert.equal(tenure.signal.aborted, true);
});

test("a lock of a session goes with it, and not the other way round", () => {
  const { clock, tenure: session } = fresh();
  const [kept, released] = [Tenure.within(session), Tenure.within(session)];
  released.lose("released");
  assert.deepEqual([session.check(), kept.check()], [undefined, undefined]);
  session.extend(clock.now() + 5_000, TTL_MS);
  assert.equal(kept.deadline, session.deadline);
  const { signal } = kept;
  session.lose("ended");
  assert.deepEqual([signal.aborted, kept.check(), released.check()], [true, "ended", "released"]);
  assert.equal(Tenure.within(session).check(), "ended", "whoever comes too late is told so");
});

test("a lock of a session that ran out is lost with the first question", () => {
  const { clock, tenure: session } = fresh();
  const lock = Tenure.within(session);
  clock.pause(TTL_MS);
  assert.equal(lock.check(), "out-of-time");
});
