import assert from "node:assert/strict";
import { test } from "node:test";

import { MachineClock, sleepUntil, suspended } from "../src/clock.js";

test("the machine's clock wakes nobody early", async () => {
  const clock = new MachineClock();
  for (const ms of [0, 1, 30]) {
    const at = clock.now() + ms;
    await sleepUntil(clock, at);
    assert.ok(clock.now() >= at);
  }
});

test("a sleep ends with its signal", async () => {
  const clock = new MachineClock();
  const controller = new AbortController();
  const slept = sleepUntil(clock, clock.now() + 600_000, controller.signal);
  controller.abort();
  await slept;
  await sleepUntil(clock, clock.now() + 600_000, controller.signal);
});

test("time that passed while the machine was suspended counts, the coarseness of the uptime does not", () => {
  assert.equal(suspended(1_000, 1_000 + 60_000), 60_000);
  assert.equal(suspended(1_000, 1_010), 0);
  assert.equal(suspended(1_000, 900), 0);
});
