"""The types of the wire, one for each schema `locks.*` of docs/openapi.json.

Written by sdks/python/generate; do not edit.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from typing_extensions import NotRequired, TypeAlias


class Acquired(TypedDict):
    """
    200: the lock is acquired.
    """

    acquired: bool
    expires_after_send_ms: int | None
    """
    From the time the request was sent, the lease lasts at least this long; `null` if it never expires.
    """
    expires_in_ms: int | None
    """
    Time left when this answer was made; `null` if it never expires.
    """
    fencing_token: int
    """
    The fencing token. Pass it to whatever the lock protects.
    """
    lease_expiry_ms: int | None
    """
    Epoch milliseconds, for display only; `null` if it never expires.
    """
    lease_id: str
    """
    Proof of ownership: a secret.
    """
    lock_name: str
    owner_id: str


class AuthState(TypedDict):
    """
    `GET /v1/admin/auth`: the auth file in force.
    """

    hash: str | None
    """
    The hash of the auth file and of all files it names, as last loaded; `null` without authentication.
    """
    stale_seconds: int
    """
    For how long the files have been unusable. Until they are good again, those from before stay in force.
    """


class BackupTaken(TypedDict):
    """
    `POST /v1/admin/backup`: 201.
    """

    bytes: int
    """
    Its size in bytes.
    """
    name: str
    """
    The backup's name below the server's `backup-dir`.
    """


class CancelRequest(TypedDict):
    """
    `POST {lock}/cancel` and `POST /v1/cancel`.
    """

    owner_id: str
    """
    The owner who waits.
    """
    request_id: str
    """
    The `request_id` of the acquire that waits.
    """


class Cancelled(TypedDict):
    """
    200: whether a wait was ended. If not, it was over before, or its lease was granted.
    """

    cancelled: bool


Code: TypeAlias = Literal['INVALID_REQUEST', 'INVALID_JSON', 'UNSUPPORTED_MEDIA_TYPE', 'BODY_TOO_LARGE', 'UNAUTHENTICATED', 'FORBIDDEN', 'HOST_NOT_ALLOWED', 'NOT_LEADER', 'ORIGIN_NOT_ALLOWED', 'NOT_FOUND', 'METHOD_NOT_ALLOWED', 'NO_SUCH_SESSION', 'REQUEST_ID_CONFLICT', 'REQUEST_ID_SPENT', 'LIMIT_DIFFERS', 'LIMIT_REACHED', 'BUSY', 'OVERLOADED', 'JOURNAL_FULL', 'AUDIT_FAILED', 'BACKUPS_OFF', 'BACKUP_FAILED', 'SHUTTING_DOWN', 'MAINTENANCE', 'LEASE_NOT_HELD', 'TIMEOUT', 'INTERNAL', 'UNKNOWN']
"""
What kind of error it is.
"""


EventKind: TypeAlias = Literal['queued', 'granted', 'released', 'expired', 'revoked', 'wait_ended', 'held_long', 'waited_long', 'deadlock_suspected']
"""
What happened. It is also the SSE event name.
"""


class Failure(TypedDict):
    """
    The body of every error answer that has no shape of its own.
    """

    code: Code
    """
    The kind of error, for programs.
    """
    error: str
    """
    What is wrong, in words.
    """
    may_have_taken_effect: bool
    """
    Whether the request may have taken effect: repeat it with the same `request_id` to find out.
    """
    retryable: bool
    """
    Whether the same request may succeed later.
    """


class FenceCheck(TypedDict):
    """
    `POST /v1/fence/check`. Advisory: by the time the answer arrives it may be another.
    """

    fencing_token: int
    lock_name: str
    namespace: NotRequired[str | None]


class FenceVerdict(TypedDict):
    """
    200.
    """

    accepted: bool
    """
    The token's lease is active, and no later grant conflicts with it.
    """
    last_token: int


class Gap(TypedDict):
    """
    The SSE event `gap`: something happened that this reader will not be told.
    """

    reason: str


class GrantedLease(TypedDict):
    """
    One of the leases granted together.
    """

    fencing_token: int
    """
    The fencing token. Pass it to whatever the lock protects.
    """
    lease_id: str
    """
    Proof of ownership: a secret.
    """
    lock_name: str
    """
    The lock's name.
    """


class HeldLease(TypedDict):
    """
    A lease to be renewed or released, as it was granted.
    """

    fencing_token: int
    """
    The fencing token.
    """
    lease_id: str
    """
    Proof of ownership: a secret.
    """
    lock_name: str
    """
    The lock's name.
    """


class Holder(TypedDict):
    """
    A holder of a lock.
    """

    expires_in_ms: int | None
    fencing_token: int
    held_ms: int
    lease_expiry_ms: int | None
    limit: NotRequired[int | None]
    metadata: NotRequired[Any]
    mode: str
    owner_id: str
    principal: NotRequired[str | None]
    """
    The principal of that owner; omitted if the owner is not authenticated.
    """


class KeptAlive(TypedDict):
    """
    `POST /v1/sessions/{id}/keepalive`: 200.
    """

    expires_after_send_ms: int
    """
    From the time the request was sent, the session lasts at least this long.
    """
    expires_in_ms: int
    """
    Time left when this answer was made.
    """


class LeaseEnd(TypedDict):
    """
    The last event of such a stream, `ended`: the lease is over.
    """

    at_ms: int
    """
    When, in epoch milliseconds.
    """
    fencing_token: int
    """
    The lease's token.
    """
    how: str
    """
    `released`, `expired` or `revoked`.
    """
    lock_name: str
    """
    The lock's name.
    """
    reason: NotRequired[str | None]
    """
    Why it was revoked.
    """


class Maintenance(TypedDict):
    """
    `GET` and `PUT /v1/admin/maintenance`: whether maintenance is on.
    """

    on: bool
    """
    Maintenance is on.
    """


class MaintenanceRequest(TypedDict):
    """
    `PUT /v1/admin/maintenance`: while it is on, acquires are refused; renewals and releases work.
    """

    on: bool
    """
    Maintenance is to be on.
    """


Mode: TypeAlias = Literal['exclusive', 'shared']
"""
Whether a lease shares its lock.
"""


class OpenSessionRequest(TypedDict):
    """
    `POST /v1/sessions`.
    """

    owner_id: str
    ttl_ms: int
    """
    How long it lasts without a keep-alive.
    """


class PastEvent(TypedDict):
    """
    One event, as `GET /v1/events` told it.
    """

    at_ms: int
    """
    Epoch milliseconds.
    """
    fencing_token: int
    held_ms: int
    """
    How long it held the lock, in milliseconds.
    """
    id: str
    """
    The event's id.
    """
    kind: EventKind
    lock_name: str
    namespace: str
    owner_id: str
    principal: NotRequired[str | None]
    """
    The principal of that owner; omitted if the owner is not authenticated.
    """
    reason: NotRequired[str | None]
    """
    Why it was revoked, and on whose word; or the circle of waits a suspected deadlock consists of.
    """
    waited_ms: int
    """
    How long the lease waited in the queue, in milliseconds.
    """


Reason: TypeAlias = Literal['HELD', 'BUSY_RETRY', 'GRACE', 'QUEUE_FULL', 'WAIT_TIMEOUT', 'NOT_OWNER_OR_EXPIRED', 'NOT_OWNER', 'EXPIRED']
"""
Why a lock could not be acquired, or a lease not be renewed or released.
"""


class ReleaseAllRequest(TypedDict):
    """
    `POST /v1/release`.
    """

    leases: list[HeldLease]
    """
    The leases. Those that are still active are released.
    """
    owner_id: str
    """
    The leases' owner.
    """


class ReleaseRequest(TypedDict):
    """
    `POST {lock}/release`.
    """

    fencing_token: int
    lease_id: str
    owner_id: str
    request_id: NotRequired[str | None]


class Released(TypedDict):
    """
    200: the lease is released.
    """

    released: bool


class ReleasedLease(TypedDict):
    """
    What became of one of them.
    """

    lock_name: str
    reason: NotRequired[Reason | None]
    """
    Why it was not released.
    """
    released: bool


class RenewAllRequest(TypedDict):
    """
    `POST /v1/renew`.
    """

    extend_by_ms: int
    """
    The leases then last at least this long from now.
    """
    leases: list[HeldLease]
    """
    The leases. All of them are renewed or none is.
    """
    owner_id: str
    """
    The leases' owner.
    """


class RenewRequest(TypedDict):
    """
    `POST {lock}/renew`.
    """

    extend_by_ms: int
    """
    The lease then lasts at least this long from now.
    """
    fencing_token: int
    lease_id: str
    owner_id: str
    request_id: NotRequired[str | None]


class Renewed(TypedDict):
    """
    200: the lease is renewed.
    """

    expires_after_send_ms: int | None
    """
    From the time the request was sent, the lease lasts at least this long; `null` if it never expires.
    """
    expires_in_ms: int | None
    """
    Time left when this answer was made; `null` if it never expires.
    """
    lease_expiry_ms: int | None
    """
    Epoch milliseconds, for display only; `null` if it never expires.
    """
    renewed: bool


class RevokeAllRequest(TypedDict):
    """
    `POST /v1/revoke`: exactly one of `owner`, `session` and `principal`.
    """

    dry_run: NotRequired[bool]
    """
    Only say what would be revoked.
    """
    owner: NotRequired[str | None]
    """
    Revoke every lease of this owner, in all namespaces.
    """
    principal: NotRequired[str | None]
    """
    Revoke every lease of this principal, whatever its owners are called.
    """
    reason: str
    """
    Why. It is kept in the events.
    """
    session: NotRequired[int | None]
    """
    Revoke every lease of the session with this number.
    """


class RevokeRequest(TypedDict):
    """
    `POST {lock}/revoke`.
    """

    reason: str
    """
    Why the lock is revoked; kept with the leases and shown in their events.
    """


class RevokedFrom(TypedDict):
    """
    One of them.
    """

    fencing_token: int
    """
    0 if it was waiting.
    """
    lock_name: str
    namespace: str
    owner_id: str
    principal: NotRequired[str | None]
    """
    The principal of that owner; omitted if the owner is not authenticated.
    """
    waiting: bool
    """
    It was waiting for the lock.
    """


class RevokedLease(TypedDict):
    """
    A lease that was revoked.
    """

    fencing_token: int
    owner_id: str
    principal: NotRequired[str | None]
    """
    The principal of that owner; omitted if the owner is not authenticated.
    """


class SessionOpened(TypedDict):
    """
    201.
    """

    expires_after_send_ms: int
    """
    From the time the request was sent, the session lasts at least this long.
    """
    expires_in_ms: int
    """
    Time left when this answer was made.
    """
    owner_id: str
    session_id: str
    """
    The session's id: a secret of its owner.
    """


class SessionState(TypedDict):
    """
    A session as an operator sees it: never with its id, which is a secret.
    """

    dialect: str
    """
    The dialect that opened it.
    """
    expires_in_ms: int
    n_leases: int
    """
    How many leases it has, held and waiting.
    """
    number: int
    """
    Its public number.
    """
    owner_id: str
    principal: str
    ttl_ms: int


class Waiter(TypedDict):
    """
    A waiter for a lock.
    """

    owner_id: str
    parked: bool
    """
    Its connection is gone: it is skipped until its client repeats the request.
    """
    position: int
    """
    Its position in the queue; 1 is next.
    """
    principal: NotRequired[str | None]
    """
    The principal of that owner; omitted if the owner is not authenticated.
    """
    waiting_ms: int


class WantedLock(TypedDict):
    """
    One of the locks wanted together.
    """

    limit: NotRequired[int | None]
    """
    Up to this many holders at once; without `mode`.
    """
    lock_name: str
    """
    The lock's name.
    """
    mode: NotRequired[Mode | None]
    """
    With whom it is shared.
    """


class WatchLeaseRequest(TypedDict):
    """
    `POST {lock}/watch`: a stream that tells of this lease's end.
    """

    fencing_token: int
    lease_id: str
    owner_id: str


class WatchedLease(TypedDict):
    """
    The first event of such a stream, `watching`: the lease is active.
    """

    expires_in_ms: int | None
    """
    Time left when this event was made; `null` if it never expires.
    """
    fencing_token: int
    lease_expiry_ms: int | None
    lock_name: str


class AcquireAllRequest(TypedDict):
    """
    `POST /v1/acquire`.
    """

    grace_ms: NotRequired[int | None]
    """
    How long after expiry only this owner may take the locks again; only if all are exclusive.
    """
    locks: list[WantedLock]
    """
    The locks, each at most once. The first in the way is named in a refusal.
    """
    metadata: NotRequired[Any]
    """
    Any JSON; shown to clients that read one of the locks.
    """
    owner_id: str
    """
    The owner the leases will belong to.
    """
    request_id: NotRequired[str | None]
    """
    Repeating it repeats the answer, not the effect.
    """
    session_id: NotRequired[str | None]
    """
    The session the leases belong to.
    """
    ttl_ms: NotRequired[int | None]
    """
    How long the leases last; may be left out with a session.
    """
    wait_ms: NotRequired[int | None]
    """
    Wait in the queues this long instead of being refused at once.
    """


class AcquireRequest(TypedDict):
    """
    `POST {lock}/acquire`.
    """

    grace_ms: NotRequired[int | None]
    """
    How long after expiry only this owner may take the lock again.
    """
    limit: NotRequired[int | None]
    """
    Counted mode: the number of holders the lock may have at once.
    """
    metadata: NotRequired[Any]
    """
    Any JSON; shown to clients that read the lock.
    """
    mode: NotRequired[Mode | None]
    """
    Whether the lease is exclusive or shared; exclusive if left out.
    """
    owner_id: str
    """
    The id of the owner that acquires the lock.
    """
    request_id: NotRequired[str | None]
    """
    Repeating it repeats the answer, not the effect.
    """
    session_id: NotRequired[str | None]
    """
    The session the lease belongs to: it ends with it.
    """
    ttl_ms: NotRequired[int | None]
    """
    How long the lease lasts; may be left out with a session.
    """
    wait_ms: NotRequired[int | None]
    """
    Wait in the queue this long instead of being refused at once.
    """


class AcquiredAll(TypedDict):
    """
    200: all the locks are held.
    """

    acquired: bool
    expires_after_send_ms: int | None
    """
    From the time the request was sent, the leases last at least this long; `null` if they never expire.
    """
    expires_in_ms: int | None
    """
    Time left when this answer was made; `null` if they never expire.
    """
    lease_expiry_ms: int | None
    """
    Epoch milliseconds, for display only; `null` if they never expire.
    """
    leases: list[GrantedLease]
    """
    One for each lock, in the order of the request.
    """
    owner_id: str


class Event(TypedDict):
    """
    One event of `GET /v1/events`. Its id is the SSE id.
    """

    at_ms: int
    """
    Epoch milliseconds.
    """
    fencing_token: int
    held_ms: int
    """
    How long it held the lock, in milliseconds.
    """
    kind: EventKind
    lock_name: str
    namespace: str
    owner_id: str
    principal: NotRequired[str | None]
    """
    The principal of that owner; omitted if the owner is not authenticated.
    """
    reason: NotRequired[str | None]
    """
    Why it was revoked, and on whose word; or the circle of waits a suspected deadlock consists of.
    """
    waited_ms: int
    """
    How long the lease waited in the queue, in milliseconds.
    """


class History(TypedDict):
    """
    A page of history, newest first.
    """

    events: list[PastEvent]
    """
    What happened.
    """
    next_cursor: str | None
    """
    Where older events begin; `null` if there are none.
    """


class LockState(TypedDict):
    """
    `GET {lock}`: the state of a lock.
    """

    fencing_token: NotRequired[int | None]
    grace_owner_id: NotRequired[str | None]
    """
    The last owner, for whom the lock is reserved, and for how long.
    """
    grace_principal: NotRequired[str | None]
    """
    The principal of that owner; omitted if the owner is not authenticated.
    """
    grace_remaining_ms: NotRequired[int | None]
    held: bool
    holders: NotRequired[list[Holder]]
    last_token: int
    """
    The fencing token of the latest grant.
    """
    lease_expiry_ms: NotRequired[int | None]
    lock_name: str
    metadata: NotRequired[Any]
    n_holders: NotRequired[int]
    """
    The number of holders, if not all are listed.
    """
    n_waiting: NotRequired[int]
    """
    The number of waiters, including those not listed.
    """
    owner_id: NotRequired[str | None]
    principal: NotRequired[str | None]
    """
    The owner's principal; omitted if it is not authenticated. An owner is a principal and an `owner_id`.
    """
    queue: NotRequired[list[Waiter] | None]
    """
    The waiters, in order. Present whenever the lock is held or waited for.
    """
    version: NotRequired[int | None]
    """
    The version of the latest lease: it grows with every change.
    """


class NotAcquired(TypedDict):
    """
    409: the lock could not be acquired.
    """

    acquired: bool
    current_expiry_ms: int | None
    current_metadata: NotRequired[Any]
    """
    What the holder wants to be shown.
    """
    current_owner_id: str | None
    current_principal: NotRequired[str | None]
    """
    The principal of that owner; omitted if the owner is not authenticated.
    """
    error: str
    """
    What is wrong, in words.
    """
    lock_name: str
    reason: Reason
    recommended_retry_ms: int


class NotReleased(TypedDict):
    """
    409: the lease could not be released.
    """

    error: str
    """
    What is wrong, in words.
    """
    reason: Reason
    released: bool


class NotRenewed(TypedDict):
    """
    409: the lease could not be renewed.
    """

    error: str
    """
    What is wrong, in words.
    """
    reason: Reason
    renewed: bool


class NotRenewedAll(TypedDict):
    """
    409: a lease was lost, so none was renewed.
    """

    error: str
    """
    The reason in words.
    """
    lease_id: str
    """
    That lease, as the request named it: an owner may have several of one lock.
    """
    lock_name: str
    """
    The lock of the first lease that is lost, in the order of the request.
    """
    reason: Reason
    renewed: bool


class ReleasedAll(TypedDict):
    """
    200: at least one lease was released; 409: none was active.
    """

    error: NotRequired[str | None]
    """
    What is wrong, in words, if none was active.
    """
    leases: list[ReleasedLease]
    """
    One for each lease, in the order of the request.
    """
    released: bool


class Revoked(TypedDict):
    """
    200: the leases that were revoked.
    """

    lock_name: str
    revoked: list[RevokedLease]


class RevokedAll(TypedDict):
    """
    200: these leases were revoked, or would be.
    """

    dry_run: bool
    n_revoked: int
    revoked: list[RevokedFrom]
    """
    Which they are; no more than 1000.
    """


class SessionList(TypedDict):
    """
    `GET /v1/admin/sessions`.
    """

    next_cursor: str | None
    """
    Where to go on; `null` at the end.
    """
    sessions: list[SessionState]


class LockList(TypedDict):
    """
    `GET /v1/locks`.
    """

    locks: list[LockState]
    next_cursor: str | None
    """
    The cursor of the next page; `null` at the end.
    """
