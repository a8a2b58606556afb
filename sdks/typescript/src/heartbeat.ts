/** Renewing in the background, for exactly as long as somebody wants it. */

import { brokenOffAt, type Clock, sleepUntil } from "./clock.js";
import { BrokenError, FailedError, named, NotRenewedError } from "./error.js";
import { tell } from "./news.js";
import { jittered } from "./random.js";
import type { Tenure } from "./tenure.js";

/** Parts of the ttl: when to renew, how long one try may take, and the pauses between tries that fail. */
const RENEW_AFTER = 3;
const TRY_FOR = 6;
const PAUSE_MIN = 40;
const PAUSE_MAX = 10;
/** However short the ttl, a try gets this long. */
const TRY_FOR_MIN_MS = 50;

/** Renews once and returns how long the lease lasts from when it was called. */
export type Renew = (signal: AbortSignal) => Promise<number>;

/** What is renewed, how often and for how long. */
export interface Beat {
  /** For messages. */
  lock: string;
  ttlMs: number;
  /** When the lease ends unless it is renewed. */
  end: number;
  renew: Renew;
}

/** Renews until `tenure` is lost. The promise resolves when nothing is sent any more. */
export async function heartbeat(clock: Clock, tenure: Tenure, beat: Beat): Promise<void> {
  const { lock, ttlMs, renew } = beat;
  const lost = tenure.signal;
  // Counted back from the end: after a wait in the queue, the send time is long ago.
  let nextAt = beat.end - (ttlMs - ttlMs / RENEW_AFTER);
  let nFailed = 0;
  for (;;) {
    await sleepUntil(clock, nextAt, lost);
    if (tenure.check() !== undefined) {
      break;
    }
    const sentAt = clock.now();
    try {
      const giveUpAt = sentAt + Math.max(ttlMs / TRY_FOR, TRY_FOR_MIN_MS);
      const expiresInMs = await brokenOffAt(clock, giveUpAt, lost, tookTooLong, renew);
      if (tenure.extend(sentAt, expiresInMs) !== undefined) {
        break;
      }
      nFailed = 0;
      nextAt = sentAt + ttlMs / RENEW_AFTER;
    } catch (error) {
      if (isFinal(error)) {
        tenure.lose("ended", said(error));
        break;
      }
      if (tenure.check() !== undefined) {
        break;
      }
      // Any other answer says nothing about the lease. It may be over then; the deadline will tell.
      tell({ what: "renewal-failed", lock, error, nFailed });
      nextAt = clock.now() + pause(ttlMs, nFailed);
      nFailed += 1;
    }
  }
  const error = tenure.loss;
  if (error !== undefined && error.reason !== "released") {
    tell({ what: "lost", lock, reason: error.reason, error });
  }
}

/** What the server said, and of which of several locks. */
function said(error: unknown): string {
  const { lock, message } = error as NotRenewedError;
  return lock === undefined ? message : `${named([lock])}: ${message}`;
}

const tookTooLong = (): BrokenError => new BrokenError("the renewal took too long");

/** The server knows that there is nothing to renew. */
function isFinal(error: unknown): boolean {
  return error instanceof NotRenewedError || (error instanceof FailedError && error.code === "NO_SUCH_SESSION");
}

function pause(ttlMs: number, nFailed: number): number {
  const doubled = (ttlMs / PAUSE_MIN) * 2 ** Math.min(nFailed, 16);
  return jittered(Math.min(doubled, ttlMs / PAUSE_MAX));
}
