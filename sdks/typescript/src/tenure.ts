/**
 * How long something is ours: the one place that compares a deadline with the clock.
 *
 * Every question looks at the clock first, and a loss once seen stays: no answer that comes later brings back what
 * somebody was already told is lost.
 */

import type { Alarm, Clock } from "./clock.js";
import { LostError, type LostReason } from "./error.js";

/** Two clocks may drift apart by one in so many. */
const DRIFT = 100;

/** What a holder knows of its time. */
export class Tenure {
  readonly #clock: Clock;
  readonly #marginMs: number;
  /** For messages. */
  readonly #what: string | undefined;
  /** It ends with this one at the latest. */
  readonly #outer: Tenure | undefined;
  readonly #inner = new Set<Tenure>();
  readonly #controller = new AbortController();
  /** The lease lasts at least until then. */
  #end: number;
  #lost: LostError | undefined;
  #alarm: Alarm | undefined;

  private constructor(clock: Clock, marginMs: number, end: number, what?: string, outer?: Tenure) {
    this.#clock = clock;
    this.#marginMs = marginMs;
    this.#end = end;
    this.#what = what;
    this.#outer = outer;
  }

  /** Granted for `expiresInMs` by the answer to what was sent at `sentAt`. */
  static granted(clock: Clock, marginMs: number, sentAt: number, expiresInMs: number, what?: string): Tenure {
    const tenure = new Tenure(clock, marginMs, end(sentAt, expiresInMs), what);
    tenure.#arm();
    return tenure;
  }

  /** As long as `outer`, unless it is released before. */
  static within(outer: Tenure, what?: string): Tenure {
    const tenure = new Tenure(outer.#clock, outer.#marginMs, Infinity, what, outer);
    const lost = outer.check();
    if (lost === undefined) {
      outer.#inner.add(tenure);
    } else {
      tenure.lose(lost);
    }
    return tenure;
  }

  /** When it counts as lost unless renewed, on the client's clock. */
  get deadline(): number {
    return Math.min(this.#end - this.#marginMs, this.#outer?.deadline ?? Infinity);
  }

  /** Until when nobody else can have it, if clocks drift no more than they may. */
  get end(): number {
    return Math.min(this.#end, this.#outer?.end ?? Infinity);
  }

  /** Fires when it is lost, with a `LostError`. */
  get signal(): AbortSignal {
    this.check();
    return this.#controller.signal;
  }

  /** Why it is lost; nothing as long as it is not. */
  check(): LostReason | undefined {
    this.#outer?.check();
    if (this.#lost === undefined && this.#clock.now() >= this.#end - this.#marginMs) {
      this.lose("out-of-time");
    }
    return this.#lost?.reason;
  }

  /** The loss, in words; nothing as long as it is not lost. */
  get loss(): LostError | undefined {
    this.check();
    return this.#lost;
  }

  /** A renewal sent at `sentAt` was answered. What is lost by then stays lost. */
  extend(sentAt: number, expiresInMs: number): LostReason | undefined {
    if (this.check() !== undefined) {
      return this.#lost?.reason;
    }
    this.#end = Math.max(this.#end, end(sentAt, expiresInMs));
    return this.check();
  }

  /** It is lost, unless it was before. Returns why. */
  lose(why: LostReason, detail?: string): LostReason {
    if (this.#lost !== undefined) {
      return this.#lost.reason;
    }
    this.#lost = new LostError(why, this.#what, detail);
    this.#alarm?.cancel();
    if (this.#outer !== undefined) {
      this.#outer.#inner.delete(this);
    }
    for (const inner of [...this.#inner]) {
      inner.lose(why, detail);
    }
    this.#controller.abort(this.#lost);
    return why;
  }

  /** Rings at the deadline, and again if it was renewed by then. */
  #arm(): void {
    if (this.#lost !== undefined || this.#end === Infinity) {
      return;
    }
    this.#alarm = this.#clock.at(this.deadline, () => {
      if (this.check() === undefined) {
        this.#arm();
      }
    });
  }
}

/** The end by our clock: never later than by the server's, which counts from when it received what we sent. */
function end(sentAt: number, expiresInMs: number): number {
  return sentAt + (expiresInMs - expiresInMs / DRIFT);
}
