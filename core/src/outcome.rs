//! The outcomes and effects of commands.

use std::sync::Arc;

use crate::change::Change;
use crate::fact::Fact;
use crate::group::Group;
use crate::lease::{Ending, LeaseNumber};
use crate::name::{Dialect, Owner};
use crate::session::SessionNumber;
use crate::time::{Span, Timestamp};
use crate::view::LeaseView;

/// Everything that follows from one command. The engine makes `changes` durable, then acts on the rest.
#[derive(Clone, Debug)]
pub struct Applied<T> {
    /// The answer to the caller.
    pub outcome: Result<T, Rejection>,
    /// The changes to make durable before any answer is sent. Even a rejected command can have changes: the expiries it
    /// noticed.
    pub changes: Vec<Change>,
    /// Leases whose wait is over, because they were granted or have ended. Their clients need an answer.
    pub wakeups: Vec<LeaseNumber>,
    /// What happened to leases, for logs and event subscribers.
    pub facts: Vec<Fact>,
}

/// The effects of successive commands: [`Applied`] without the outcome. The commands of a batch share one of these, so
/// that each need not allocate its own.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// See [`Applied::changes`].
    pub changes: Vec<Change>,
    /// See [`Applied::wakeups`].
    pub wakeups: Vec<LeaseNumber>,
    /// See [`Applied::facts`].
    pub facts: Vec<Fact>,
}

/// The result of an acquire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The lease is active.
    Granted(Box<Grant>),
    /// The lease is in the queue, under this number.
    Queued(LeaseNumber),
}

/// The result of acquiring several locks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AcquiredAll {
    /// All leases are active, in the order of the request.
    Granted(Vec<Grant>),
    /// All leases are queued. This is the number of the first.
    Queued(LeaseNumber),
}

impl AcquiredAll {
    /// Converts the result for a single lock.
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

/// The answer to opening a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SessionOpened {
    /// The number of the session.
    pub number: SessionNumber,
    /// When the session ends unless it is kept alive.
    pub deadline: Timestamp,
}

/// An active lease, either new or found by its request id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The active lease.
    pub lease: LeaseView,
    /// Whether the lease is new, renewed or replayed.
    pub kind: GrantKind,
    /// The previous owner and its dialect, if it let the lock expire before this grant.
    pub previous: Option<(Dialect, Owner)>,
}

/// How an acquire obtained its lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GrantKind {
    /// A new lease with a new token.
    New,
    /// The lease that its owner already held, now renewed.
    Renewed,
    /// The lease granted to an earlier request with the same id.
    Replayed,
}

/// The result of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// How many deadlines, leases and locks it handled.
    pub n_done: usize,
    /// Whether more work is due.
    pub more: bool,
}

/// Why a command was rejected. A new kind is added only if clients would act differently on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// The lock is held, or other waiters are ahead in its queue.
    Held(Box<Holding>),
    /// The lock is reserved for its last owner.
    Grace {
        /// The last owner.
        owner: Owner,
        /// When the last owner's lease ended.
        expired_at: Timestamp,
        /// Until when only the last owner can acquire the lock.
        grace_until: Timestamp,
    },
    /// One of several locks or leases in the request is the reason for the rejection.
    Member {
        /// Its position in the request.
        n: usize,
        /// The reason.
        why: Box<Rejection>,
    },
    /// The request names a lock twice.
    Repeated {
        /// The position of the second mention.
        n: usize,
    },
    /// Maintenance mode is on, so no new lease is granted.
    Maintenance,
    /// The queue of this lock is full.
    QueueFull {
        /// The maximum number of waiters.
        queue_max: usize,
        /// The holder that blocks the lock.
        holding: Box<Holding>,
    },
    /// The holders or waiters of this counted lock use another limit.
    LimitDiffers {
        /// The limit they use.
        limit: u32,
    },
    /// The request id was used for a different request.
    RequestConflict,
    /// The same request was made before with this id, and the lease it affected has ended.
    RequestSpent(Ending),
    /// The lease does not exist or is no longer remembered.
    NoSuchLease,
    /// The lease belongs to another owner, or the proof is wrong.
    NotOwner,
    /// The lease has ended.
    Ended(Ending),
    /// The lease is still waiting.
    StillWaiting,
    /// The session does not exist, has ended or belongs to another owner.
    NoSuchSession,
    /// A limit was exceeded.
    Limit(Exceeded),
    /// The lock has used up all tokens.
    TokensExhausted,
}

/// The holder that blocks a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// A holder. `None` if the lock is free but has waiters in its queue.
    pub owner: Option<Owner>,
    /// The dialect and number of the holder's lease.
    pub lease: Option<(Dialect, LeaseNumber)>,
    /// When the holder's lease was granted.
    pub granted_at: Timestamp,
    /// When the holder's lease ends unless it is renewed.
    pub deadline: Option<Timestamp>,
    /// The time left until that deadline.
    pub remaining: Option<Span>,
    /// How many leases wait in the queue.
    pub n_waiting: usize,
    /// The group the holder's lease was acquired with, if any.
    pub group: Option<Group>,
    /// Metadata that the holder attached to its lease.
    pub metadata: Option<Arc<[u8]>>,
}

/// An exceeded limit and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exceeded {
    /// The limit that was exceeded.
    pub limit: Limit,
    /// The maximum, in bytes, milliseconds or items.
    pub allowed: u64,
    /// The line of the auth file, if the limit is a quota.
    pub line: Option<u32>,
}

/// The limits a command can exceed. Each is a field of [`crate::Limits`], except the quotas.
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
