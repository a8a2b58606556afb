import assert from "node:assert/strict";
import { test } from "node:test";

import type { Reason } from "../src/api.js";
import { BrokenError, FailedError, InvalidError, type LeaseholdError, NotAcquiredError, UnreachableError } from "../src/error.js";
import { Attempts, type Manner, persist, RETRY_DEFAULT } from "../src/retry.js";
import { FakeClock } from "../testkit/fake-clock.js";

function refusal(reason: Reason, recommended_retry_ms = 400): NotAcquiredError {
  const nobody = { current_owner_id: null, current_expiry_ms: null };
  return new NotAcquiredError({ acquired: false, lock_name: "a", reason, error: "no", recommended_retry_ms, ...nobody });
}

function attempts(manner: Manner): Attempts {
  return new Attempts(RETRY_DEFAULT, manner, 60_000);
}

function again(manner: Manner, error: LeaseholdError): number | undefined {
  return attempts(manner).after(error, 0);
}

test("a held lock is an answer, unless one means to come back", () => {
  assert.equal(again("once", refusal("HELD")), undefined);
  assert.equal(again("queue", refusal("HELD")), undefined);
  const pauseMs = again("return", refusal("HELD")) ?? 0;
  assert.ok(pauseMs > 400 && pauseMs <= 500, `${pauseMs}`);
});

test("busy and broken are tried again in every manner", () => {
  for (const manner of ["once", "queue", "return"] as const) {
    assert.notEqual(again(manner, refusal("BUSY_RETRY")), undefined);
    const pauseMs = again(manner, new BrokenError("cut")) ?? 0;
    assert.ok(pauseMs >= 25 && pauseMs <= 50, `${pauseMs}`);
  }
});

test("what makes no sense is not tried again", () => {
  assert.equal(again("return", new InvalidError("no")), undefined);
  assert.equal(again("once", refusal("QUEUE_FULL")), undefined);
});

test("tries are bounded by number and by time", () => {
  const byNumber = attempts("queue");
  let n = 0;
  while (byNumber.after(new UnreachableError("http://a", "refused"), 0) !== undefined) {
    n += 1;
  }
  assert.equal(n, 7);
  assert.equal(attempts("queue").after(new BrokenError("cut"), 60_000), undefined);
});

/** How long the tries go on where every one of them fails so. */
function lastsMs(manner: Manner, giveUpAt: number, code: "UNKNOWN" | "BUSY" | "JOURNAL_FULL"): number {
  const failure = { error: "no", code, retryable: true, may_have_taken_effect: false };
  const outage = new FailedError(503, failure);
  const tries = new Attempts(RETRY_DEFAULT, manner, giveUpAt);
  for (let now = 0; ; ) {
    const pauseMs = tries.after(outage, now);
    if (pauseMs === undefined) {
      return now;
    }
    now += pauseMs;
  }
}

test("an outage of the store ends a wait only with its time", () => {
  for (const code of ["UNKNOWN", "BUSY"] as const) {
    assert.ok(lastsMs("queue", 60_000, code) > 57_000);
    assert.ok(lastsMs("queue", 3_000, code) < 3_000);
    assert.ok(lastsMs("once", 60_000, code) < 8_000);
    assert.ok(lastsMs("return", 60_000, code) < 8_000);
  }
  assert.ok(lastsMs("queue", 60_000, "JOURNAL_FULL") < 8_000);
});

test("a wait that is over at once is not begun again at once", () => {
  const pauseAfter = (tookMs: number, error: NotAcquiredError): number | undefined => {
    const queued = attempts("queue");
    queued.begin(1_000);
    return queued.after(error, 1_000 + tookMs);
  };
  assert.ok((pauseAfter(1, refusal("WAIT_TIMEOUT")) ?? 0) > 390);
  assert.equal(pauseAfter(10_000, refusal("WAIT_TIMEOUT")), 0, "it has waited");
  assert.equal(pauseAfter(0, refusal("WAIT_TIMEOUT", 0)), RETRY_DEFAULT.pauseMinMs);
});

test("a wait that somebody ended is not begun again", () => {
  const isBegunAgain = (waitMs: number, tookMs: number): boolean => {
    const queued = attempts("queue");
    queued.begin(1_000, waitMs);
    return queued.after(refusal("WAIT_TIMEOUT"), 1_000 + tookMs) !== undefined;
  };
  assert.ok(!isBegunAgain(50_000, 0));
  assert.ok(!isBegunAgain(50_000, 44_000));
  assert.ok(isBegunAgain(50_000, 45_500), "within a tenth of its end");
  assert.ok(isBegunAgain(50_000, 50_000));
  assert.ok(!isBegunAgain(400, 200));
  assert.ok(isBegunAgain(400, 300), "100 ms are nothing");
});

test("maintenance is an answer to those who do not wait", () => {
  const failure = { error: "no", code: "MAINTENANCE", retryable: true, may_have_taken_effect: false } as const;
  assert.equal(again("once", new FailedError(503, failure)), undefined);
  assert.notEqual(again("queue", new FailedError(503, failure)), undefined);
});

test("in a queue only failures in a row count", () => {
  const queued = attempts("queue");
  for (let n = 0; n < 20; n += 1) {
    assert.notEqual(queued.after(new BrokenError("cut"), 0), undefined);
    assert.notEqual(queued.after(refusal("WAIT_TIMEOUT"), 0), undefined);
  }
});

test("that a request may have taken effect is remembered over the tries", async () => {
  const clock = new FakeClock();
  let n = 0;
  const told: boolean[] = [];
  const asked = persist(clock, async (mayHaveTakenEffect) => {
    told.push(mayHaveTakenEffect);
    n += 1;
    throw n === 2 ? new BrokenError("cut") : new UnreachableError("http://a", "refused");
  });
  const failed = assert.rejects(asked, { name: "UnreachableError", mayHaveTakenEffect: true });
  await clock.advance(60_000);
  await failed;
  assert.deepEqual(told, [false, false, true, true, true, true, true, true]);
});
