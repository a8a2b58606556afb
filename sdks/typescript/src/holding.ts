/** What is ours until it is released or lost. */

import { inspect } from "node:util";

import type { Clock } from "./clock.js";
import { InvalidError, LeaseholdError, LostError, type LostReason, NotReleasedError } from "./error.js";
import { type Beat, heartbeat } from "./heartbeat.js";
import { tell } from "./news.js";
import type { Tenure } from "./tenure.js";

/** Node before 18.18 has no such symbol. There `try` and `finally` do what `await using` does. */
const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");

/**
 * Something that is ours until it is released or lost: a lease, several leases, or a session.
 *
 * It promises:
 *
 * - `signal` fires, and `check()` throws, before the lease can have ended at the server, as long as this process is
 *   scheduled, its event loop is not blocked, and clocks drift by less than 1 %. After a pause, `check()`, `held` and
 *   `signal` look at the clock first, and so tell the truth.
 * - A loss is final. No renewal that is answered late brings it back.
 * - It is released once, however often the connection breaks, and nothing is renewed after that.
 *
 * It does not promise that you stop. Between a `check()` and what you do next the process can be paused for longer
 * than the lease lasts. Send the fencing token along, and let the other side refuse what is stale.
 *
 * What is held keeps the process running, as an open server does.
 */
export abstract class Holding {
  readonly #tenure: Tenure;
  /** For messages. */
  readonly #label: string;
  /** Resolves when nothing is renewed any more. */
  #beating: Promise<void> = Promise.resolve();
  #given: Promise<void> | undefined;

  /** @internal */
  protected constructor(tenure: Tenure, label: string) {
    this.#tenure = tenure;
    this.#label = label;
  }

  /** Fires when it is lost or released: its reason is a `LostError`. Pass it on to whatever should stop then. */
  get signal(): AbortSignal {
    return this.#tenure.signal;
  }

  /** Whether it is ours. */
  get held(): boolean {
    return this.#tenure.check() === undefined;
  }

  /**
   * When it counts as lost unless it is renewed before, on the client's clock: the time at which the last successful
   * request was *sent*, plus what the server gave, less 1 % for drifting clocks and less the margin.
   */
  get deadline(): number {
    return this.#tenure.deadline;
  }

  /** The deadline without the margin: after this another owner may have the lock. */
  get end(): number {
    return this.#tenure.end;
  }

  /** Throws a `LostError` if it is not ours any more. */
  check(): void {
    const lost = this.#tenure.loss;
    if (lost !== undefined) {
      // Another one each time, with a stack of its own.
      throw new LostError(lost.reason, lost.what, lost.detail);
    }
  }

  /**
   * Gives it back: nothing is renewed from here on, and `signal` fires. A failure that may be temporary is tried
   * again. Calling it again returns the same result, or tries once more if the server could not be reached; it is
   * released once all the same.
   *
   * `NotReleasedError` means that the lease had ended before: another owner may have had the lock meanwhile.
   */
  release(): Promise<void> {
    return this.leave(() => this.giveBack());
  }

  /**
   * What `await using` does at the end of its block: a release. That it could not be released because the server
   * cannot be reached is not thrown, the work is done and the lease will expire. That it had ended before is.
   */
  async [asyncDispose](): Promise<void> {
    try {
      await this.release();
    } catch (error) {
      if (error instanceof NotReleasedError) {
        throw error;
      }
      tell({ what: "not-released", lock: this.#label, error });
    }
  }

  /** @internal Does what is done last, once nothing is renewed any more. */
  protected leave(last: () => Promise<void>): Promise<void> {
    this.#given ??= this.#letGo(last).catch((error: unknown) => {
      if (error instanceof LeaseholdError && error.retryable) {
        this.#given = undefined;
      }
      throw error;
    });
    return this.#given;
  }

  /** @internal Leaves it held for so long, as `last` does. What the server refuses can still be released. */
  protected async leaveHeld(timeMs: number, last: () => Promise<void>): Promise<void> {
    if (!(Number.isFinite(timeMs) && timeMs > 0)) {
      throw new InvalidError(`leaveFor must be given a time in milliseconds, more than 0 and with an end, got ${inspect(timeMs)}`);
    }
    const given = this.leave(last);
    await given.catch((error: unknown) => {
      if (this.#given === given) {
        this.#given = undefined;
      }
      throw error;
    });
  }

  /** @internal It is lost, unless it was before. */
  protected lose(reason: LostReason, detail?: string): void {
    this.#tenure.lose(reason, detail);
  }

  /** @internal Renews it in the background until it is lost or released. */
  protected beat(clock: Clock, beat: Omit<Beat, "lock">): void {
    this.#beating = heartbeat(clock, this.#tenure, { lock: this.#label, ...beat });
  }

  /** @internal Tells the server that it is over. */
  protected abstract giveBack(): Promise<void>;

  async #letGo(then: () => Promise<void>): Promise<void> {
    this.#tenure.lose("released");
    await this.#beating;
    await then();
  }
}
