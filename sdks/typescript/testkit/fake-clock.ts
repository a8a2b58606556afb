/** A clock that stands still until it is told otherwise. */

import type { Alarm, Clock } from "../src/clock.js";

export class FakeClock implements Clock {
  #now = 0;
  #alarms = new Set<{ at: number; ring: () => void }>();

  now(): number {
    return this.#now;
  }

  at(at: number, ring: () => void): Alarm {
    const alarm = { at, ring };
    this.#alarms.add(alarm);
    return { cancel: () => this.#alarms.delete(alarm) };
  }

  /** Whether somebody waits for the time. */
  get isAwaited(): boolean {
    return this.#alarms.size > 0;
  }

  /** Time passes without anybody being woken, as in a pause of the process. */
  pause(ms: number): void {
    this.#now += ms;
  }

  /** Time passes, alarm by alarm. Whatever an alarm wakes gets to do everything it does without waiting. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    for (;;) {
      await settled();
      const due = [...this.#alarms].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) {
        break;
      }
      this.#now = Math.max(this.#now, due.at);
      this.#alarms.delete(due);
      due.ring();
    }
    this.#now = until;
    await settled();
  }
}

/** Every promise that can go on has gone on. */
export async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
