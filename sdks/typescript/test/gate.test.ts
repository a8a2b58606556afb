import assert from "node:assert/strict";
import { test } from "node:test";

import { FencingGate, StaleError } from "../src/index.js";

test("a gate lets through what is not older than the newest seen", async () => {
  const gate = new FencingGate();
  const file: string[] = [];
  await gate.write("report", 7, () => file.push("seven"));
  await gate.write("report", 8, () => file.push("eight"));
  await gate.write("report", 8, () => file.push("eight again"));
  await assert.rejects(gate.write("report", 7, () => file.push("seven, late")), (error: StaleError) => {
    return error.token === 7 && error.newest === 8;
  });
  await gate.write("other", 1, () => file.push("other"));
  assert.deepEqual(file, ["seven", "eight", "eight again", "other"]);
});

test("what is no token is refused, and opens nothing", async () => {
  const gate = new FencingGate();
  await gate.write("report", 10, () => undefined);
  for (const token of [Number.NaN, undefined, null, "x", "11", -1, 1.5, Infinity, 2 ** 53, {}, 11n]) {
    const written = gate.write("report", token as number, () => assert.fail(`${String(token)} is let through`));
    await assert.rejects(written, { name: "InvalidError" });
    await assert.rejects(gate.write("report", 5, () => assert.fail("the gate is open")), StaleError);
  }
  await gate.write("fresh", 0, () => undefined);
});

test("writes to one resource go one after the other, and a failed one holds up nobody", async () => {
  const gate = new FencingGate();
  const file: string[] = [];
  let finish: () => void = () => undefined;
  const slow = gate.write("report", 1, async () => {
    await new Promise<void>((resolve) => (finish = resolve));
    file.push("slow");
    throw new Error("no disk");
  });
  const fast = gate.write("report", 2, () => file.push("fast"));
  await gate.write("other", 1, () => file.push("other"));
  finish();
  await assert.rejects(slow, /no disk/);
  await fast;
  assert.deepEqual(file, ["other", "slow", "fast"]);
});
