//! The commands. The type of each command's answer is in `ask.rs`.

use std::sync::Arc;

use crate::lease::{LeaseId, LeaseNumber, Mode, Secret};
use crate::name::{Dialect, LockKey, Owner, Peer};
use crate::session::{Credential, SessionDigest, SessionNumber};
use crate::time::Span;
use crate::token::Token;

/// Acquires `lock`, or queues for it.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// The lock to acquire.
    pub lock: LockKey,
    /// The owner that acquires it.
    pub owner: Owner,
    /// Appends the lease's number to the owner's instance. For protocols whose clients do not identify themselves, so
    /// that every lease has a separate owner.
    pub owner_per_lease: bool,
    /// The protocol of the request.
    pub dialect: Dialect,
    /// Whether the lease shares the lock, and with which other leases.
    pub mode: Mode,
    /// How long the lease lasts from its grant. With `None` it lasts as long as its session, or until it is released.
    pub ttl: Option<Span>,
    /// How long the lock stays reserved for the owner after the lease expires. Exclusive leases only.
    pub grace: Span,
    /// Whether to wait if the lock is held.
    pub wait: Wait,
    /// If this owner already holds the lock, renews that lease instead of rejecting the request.
    pub sticky: bool,
    /// Keeps the lease readable for a while after its end.
    pub keep: bool,
    /// The session the lease belongs to.
    pub session: Option<SessionDigest>,
    /// Data that the owner attaches for others to see.
    pub metadata: Option<Arc<[u8]>>,
    /// An id chosen by the client. Repeating a request with its id returns the same answer without a second effect.
    pub request_id: Option<Box<str>>,
    /// The unguessable part of the new lease's id, drawn by the caller.
    pub secret: Secret,
    /// The origin of the request, if its principal is not authenticated. All requests of one origin then count
    /// together.
    pub peer: Option<Peer>,
    /// The maximum number of leases of its principal, if that is below the general limit.
    pub quota: Option<Quota>,
    /// The maximum number of leases in its namespace, over all principals.
    pub namespace_quota: Option<Quota>,
    /// The maximum number of bytes of its principal.
    pub bytes_quota: Option<Quota>,
}

/// A quota from the auth file, and the line that sets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The maximum: waiting and active leases, or bytes.
    pub max: u32,
    /// The line of the auth file that sets the quota.
    pub line: u32,
}

impl Acquire {
    /// An exclusive lease without a wait, a TTL, a session or a request id. Callers change the fields that should
    /// differ.
    pub fn new(lock: LockKey, owner: Owner, dialect: Dialect, secret: Secret) -> Self {
        Self {
            lock,
            owner,
            owner_per_lease: false,
            dialect,
            mode: Mode::Exclusive,
            ttl: None,
            grace: Span::ZERO,
            wait: Wait::No,
            sticky: false,
            keep: false,
            session: None,
            metadata: None,
            request_id: None,
            secret,
            peer: None,
            quota: None,
            namespace_quota: None,
            bytes_quota: None,
        }
    }
}

/// Acquires all of several locks of one namespace, or none, or queues for all of them. With a single lock, this is an
/// [`Acquire`].
#[derive(Clone, Debug)]
pub struct AcquireAll {
    /// The first lock, with the settings that apply to all: owner, dialect, TTL, grace period, wait, session, metadata
    /// and request id. A group is never sticky and never has an owner per lease.
    pub first: Acquire,
    /// The other locks.
    pub others: Vec<Other>,
}

/// Another lock to acquire together with the first.
#[derive(Clone, Debug)]
pub struct Other {
    /// The name of the lock, in the namespace of the first.
    pub name: Box<str>,
    /// Whether the lease shares the lock, and with which other leases.
    pub mode: Mode,
    /// The unguessable part of the new lease's id, drawn by the caller.
    pub secret: Secret,
}

impl AcquireAll {
    /// Splits the request into one acquire per lock, in order. Only the first keeps the request id.
    pub(crate) fn each(self) -> Vec<Acquire> {
        let Self { mut first, others } = self;
        (first.sticky, first.owner_per_lease) = (false, false);
        let other = |Other { name, mode, secret }| Acquire {
            lock: LockKey { namespace: first.lock.namespace.clone(), name },
            mode,
            secret,
            request_id: None,
            ..first.clone()
        };
        let others: Vec<_> = others.into_iter().map(other).collect();
        std::iter::once(first).chain(others).collect()
    }
}

/// Ends the owner's own wait, found by the request id of its acquire.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// The owner that waits.
    pub owner: Owner,
    /// The namespace of the locks.
    pub namespace: Arc<str>,
    /// The lock it must wait for, alone or in a group. With `None`, any lock.
    pub lock: Option<Box<str>>,
    /// The protocol of the acquire.
    pub dialect: Dialect,
    /// The request id of the acquire.
    pub request_id: Box<str>,
}

/// The behavior if a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Reject the request.
    No,
    /// Queue for this long, but leave the queue when the connection closes.
    Connected(Span),
    /// Queue for this long, with or without a connection.
    Unattended(Span),
}

impl Wait {
    pub(crate) fn span(self) -> Span {
        match self {
            Wait::No => Span::ZERO,
            Wait::Connected(span) | Wait::Unattended(span) => span,
        }
    }
}

/// How a client proves that a lease is its own. Each dialect uses one kind of proof.
#[derive(Clone, Debug)]
pub enum Proof {
    /// The client knows the lease's id.
    Id {
        /// The id of the lease, including its secret.
        id: LeaseId,
        /// The owner the lease must have.
        owner: Owner,
        /// The token the lease must have, if the dialect checks it.
        token: Option<Token>,
        /// The lock the lease must be on, if the dialect checks it.
        lock: Option<LockKey>,
    },
    /// The client uses the name of the owner.
    Owner {
        /// The lock that the owner holds.
        lock: LockKey,
        /// The owner that must hold it.
        owner: Owner,
    },
    /// The client knows the lease's number.
    Number {
        /// The number of the lease.
        number: LeaseNumber,
        /// The principal that must have acquired the lease, if the dialect checks it.
        principal: Option<Arc<str>>,
    },
    /// The client is in the session that holds the lock.
    Session {
        /// The lock that the session holds.
        lock: LockKey,
        /// The session that must hold it.
        session: SessionDigest,
        /// The principal the session must belong to, if the dialect checks it.
        principal: Option<Arc<str>>,
    },
}

/// Moves the deadline of an active lease.
#[derive(Clone, Debug)]
pub struct Renew {
    /// Which lease, and the proof that it is the client's.
    pub proof: Proof,
    /// The protocol of the request.
    pub dialect: Dialect,
    /// The new deadline.
    pub extend: Extend,
    /// An id chosen by the client. Repeating a request with its id returns the same answer without a second effect.
    pub request_id: Option<Box<str>>,
}

/// Moves the deadlines of all of several active leases, or of none.
#[derive(Clone, Debug)]
pub struct RenewAll {
    /// Which leases, and the proofs that they are the client's.
    pub proofs: Vec<Proof>,
    /// The protocol of the request.
    pub dialect: Dialect,
    /// The new deadline of each.
    pub extend: Extend,
}

/// How a renewal sets the deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extend {
    /// This long from now, but never earlier than the current deadline.
    AtLeast(Span),
    /// This long from now, even if that is earlier than the current deadline.
    Exactly(Span),
    /// This much later than the current deadline.
    By(Span),
}

/// Releases an active lease.
#[derive(Clone, Debug)]
pub struct Release {
    /// Which lease, and the proof that it is the client's.
    pub proof: Proof,
    /// The protocol of the request.
    pub dialect: Dialect,
    /// An id chosen by the client. Repeating a request with its id returns the same answer without a second effect.
    pub request_id: Option<Box<str>>,
}

/// Releases a lock by its owner's name: releases the owner's lease, or ends the grace period after its last lease.
#[derive(Clone, Debug)]
pub struct GiveUp {
    /// The lock to release.
    pub lock: LockKey,
    /// The owner that releases it.
    pub owner: Owner,
    /// The protocol of the request.
    pub dialect: Dialect,
}

/// Releases those of several leases that are still active.
#[derive(Clone, Debug)]
pub struct ReleaseAll {
    /// Which leases, and the proofs that they are the client's.
    pub proofs: Vec<Proof>,
    /// The protocol of the request.
    pub dialect: Dialect,
}

/// Ends leases by force, without a grace period.
#[derive(Clone, Debug)]
pub struct Revoke {
    /// The leases to end.
    pub target: Target,
    /// The reason and the name of the operator, kept with the lease and in its event.
    pub reason: Arc<str>,
}

/// The target of a revocation.
#[derive(Clone, Debug)]
pub enum Target {
    /// All holders of a lock. The next waiters get the lock.
    Lock(LockKey),
    /// One lease, active or waiting, with the proof that it belongs to the client. If it waits in a group, the whole
    /// group ends.
    Lease(Proof, Dialect),
    /// These leases, active or waiting. Ended ones are skipped.
    Leases(Vec<LeaseNumber>),
}

/// Checks whether a lease is active. If it waits, the rejection names the holder that blocks it.
#[derive(Clone, Debug)]
pub struct Confirm {
    /// Which lease, and the proof that it is the client's.
    pub proof: Proof,
    /// The protocol of the request.
    pub dialect: Dialect,
}

/// Changes the TTL of later grants of a waiting or active lease.
#[derive(Clone, Debug)]
pub struct Amend {
    /// Which lease, and the proof that it is the client's.
    pub proof: Proof,
    /// The protocol of the request.
    pub dialect: Dialect,
    /// The new TTL.
    pub ttl: Span,
}

/// Opens a session.
#[derive(Clone, Debug)]
pub struct OpenSession {
    /// The hash of the session's secret.
    pub digest: SessionDigest,
    /// The owner of the session.
    pub owner: Owner,
    /// The protocol of the request.
    pub dialect: Dialect,
    /// How long the session lasts without a keep-alive.
    pub ttl: Span,
    /// The origin of the request, if its principal is not authenticated.
    pub peer: Option<Peer>,
    /// The credential that opens the session, for dialects that check credentials only then. The session ends no later
    /// than the credential.
    pub credential: Option<Arc<Credential>>,
}

/// Keeps a session alive: it lasts for its TTL from now.
#[derive(Clone, Debug)]
pub struct KeepSession {
    /// The session to keep alive.
    pub session: SessionDigest,
    /// The principal the session must belong to, if the dialect checks it. This protects the session if its secret
    /// leaks.
    pub principal: Option<Arc<str>>,
    /// The protocol of the request.
    pub dialect: Dialect,
}

/// Closes a session. Its leases count as released.
#[derive(Clone, Debug)]
pub struct CloseSession {
    /// The session to close.
    pub session: SessionDigest,
    /// The principal the session must belong to, if the dialect checks it.
    pub principal: Option<Arc<str>>,
    /// The protocol of the request.
    pub dialect: Dialect,
}

/// The connection of a lease's client has closed.
#[derive(Clone, Debug)]
pub struct Leave(pub LeaseNumber);

/// The client of a lease was told that the outcome is unknown, while it waited or was about to be granted the lock. No
/// other waiter is granted the lock before the next sweep, so that any number of waiters can step aside first.
#[derive(Clone, Debug)]
pub struct StepAside(pub LeaseNumber);

/// Brings a lock up to date before it is read: ends overdue leases and grants the lock to waiters.
#[derive(Clone, Debug)]
pub struct Settle(pub LockKey);

/// Handles expired deadlines and forgets old records.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Maximum changes in this sweep, so that other commands get their turn.
    pub n_changes_max: usize,
}

/// The server has restarted, so all connections are closed.
#[derive(Clone, Debug)]
pub struct Resume {
    /// Maximum waiters to park or end at once. Until all are handled, no waiter is granted a lock.
    pub n_waiters_max: usize,
}

impl Resume {
    /// Handles all waiters at once.
    pub const ALL: Self = Self { n_waiters_max: usize::MAX };
}

/// The state comes from a backup.
#[derive(Clone, Debug)]
pub struct Restore;

/// Ends a session by its number, regardless of its owner. Its leases count as revoked.
#[derive(Clone, Debug)]
pub struct EndSession {
    /// The session to end.
    pub number: SessionNumber,
}

/// Proves that a lease is the client's own and active.
#[derive(Clone, Debug)]
pub struct Prove {
    /// Which lease, and the proof that it is the client's.
    pub proof: Proof,
    /// The protocol of the request.
    pub dialect: Dialect,
}

/// Turns maintenance mode on or off.
#[derive(Clone, Copy, Debug)]
pub struct Maintain {
    /// Whether maintenance mode is to be on.
    pub on: bool,
}
