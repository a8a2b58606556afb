/** The terms on which leases are asked for. */

import { checkedName, checkNumber, checkOptions } from "./check.js";
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

const SHARING = ["shared", "limit"];
const COMMON = ["owner", "ttlMs", "waitMs", "marginMs", "graceMs", "metadata", "watched", "retry", "signal"];
/** The largest limit that the wire has a place for. */
const LIMIT_MAX = 2 ** 32 - 1;

/** Refuses what makes no sense for one lock. */
export function checkLock(name: unknown, options: CommonOptions & Sharing): void {
  checkedName(name);
  checkOptions("a lock", options, [...COMMON, ...SHARING]);
  checkSharing(options);
  checkTerms(options);
}

/** Refuses what makes no sense for several. */
export function checkLocks(locks: readonly (string | (Sharing & { name: string }))[], options: CommonOptions): void {
  if (!Array.isArray(locks)) {
    throw new InvalidError("several locks must be given as a list");
  }
  for (const lock of locks) {
    if (typeof lock === "object" && lock !== null) {
      checkedName(lock.name);
      checkOptions("one of several locks", lock, ["name", ...SHARING]);
      checkSharing(lock);
    } else {
      checkedName(lock);
    }
  }
  checkOptions("a request for several locks", options, COMMON);
  checkTerms(options);
}

function checkSharing({ limit }: Sharing): void {
  checkNumber("limit", limit, 1, LIMIT_MAX, true);
}

function checkTerms({ ttlMs, waitMs, marginMs, graceMs, retry = {} }: CommonOptions): void {
  checkNumber("ttlMs", ttlMs, Number.MIN_VALUE, Number.MAX_VALUE);
  checkNumber("waitMs", waitMs, 0, Infinity);
  checkNumber("marginMs", marginMs, 0, Number.MAX_VALUE);
  checkNumber("graceMs", graceMs, 0, Number.MAX_VALUE);
  checkOptions("retry", retry, Object.keys(RETRY_DEFAULT));
  checkNumber("retry.attemptsMax", retry.attemptsMax, 1, Infinity);
  checkNumber("retry.totalMaxMs", retry.totalMaxMs, 0, Infinity);
  checkNumber("retry.pauseMinMs", retry.pauseMinMs, 0, Number.MAX_VALUE);
  checkNumber("retry.pauseMaxMs", retry.pauseMaxMs, 0, Number.MAX_VALUE);
}

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
