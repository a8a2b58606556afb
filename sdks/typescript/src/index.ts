/**
 * A client of the lock server Leasehold: leases that renew themselves, and say when they are lost.
 *
 * A deadline is the time at which a request was *sent*, plus what the server gave for it, less 1 % because clocks drift,
 * less a margin to act in. So it comes before the end of the lease at the server, however long the answer took.
 */

export type * as api from "./api.js";
export { Calls, type HistoryQuery, type ListQuery } from "./call.js";
export { Client } from "./client.js";
export type { Alarm, Clock } from "./clock.js";
export { Election, type ElectionOptions, type Leader } from "./election.js";
export {
  BrokenError,
  FailedError,
  ForeignError,
  InvalidError,
  LeaseholdError,
  LostError,
  type LostReason,
  NotAcquiredError,
  NotReleasedError,
  NotRenewedError,
  TlsError,
  UnreachableError,
} from "./error.js";
export { Events, type EventsOptions, type Watched } from "./event.js";
export { FencingGate, StaleError } from "./gate.js";
export { LeaseSet, LocksRequest, type Wanted } from "./group.js";
export { Holding } from "./holding.js";
export { Lease } from "./lease.js";
export type { News } from "./news.js";
export { type LockOptions, LockRequest } from "./request.js";
export { type Retry, RETRY_DEFAULT } from "./retry.js";
export { Session, type SessionLockOptions, type SessionOptions } from "./session.js";
export type { ClientOptions } from "./settings.js";
export type { CommonOptions, Sharing } from "./terms.js";
