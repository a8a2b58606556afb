/** The shapes of the wire under short names. They are generated from the server's contract: see `wire.ts`. */

import type { components } from "./wire.js";

type Schemas = components["schemas"];

export type AcquireRequest = Schemas["locks.AcquireRequest"];
export type AcquireAllRequest = Schemas["locks.AcquireAllRequest"];
export type Acquired = Schemas["locks.Acquired"];
export type AcquiredAll = Schemas["locks.AcquiredAll"];
export type CancelRequest = Schemas["locks.CancelRequest"];
export type Cancelled = Schemas["locks.Cancelled"];
/** The code of a failure. A server that does not lead says `NOT_LEADER`. A newer server may have others. */
export type Code = Schemas["locks.Code"];
export type Failure = Omit<Schemas["locks.Failure"], "code"> & { code: Code };
export type FenceVerdict = Schemas["locks.FenceVerdict"];
export type GrantedLease = Schemas["locks.GrantedLease"];
export type History = Schemas["locks.History"];
export type KeptAlive = Schemas["locks.KeptAlive"];
export type LockEvent = Schemas["locks.Event"];
export type LockList = Schemas["locks.LockList"];
export type LockState = Schemas["locks.LockState"];
export type NotAcquired = Schemas["locks.NotAcquired"];
export type NotReleased = Schemas["locks.NotReleased"];
export type NotRenewed = Schemas["locks.NotRenewed"];
export type NotRenewedAll = Schemas["locks.NotRenewedAll"];
export type OpenSessionRequest = Schemas["locks.OpenSessionRequest"];
export type Reason = Schemas["locks.Reason"];
export type ReleaseAllRequest = Schemas["locks.ReleaseAllRequest"];
export type ReleaseRequest = Schemas["locks.ReleaseRequest"];
export type Released = Schemas["locks.Released"];
export type ReleasedAll = Schemas["locks.ReleasedAll"];
export type RenewAllRequest = Schemas["locks.RenewAllRequest"];
export type RenewRequest = Schemas["locks.RenewRequest"];
export type Renewed = Schemas["locks.Renewed"];
export type BackupTaken = Schemas["locks.BackupTaken"];
export type Revoked = Schemas["locks.Revoked"];
export type RevokeAllRequest = Schemas["locks.RevokeAllRequest"];
export type RevokedAll = Schemas["locks.RevokedAll"];
export type SessionOpened = Schemas["locks.SessionOpened"];
export type WantedLock = Schemas["locks.WantedLock"];
export type WatchLeaseRequest = Schemas["locks.WatchLeaseRequest"];
