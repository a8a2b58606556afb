/** Waiting in tests: always for a condition, never for longer than a bound. */

import assert from "node:assert/strict";

/** Only what hangs takes that long, however busy the machine is. */
const PATIENCE_MS = 120_000;
const LOOK_EVERY_MS = 5;

/** Resolves when the condition holds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const giveUpAt = performance.now() + PATIENCE_MS;
  while (!(await holds())) {
    assert.ok(performance.now() < giveUpAt, `not within ${PATIENCE_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/** Resolves when the signal fires, with its reason. */
export async function fired(signal: AbortSignal): Promise<unknown> {
  await until("the signal fires", () => signal.aborted);
  return signal.reason;
}

/** The result, or a failure if it takes too long. */
export async function soon<T>(what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${PATIENCE_MS} ms: ${what}`)), PATIENCE_MS);
  });
  return await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
