/** The other side of a fencing token: what is protected refuses what is stale. */

import { inspect } from "node:util";

import { InvalidError, LeaseholdError } from "./error.js";

/** A newer token was seen: whoever sent this one has lost its lock. */
export class StaleError extends LeaseholdError {
  constructor(
    readonly token: number,
    readonly newest: number,
  ) {
    super(`fencing token ${token} is stale: ${newest} was seen already`);
  }
}

/**
 * Lets a write through only if no newer token was seen for the same resource. The comparison and the write are one step:
 * writes to one resource go one after the other.
 *
 * This gate forgets with its process. What outlives the process needs a gate that does too: keep the token in the same
 * database as the data, and compare it in the same transaction.
 */
export class FencingGate {
  readonly #newest = new Map<string, number>();
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `write` if `token` is not older than the newest seen for `resource`, which it then is. `InvalidError`: it is no token. */
  async write<T>(resource: string, token: number, write: () => T | PromiseLike<T>): Promise<T> {
    // Nothing is older than `NaN`, and strings are compared as text: such a token would pass, and let older ones pass after it.
    if (!Number.isSafeInteger(token) || token < 0) {
      throw new InvalidError(`a fencing token must be a whole number from 0 to 2^53 - 1, got ${inspect(token)}`);
    }
    const turn = (this.#last.get(resource) ?? Promise.resolve()).then(() => {
      const newest = this.#newest.get(resource) ?? 0;
      if (token < newest) {
        throw new StaleError(token, newest);
      }
      this.#newest.set(resource, token);
      return write();
    });
    this.#last.set(resource, turn.catch(() => undefined));
    return await turn;
  }
}
