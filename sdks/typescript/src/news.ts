/**
 * What happens in the background, told on the diagnostics channel `leasehold`: whoever wants to log it subscribes.
 * No secret is ever told.
 */

import { channel } from "node:diagnostics_channel";

import type { LostError, LostReason } from "./error.js";

/** One thing that happened. `lock` is the name of the lock, or of all of several. */
export type News =
  /** A renewal failed and is tried again. */
  | { what: "renewal-failed"; lock: string; error: unknown; nFailed: number }
  /** A lease is lost. */
  | { what: "lost"; lock: string; reason: LostReason; error: LostError }
  /** A lease was not released and will expire. */
  | { what: "not-released"; lock: string; error: unknown };

const news = channel("leasehold");

export function tell(what: News): void {
  news.publish(what);
}
