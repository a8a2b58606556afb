//! What the machine answers.

use std::sync::Arc;

use crate::change::Change;
use crate::fact::Fact;
use crate::group::Group;
use crate::lease::{Ending, LeaseNumber};
use crate::name::{Dialect, Owner};
use crate::session::SessionNumber;
use crate::time::{Span, Timestamp};
use crate::view::LeaseView;

/// Everything that follows from one command. The engine makes `changes` durable, then acts.
#[derive(Clone, Debug)]
pub struct Applied<T> {
    /// For whoever asked.
    pub outcome: Result<T, Rejection>,
    /// To be made durable before anything is answered. Expiries that were only noticed now are among
    /// them even if the command was refused.
    pub changes: Vec<Change>,
    /// Leases that waited for their lock and now have it, or never will: their clients are to be told.
    pub wakeups: Vec<LeaseNumber>,
    /// What happened to whom, for logs and for whoever watches.
    pub facts: Vec<Fact>,
}

/// What commands leave behind, one after the other: [`Applied`] without the outcome. A batch keeps one of these, so
/// that a command need not allocate its own.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// See [`Applied::changes`].
    pub changes: Vec<Change>,
    /// See [`Applied::wakeups`].
    pub wakeups: Vec<LeaseNumber>,
    /// See [`Applied::facts`].
    pub facts: Vec<Fact>,
}

/// What an acquire came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The lease is active.
    Granted(Box<Grant>),
    /// The lease is in the queue.
    Queued(LeaseNumber),
}

/// What an acquire of several locks came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AcquiredAll {
    /// All the leases are active, in the order in which their locks were asked for.
    Granted(Vec<Grant>),
    /// The leases are in the queues; this is the first of them.
    Queued(LeaseNumber),
}

impl AcquiredAll {
    /// The same for one lock.
    pub(crate) fn one(self) -> Acquired {
        match self {
            AcquiredAll::Queued(number) => Acquired::Queued(number),
            AcquiredAll::Granted(grants) => match grants.into_iter().next() {
                Some(grant) => Acquired::Granted(Box::new(grant)),
                None => panic!("a grant of nothing"),
            },
        }
    }
}

impl From<Acquired> for AcquiredAll {
    fn from(acquired: Acquired) -> Self {
        match acquired {
            Acquired::Queued(number) => AcquiredAll::Queued(number),
            Acquired::Granted(grant) => AcquiredAll::Granted(vec![*grant]),
        }
    }
}

/// A session that began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionOpened {
    /// Its number.
    pub number: SessionNumber,
    /// When it ends unless kept alive.
    pub deadline: Timestamp,
}

/// An active lease, new or found again by its request id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The lease.
    pub lease: LeaseView,
    /// How it came about.
    pub kind: GrantKind,
    /// Who let the lock expire before this grant, and through which dialect.
    pub previous: Option<(Dialect, Owner)>,
}

/// How an acquire came to a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantKind {
    /// A new lease with a new token.
    New,
    /// The lease its owner had anyway, renewed.
    Renewed,
    /// The lease an earlier request with the same id got.
    Replayed,
}

/// What a sweep did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Deadlines, leases and locks worked off.
    pub n_done: usize,
    /// Something is still due.
    pub more: bool,
}

/// Why not. Few kinds: a new one only if a client would act differently.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The lock is taken, or others are before in its queue.
    Held(Box<Holding>),
    /// The lock is reserved for its last owner.
    Grace {
        /// The last owner.
        owner: Owner,
        /// When its lease ended.
        expired_at: Timestamp,
        /// How long nobody else gets the lock.
        grace_until: Timestamp,
    },
    /// Of the things asked for together, this one is in the way.
    Member {
        /// Its place in the request.
        n: usize,
        /// Why.
        why: Box<Rejection>,
    },
    /// A lock is asked for twice in one request: the second time in this place.
    Repeated {
        /// Its place in the request.
        n: usize,
    },
    /// Maintenance is on: nothing new is granted.
    Maintenance,
    /// Too many wait for this lock.
    QueueFull {
        /// How many may.
        queue_max: usize,
        /// Who is in the way.
        holding: Box<Holding>,
    },
    /// The holders or waiters of this lock agreed on another count.
    LimitDiffers {
        /// The count they agreed on.
        limit: u32,
    },
    /// The request id was used for something else.
    RequestConflict,
    /// The request id was used for this, but its lease has ended.
    RequestSpent(Ending),
    /// No such lease, or none any more.
    NoSuchLease,
    /// The lease belongs to somebody else, or the proof is wrong.
    NotOwner,
    /// The lease is over.
    Ended(Ending),
    /// The lease is still waiting.
    StillWaiting,
    /// No such session, or none any more, or somebody else's.
    NoSuchSession,
    /// Too much, too many, too long.
    Limit(Exceeded),
    /// This lock has had all the tokens there are.
    TokensExhausted,
}

/// Who is in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// A holder; `None` while others are before in the queue of a lock nobody holds.
    pub owner: Option<Owner>,
    /// Through which dialect, with the lease's number.
    pub lease: Option<(Dialect, LeaseNumber)>,
    /// When the holder got it.
    pub granted_at: Timestamp,
    /// When its lease ends unless renewed.
    pub deadline: Option<Timestamp>,
    /// How long that is from now.
    pub remaining: Option<Span>,
    /// How many wait already.
    pub n_waiting: usize,
    /// The leases the holder's was asked for with, if there are any.
    pub group: Option<Group>,
    /// What the holder wants to be shown.
    pub metadata: Option<Arc<[u8]>>,
}

/// A limit that was met, and what it allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exceeded {
    /// Which.
    pub limit: Limit,
    /// As much as this: bytes, milliseconds, or how many.
    pub allowed: u64,
    /// The line in which a quota is set.
    pub line: Option<u32>,
}

/// Which limit was met. Each is a field of [`crate::Limits`], but for quotas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is the limit of its name")]
pub enum Limit {
    Namespace,
    Name,
    Owner,
    RequestId,
    Metadata,
    Reason,
    Ttl,
    SessionTtl,
    Grace,
    Wait,
    Holders,
    Namespaces,
    Locks,
    PrincipalLeases,
    PrincipalNamespaces,
    PrincipalSessions,
    Sessions,
    MetadataTotal,
    NamesTotal,
    RequestsTotal,
    QueuesTotal,
    PrincipalMetadata,
    PrincipalNames,
    PrincipalRequests,
    PrincipalQueues,
    Group,
    Quota,
    NamespaceQuota,
    BytesQuota,
}
