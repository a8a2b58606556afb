//! The commands. What each is answered stands in `ask.rs`.

use std::sync::Arc;

use crate::lease::{LeaseId, LeaseNumber, Mode, Secret};
use crate::name::{Dialect, LockKey, Owner, Peer};
use crate::session::{Credential, SessionDigest, SessionNumber};
use crate::time::Span;
use crate::token::Token;

/// Take `lock` or queue for it.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Which lock.
    pub lock: LockKey,
    /// For whom.
    pub owner: Owner,
    /// The owner's instance is completed by the lease's number: for protocols in which nobody says who they
    /// are, so that every lease has an owner of its own.
    pub owner_per_lease: bool,
    /// Through which protocol.
    pub dialect: Dialect,
    /// With whom it may be shared.
    pub mode: Mode,
    /// How long the lease lasts from its grant; `None` for as long as its session, or until it is given back.
    pub ttl: Option<Span>,
    /// For how long after expiry the lock stays reserved for its owner. Exclusive leases only.
    pub grace: Span,
    /// What to do if the lock is taken.
    pub wait: Wait,
    /// If this owner has the lock already: renew that lease instead of refusing.
    pub sticky: bool,
    /// Keep the lease readable for a while after its end.
    pub keep: bool,
    /// The session it belongs to.
    pub session: Option<SessionDigest>,
    /// Anything the owner wants to be shown.
    pub metadata: Option<Arc<[u8]>>,
    /// Repeating it repeats the answer, not the effect.
    pub request_id: Option<Box<str>>,
    /// Unguessable; drawn by the caller.
    pub secret: Secret,
    /// Where it comes from, if nobody vouches for its principal: then it is counted with all that comes from there.
    pub peer: Option<Peer>,
    /// Most leases of its principal, if that is less than the limits say.
    pub quota: Option<Quota>,
    /// Most leases in its namespace, of all principals together.
    pub namespace_quota: Option<Quota>,
    /// The quota of bytes of its principal.
    pub bytes_quota: Option<Quota>,
}

/// How much somebody was given, and where that is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The maximum: leases that wait or are active, or bytes.
    pub max: u32,
    /// The line in which whoever set it finds it.
    pub line: u32,
}

impl Acquire {
    /// The plainest there is: alone, at once or not at all, until it is given back. Change what should differ.
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

/// Take several locks of one namespace or none, or queue for all of them. One alone is an [`Acquire`].
#[derive(Clone, Debug)]
pub struct AcquireAll {
    /// The first of them, with what holds for all: owner, dialect, ttl, grace, wait, session, metadata, request id.
    /// Groups
    /// are neither sticky nor have they an owner per lease.
    pub first: Acquire,
    /// The others.
    pub others: Vec<Other>,
}

/// One more lock to take together with the first.
#[derive(Clone, Debug)]
pub struct Other {
    /// Its name.
    pub name: Box<str>,
    /// With whom it may be shared.
    pub mode: Mode,
    /// Unguessable; drawn by the caller.
    pub secret: Secret,
}

impl AcquireAll {
    /// What is asked for of each lock, in order. The request id stays with the first.
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

/// End one's own wait, found by the request id it was asked for with.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// Whose wait.
    pub owner: Owner,
    /// In this namespace.
    pub namespace: Arc<str>,
    /// For this lock, alone or with others; `None` for whichever it is.
    pub lock: Option<Box<str>>,
    /// Through which protocol.
    pub dialect: Dialect,
    /// The id of the acquire.
    pub request_id: Box<str>,
}

/// What to do if a lock is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Be refused.
    No,
    /// Queue this long, as long as the connection is there.
    Connected(Span),
    /// Queue this long, connection or not.
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

/// How a client shows that a lease is its own. Each dialect has its way.
#[derive(Clone, Debug)]
pub enum Proof {
    /// It knows the lease's id.
    Id {
        /// The id.
        id: LeaseId,
        /// Whose lease it must be.
        owner: Owner,
        /// Which token it must have.
        token: Option<Token>,
        /// Which lock it must be on.
        lock: Option<LockKey>,
    },
    /// It goes by the name of the owner.
    Owner {
        /// Of this lock.
        lock: LockKey,
        /// Who.
        owner: Owner,
    },
    /// It knows the lease's number; with a principal, it must be the one that asked for it.
    Number {
        /// Which lease.
        number: LeaseNumber,
        /// Whose.
        principal: Option<Arc<str>>,
    },
    /// It is in the session that holds the lock.
    Session {
        /// The lock.
        lock: LockKey,
        /// The session.
        session: SessionDigest,
        /// Whose session it must be, if that matters.
        principal: Option<Arc<str>>,
    },
}

/// Move the deadline of an active lease.
#[derive(Clone, Debug)]
pub struct Renew {
    /// Which lease, and by what right.
    pub proof: Proof,
    /// Through which protocol.
    pub dialect: Dialect,
    /// To when.
    pub extend: Extend,
    /// Repeating it repeats the answer, not the effect.
    pub request_id: Option<Box<str>>,
}

/// Move the deadlines of several active leases or of none.
#[derive(Clone, Debug)]
pub struct RenewAll {
    /// Which leases, and by what right.
    pub proofs: Vec<Proof>,
    /// Through which protocol.
    pub dialect: Dialect,
    /// To when.
    pub extend: Extend,
}

/// Where a renewal puts the deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extend {
    /// This far from now, but never earlier than it was.
    AtLeast(Span),
    /// This far from now, even if that is earlier.
    Exactly(Span),
    /// This much later than it was.
    By(Span),
}

/// Give an active lease back.
#[derive(Clone, Debug)]
pub struct Release {
    /// Which lease, and by what right.
    pub proof: Proof,
    /// Through which protocol.
    pub dialect: Dialect,
    /// Repeating it repeats the answer, not the effect.
    pub request_id: Option<Box<str>>,
}

/// Give up a lock by its owner's name: the lease that holds it, or the grace period that followed the owner's last one.
#[derive(Clone, Debug)]
pub struct GiveUp {
    /// Which lock.
    pub lock: LockKey,
    /// Who gives it up.
    pub owner: Owner,
    /// Through which protocol.
    pub dialect: Dialect,
}

/// Give those of several leases back that are still active.
#[derive(Clone, Debug)]
pub struct ReleaseAll {
    /// Which leases, and by what right.
    pub proofs: Vec<Proof>,
    /// Through which protocol.
    pub dialect: Dialect,
}

/// End leases by force, without grace.
#[derive(Clone, Debug)]
pub struct Revoke {
    /// Which.
    pub target: Target,
    /// Why, and on whose word: kept with the lease and in its event.
    pub reason: Arc<str>,
}

/// What a revocation is aimed at.
#[derive(Clone, Debug)]
pub enum Target {
    /// All holders of a lock. Its queue moves up.
    Lock(LockKey),
    /// One lease, active or waiting, in the name of whoever can prove it theirs. What waits together ends together.
    Lease(Proof, Dialect),
    /// These leases, active or waiting; those that are over already are left out.
    Leases(Vec<LeaseNumber>),
}

/// Is a lease active? If it waits: who is in the way?
#[derive(Clone, Debug)]
pub struct Confirm {
    /// Which lease, and by what right.
    pub proof: Proof,
    /// Through which protocol.
    pub dialect: Dialect,
}

/// Change what a later grant of a waiting or active lease lasts.
#[derive(Clone, Debug)]
pub struct Amend {
    /// Which lease, and by what right.
    pub proof: Proof,
    /// Through which protocol.
    pub dialect: Dialect,
    /// The new ttl.
    pub ttl: Span,
}

/// Start a session.
#[derive(Clone, Debug)]
pub struct OpenSession {
    /// Hash of its secret.
    pub digest: SessionDigest,
    /// Whose.
    pub owner: Owner,
    /// Through which protocol.
    pub dialect: Dialect,
    /// How long it lasts without a keep-alive.
    pub ttl: Span,
    /// Where it comes from, if nobody vouches for its principal.
    pub peer: Option<Peer>,
    /// What it is opened with, for dialects that ask for credentials only then. It ends by then at the latest.
    pub credential: Option<Arc<Credential>>,
}

/// Let a session last its ttl from now.
#[derive(Clone, Debug)]
pub struct KeepSession {
    /// Which.
    pub session: SessionDigest,
    /// Whose it must be, if that matters: its secret may be known to somebody who should not know it.
    pub principal: Option<Arc<str>>,
    /// Through which protocol.
    pub dialect: Dialect,
}

/// End a session; its leases count as released.
#[derive(Clone, Debug)]
pub struct CloseSession {
    /// Which.
    pub session: SessionDigest,
    /// Whose it must be, if that matters.
    pub principal: Option<Arc<str>>,
    /// Through which protocol.
    pub dialect: Dialect,
}

/// The connection behind a lease is gone.
#[derive(Clone, Debug)]
pub struct Leave(pub LeaseNumber);

/// The wait of a lease, or the answer that grants it, ended with an unknown outcome. Others are granted nothing before
/// the next sweep, so that any number of waiters can step aside first.
#[derive(Clone, Debug)]
pub struct StepAside(pub LeaseNumber);

/// Bring a lock up to date before it is read.
#[derive(Clone, Debug)]
pub struct Settle(pub LockKey);

/// Work off what has fallen due.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Most changes to make before others get their turn.
    pub n_changes_max: usize,
}

/// The server has restarted: no connection is left.
#[derive(Clone, Debug)]
pub struct Resume {
    /// Most waiters to see off at once. Nobody is granted anything until all of them are.
    pub n_waiters_max: usize,
}

impl Resume {
    /// All waiters at once.
    pub const ALL: Self = Self { n_waiters_max: usize::MAX };
}

/// The state comes from a backup.
#[derive(Clone, Debug)]
pub struct Restore;

/// End a session by its number, whoever it belongs to; its leases count as revoked.
#[derive(Clone, Debug)]
pub struct EndSession {
    /// Which session.
    pub number: SessionNumber,
}

/// Show that a lease is one's own and active.
#[derive(Clone, Debug)]
pub struct Prove {
    /// Which lease, and by what right.
    pub proof: Proof,
    /// Through which protocol.
    pub dialect: Dialect,
}

/// Begin maintenance or end it.
#[derive(Clone, Copy, Debug)]
pub struct Maintain {
    /// It is to be on.
    pub on: bool,
}
