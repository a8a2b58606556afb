/** The terms on which leases are asked for. */

import { InvalidError } from "./error.js";
import { type Retry, RETRY_DEFAULT } from "./retry.js";

/** How a lock is held, alone or with others. */
export interface Sharing {
  /** Share it with others that say so too. */
  shared?: boolean;
  /** Share it with up to so many in all, who all name the same number. Tokens of such leases fence nothing. */
  limit?: number;
}

/** What holds for one lock and for several. Times are in milliseconds. */
export interface CommonOptions {
  /** The owner, if not the client's. */
  owner?: string;
  /** How long the lease lasts if it is not renewed. Default: 30 s. It is renewed after a third of that. */
  ttlMs?: number;
  /** Wait in the queue so long. Default: not at all. `Infinity` is allowed. */
  waitMs?: number;
  /**
   * How long before its end the lease counts as lost: the time you need to stop. Default: 250 ms or a tenth of the ttl,
   * whichever is less. At most half of the ttl.
   */
  marginMs?: number;
  /** If the lease expires, keep the lock for this owner so long. Exclusive locks only. */
  graceMs?: number;
  /** Any JSON, shown to whoever looks at the lock. */
  metadata?: unknown;
  /**
   * Be told at once if a lock is revoked, not with the next renewal. It takes a connection for each lock for as long as it
   * is held.
   */
  watched?: boolean;
  /** How failures are tried again. Default: `RETRY_DEFAULT`. */
  retry?: Partial<Retry>;
  /** Gives up: the queue is left at once. Once the lease is there, it has no effect. */
  signal?: AbortSignal;
}

/** How long a lease lasts unless something else is said. */
export const TTL_DEFAULT_MS = 30_000;

/** Whether to queue. */
export function waits(options: CommonOptions): boolean {
  return (options.waitMs ?? 0) > 0;
}

/** The margin that was asked for, or the usual one. */
export function margin(ttlMs: number, asked: number | undefined, waitMs = 0): number {
  if (!(ttlMs > 0 && ttlMs < Infinity)) {
    throw new InvalidError(`ttlMs must be more than 0 and have an end, got ${ttlMs}`);
  }
  if (!(waitMs >= 0)) {
    throw new InvalidError(`waitMs must not be less than 0, got ${waitMs}`);
  }
  const marginMs = asked ?? Math.min(250, ttlMs / 10);
  if (!(marginMs >= 0 && marginMs <= ttlMs / 2)) {
    throw new InvalidError(`marginMs must be from 0 to half of ttlMs (${ttlMs / 2}), got ${marginMs}`);
  }
  return marginMs;
}

/** As on the wire. */
export function sharing({ shared, limit }: Sharing): { mode?: "shared"; limit?: number } {
  return { ...(shared === true ? { mode: "shared" as const } : {}), ...(limit === undefined ? {} : { limit }) };
}

/** The retry that was asked for. */
export function retryOf(options: CommonOptions): Retry {
  return { ...RETRY_DEFAULT, ...options.retry };
}
