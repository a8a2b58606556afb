/** When to ask again. */

import { sleepUntil, type Clock } from "./clock.js";
import { BrokenError, FailedError, LeaseholdError, NotAcquiredError, SliceError } from "./error.js";
import { jittered } from "./random.js";

/** How often and how long something is tried. Everything is bounded. */
export interface Retry {
  /**
   * Most tries. While waiting in a queue only those count that failed one after the other; 503 `BUSY` and `UNKNOWN`, with
   * which a server answers that cannot reach its store, do not: only the end of the wait ends that.
   */
  attemptsMax: number;
  /** No try begins later than this after the first one; where a wait is given, that counts instead. */
  totalMaxMs: number;
  /** The pause after the first failure; it doubles with each. */
  pauseMinMs: number;
  /** The longest pause after a failure. */
  pauseMaxMs: number;
}

/** 8 tries, none of which begins after 20 s, with pauses from 50 ms to 2 s: time for a few servers that do not answer. */
export const RETRY_DEFAULT: Readonly<Retry> = {
  attemptsMax: 8,
  totalMaxMs: 20_000,
  pauseMinMs: 50,
  pauseMaxMs: 2_000,
};

/** What is done about a lock that another owner has: nothing, wait in its queue, or come back. */
export type Manner = "once" | "queue" | "return";

/**
 * A wait that ends so long, and by such a part of it, before its time was ended by somebody: cancelled, or revoked. Clocks
 * differ, and the server counts from when it received what we sent.
 */
const EARLY_MIN_MS = 100;
const EARLY_PART = 0.1;

/** The tries so far. */
export class Attempts {
  readonly #retry: Readonly<Retry>;
  readonly #manner: Manner;
  readonly #giveUpAt: number;
  /** There is another server that may answer. */
  #hasOther: boolean;
  #begunAt = 0;
  #waitMs = 0;
  #nAttempts = 0;
  /** Tries in a row that failed, for the length of the pause, and those of them that count in a queue. */
  #nPauses = 0;
  #nFailures = 0;

  constructor(retry: Readonly<Retry>, manner: Manner, giveUpAt: number, nUrls = 1) {
    this.#retry = retry;
    this.#manner = manner;
    this.#giveUpAt = giveUpAt;
    this.#hasOther = nUrls > 1;
  }

  /** The next try begins. A wait of this length that ends early is the answer; with zero none is. */
  begin(now: number, waitMs = 0): void {
    this.#begunAt = now;
    this.#waitMs = waitMs;
  }

  /** Whether a wait that is over now was ended by somebody. Asking again would undo that. */
  #wasEnded(now: number): boolean {
    const leftMs = this.#waitMs - (now - this.#begunAt);
    return leftMs > EARLY_MIN_MS && leftMs > this.#waitMs * EARLY_PART;
  }

  /** The pause before the next try; nothing if this error is the answer. */
  after(error: LeaseholdError, now: number): number | undefined {
    if (error instanceof SliceError && now < this.#giveUpAt) {
      this.#nPauses = this.#nFailures = 0;
      return 0;
    }
    this.#nAttempts += 1;
    const pauseMs = error instanceof NotAcquiredError ? this.#afterRefusal(error, now) : this.#afterFailure(error);
    if (pauseMs === undefined) {
      return undefined;
    }
    const nCounted = this.#manner === "queue" ? this.#nFailures : this.#nAttempts;
    if (nCounted >= this.#retry.attemptsMax) {
      return undefined;
    }
    if (now + pauseMs < this.#giveUpAt) {
      return pauseMs;
    }
    return this.#asksOther(error) ? 0 : undefined;
  }

  /** The wait is over and nothing was answered: another server is asked, once, because this one may be silent. */
  #asksOther(error: LeaseholdError): boolean {
    const asksOther = this.#hasOther && this.#manner === "queue" && error instanceof BrokenError;
    this.#hasOther &&= !asksOther;
    return asksOther;
  }

  #afterRefusal(error: NotAcquiredError, now: number): number | undefined {
    this.#nPauses = this.#nFailures = 0;
    const { reason } = error.refusal;
    if (!this.#returnsAfter(reason) || (reason === "WAIT_TIMEOUT" && this.#wasEnded(now))) {
      return undefined;
    }
    const pauseMs = error.retryAfterMs + jittered(error.retryAfterMs / 4);
    if (reason !== "WAIT_TIMEOUT") {
      return pauseMs;
    }
    // Whoever kept its place until the wait was over goes straight to the back of the queue. But a server that says
    // at once that the wait is over is not asked more often than it recommends, or than any failing one.
    return Math.max(0, Math.max(pauseMs, this.#retry.pauseMinMs) - (now - this.#begunAt));
  }

  #returnsAfter(reason: string): boolean {
    switch (reason) {
      case "BUSY_RETRY":
        return true;
      case "QUEUE_FULL":
      case "WAIT_TIMEOUT":
        return this.#manner !== "once";
      default:
        return this.#manner === "return";
    }
  }

  #afterFailure(error: LeaseholdError): number | undefined {
    // Maintenance lasts as long as its operator wants: whoever does not wait has its answer.
    const isAnswer = error instanceof FailedError && error.code === "MAINTENANCE" && this.#manner === "once";
    if (!error.retryable || isAnswer) {
      return undefined;
    }
    this.#nPauses += 1;
    this.#nFailures = isToBeRepeated(error) ? 0 : this.#nFailures + 1;
    const doubled = this.#retry.pauseMinMs * 2 ** Math.min(this.#nPauses - 1, 16);
    return jittered(Math.min(doubled, this.#retry.pauseMaxMs));
  }
}

/** A server says so that has no news from its store. It is there, and the wait goes on when the store is back. */
function isToBeRepeated(error: LeaseholdError): boolean {
  return error instanceof FailedError && error.status === 503 && (error.code === "UNKNOWN" || error.code === "BUSY");
}

/**
 * Asks the same again as long as that may help. An error says that the request may have taken effect if it may have in
 * any of the tries.
 */
export async function persist<T>(
  clock: Clock,
  ask: (mayHaveTakenEffect: boolean) => Promise<T>,
  retry: Readonly<Retry> = RETRY_DEFAULT,
): Promise<T> {
  const attempts = new Attempts(retry, "once", clock.now() + retry.totalMaxMs);
  let mayHaveTakenEffect = false;
  for (;;) {
    try {
      return await ask(mayHaveTakenEffect);
    } catch (error) {
      if (!(error instanceof LeaseholdError)) {
        throw error;
      }
      mayHaveTakenEffect ||= error.mayHaveTakenEffect;
      const pauseMs = attempts.after(error, clock.now());
      if (pauseMs === undefined) {
        error.mayHaveTakenEffect = mayHaveTakenEffect && error.retryable;
        throw error;
      }
      await sleepUntil(clock, clock.now() + pauseMs);
    }
  }
}
