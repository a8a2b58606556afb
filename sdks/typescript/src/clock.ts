/**
 * The clock leases are counted by: one that goes on while the machine is suspended. The wall clock decides nothing.
 */

import { uptime } from "node:os";
import { performance } from "node:perf_hooks";

/** Tells the time and rings. Tests have one of their own. */
export interface Clock {
  /** The time in milliseconds, from a beginning of its own. It never goes back. */
  now(): number;
  /** Calls `ring` once at `at` or soon after, never before. */
  at(at: number, ring: () => void): Alarm;
}

/** Something that will ring unless it is cancelled. */
export interface Alarm {
  cancel(): void;
}

/** How late an alarm can be after a suspend, and far less than the longest timer of Node. */
const TICK_MS = 1000;
/** `/proc/uptime` counts in hundredths of a second. Less than this is no suspend. */
const JITTER_MS = 50;

/**
 * The machine's clock. Node's timers stand still during a suspend, a lease does not: on Linux the time that was
 * missed is seen by the machine's uptime, and added. Elsewhere `performance.now()` has to do.
 */
export class MachineClock implements Clock {
  readonly #lead = uptimeLead();
  #suspendedMs = 0;

  now(): number {
    this.#suspendedMs = Math.max(this.#suspendedMs, suspended(this.#lead, uptimeLead()));
    return performance.now() + this.#suspendedMs;
  }

  at(at: number, ring: () => void): Alarm {
    let timer: NodeJS.Timeout;
    const wait = (): void => {
      const leftMs = at - this.now();
      if (leftMs <= 0) {
        ring();
      } else {
        timer = setTimeout(wait, Math.min(Math.ceil(leftMs), TICK_MS));
      }
    };
    timer = setTimeout(wait, Math.min(Math.max(0, Math.ceil(at - this.now())), TICK_MS));
    return { cancel: () => clearTimeout(timer) };
  }
}

/** How long the machine was suspended between two readings of the lead. */
export function suspended(before: number, now: number): number {
  return now - before > JITTER_MS ? now - before : 0;
}

/**
 * How far the uptime is ahead of Node's clock: it grows by every suspend. The uptime is read first: a pause between
 * the two readings must not look like a suspend.
 */
function uptimeLead(): number {
  if (process.platform !== "linux") {
    return 0;
  }
  const uptimeMs = uptime() * 1000;
  return uptimeMs - performance.now();
}

/** Does the work with a signal that fires when `signal` does, or at `at` with the error that `late` makes. */
export async function brokenOffAt<T>(
  clock: Clock,
  at: number,
  signal: AbortSignal | undefined,
  late: () => Error,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const stop = (): void => controller.abort(signal?.reason);
  if (signal?.aborted) {
    stop();
  }
  signal?.addEventListener("abort", stop);
  const alarm = clock.at(at, () => controller.abort(late()));
  try {
    return await work(controller.signal);
  } finally {
    alarm.cancel();
    signal?.removeEventListener("abort", stop);
  }
}

/** Resolves at `at`, or at once when `signal` fires: whoever calls looks at it. */
export function sleepUntil(clock: Clock, at: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      alarm.cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const alarm = clock.at(at, done);
    signal?.addEventListener("abort", done);
  });
}
