//! The requests that the engine answers. Each request type names the type of its answer.
//!
//! Requests of all types wait in one queue, so the handle erases their types ([`Question`]) and restores the types of
//! the answers ([`Reply`]). Both conversions are defined here, next to each other.

use leasehold_core::{
    Acquire, AcquireAll, Acquired, AcquiredAll, Amend, Ask as _, Cancel, CloseSession, Command,
    Confirm, EndSession, GiveUp, Grant, GrantKind, KeepSession, LeaseNumber, LockKey, LockView,
    Maintain, OpenSession, Outcome, Proof, Rejection, Release, ReleaseAll, Renew, RenewAll, Revoke,
    Span, Target, Wait,
};

use super::directory::{Collect, ListNames, StopCollecting};
use super::fence::CheckToken;
use super::mailbox::Told;
use super::operator::{CountNamespaces, ListHoldings, ListSessions, ReadMaintenance};
use super::read::{
    Found, ListLeases, ListLocks, Look, Probe, Read, ReadLease, ReadLeases, ReadLock, ReadLocks,
    ReadSession, each_read,
};
use super::undelivered::Undelivered;
use super::waited::queued;
use super::watch::WatchLease;

/// A request to the engine.
pub trait Ask: Sized {
    /// The type of the answer.
    type Answer;

    /// Converts the request to the type that the queue stores.
    #[doc(hidden)]
    fn into_question(self) -> Question;

    /// Converts the reply back to the type of this request's answer. Returns `None` if it is a reply to another type of
    /// request.
    #[doc(hidden)]
    fn answer_in(told: Told) -> Option<Self::Answer>;
}

/// A request of any type.
#[derive(Debug)]
pub enum Question {
    /// A command to apply.
    Apply(Command),
    /// A read.
    Read(Read),
}

impl Question {
    /// Returns whether the request acquires something that its client does not have yet. Renewals and releases do not.
    pub(super) fn takes_more(&self) -> bool {
        matches!(
            self,
            Question::Apply(Command::Acquire(_) | Command::AcquireAll(_) | Command::OpenSession(_))
        )
    }
}

impl Question {
    /// Returns whether the change must be in the audit file: it acquires a lock, takes one from another client, or is
    /// an operator's. Renewals and releases are allowed even if the audit file cannot be written. A lock that cannot be
    /// released would help no client, and its end is audited later.
    pub(super) fn must_be_told(&self) -> bool {
        match self {
            Question::Read(_) => false,
            Question::Apply(command) => match command {
                Command::Renew(_)
                | Command::RenewAll(_)
                | Command::KeepSession(_)
                | Command::Amend(_)
                | Command::Confirm(_)
                | Command::Release(_)
                | Command::ReleaseAll(_)
                | Command::CloseSession(_)
                | Command::Cancel(_)
                | Command::GiveUp(_) => false,
                // A client can revoke its own lease, by number.
                Command::Revoke(Revoke { target: Target::Lease(proof, _), .. }) => {
                    !matches!(proof, Proof::Number { principal: Some(_), .. })
                }
                _ => true,
            },
        }
    }
}

/// A reply of any type.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// The result of a command.
    Applied(Result<Outcome, Rejection>),
    /// The wait ended without a grant.
    WaitOver {
        /// The index in the request of the first lock that is not available.
        n: usize,
        /// The current state of that lock.
        view: Box<LockView>,
    },
    /// The result of a read.
    Found(Found),
}

/// Acquires a lock, or fails immediately if the lock is held.
#[derive(Clone, Debug)]
pub struct Take(pub Acquire);

/// Acquires locks and shares of the paths around them: all or none, without waiting.
#[derive(Clone, Debug)]
pub struct TakeAll {
    /// The requested locks. A caller that can acquire them can also acquire the surrounding locks.
    pub of: Vec<LockKey>,
    /// All locks to acquire: the requested and the surrounding ones.
    pub acquire: AcquireAll,
}

/// Leases that the caller of [`TakeAll`] now holds.
#[derive(Debug)]
pub struct GrantedAll {
    /// The grants, in the order of the request.
    pub grants: Vec<Grant>,
    /// Releases the leases unless the response is delivered.
    pub undelivered: Option<Undelivered>,
}

/// Acquires a lock, or waits for it while the connection is open.
#[derive(Clone, Debug)]
pub struct WaitFor {
    /// The lock and the terms of the lease.
    pub acquire: Acquire,
    /// Maximum wait. Zero is the same as [`Take`].
    pub wait: Span,
}

/// A lease that the caller now holds.
#[derive(Debug)]
pub struct Granted {
    /// The lease, and whether it is new or renewed.
    pub grant: Box<Grant>,
    /// Releases the lease unless the response is delivered. `None` if the owner might know of the lease already.
    pub undelivered: Option<Undelivered>,
}

impl Granted {
    /// Returns the grant and marks it as delivered, for callers that send no response.
    pub fn deliver(self) -> Box<Grant> {
        if let Some(undelivered) = self.undelivered {
            undelivered.delivered();
        }
        self.grant
    }
}

/// The result of a wait.
#[derive(Debug)]
pub enum Waited {
    /// The lease is active.
    Granted(Granted),
    /// The wait ended without a grant. Contains the current state of the lock.
    Over(Box<LockView>),
}

/// Acquires several locks, all or none, or waits for all of them while the connection is open.
#[derive(Clone, Debug)]
pub struct WaitForAll {
    /// The locks and the terms of the leases.
    pub acquire: AcquireAll,
    /// Maximum wait. If it is zero, the request fails immediately.
    pub wait: Span,
}

/// The result of a wait for several locks.
#[derive(Debug)]
pub enum WaitedAll {
    /// All the leases are active.
    Granted {
        /// The grants, in the order of the request.
        grants: Vec<Grant>,
        /// Releases the leases unless the response is delivered. `None` if the owner might know of the leases already.
        undelivered: Option<Undelivered>,
    },
    /// The wait ended without a grant.
    Over {
        /// The index in the request of the first lock that is not available.
        n: usize,
        /// The current state of that lock.
        view: Box<LockView>,
    },
}

/// Acquires a lock, or queues for it even without an open connection.
#[derive(Clone, Debug)]
pub struct Enqueue {
    /// The lock and the terms of the lease.
    pub acquire: Acquire,
    /// Maximum wait.
    pub wait: Span,
}

/// The result of [`Enqueue`].
#[derive(Debug)]
pub enum Enqueued {
    /// The lease is active.
    Granted(Granted),
    /// The lease is in the queue.
    Queued(LeaseNumber),
}

impl Ask for Take {
    type Answer = Result<Granted, Rejection>;

    #[inline]
    fn into_question(self) -> Question {
        acquire(self.0, Wait::No)
    }

    #[inline]
    fn answer_in(Told { reply, undelivered }: Told) -> Option<Self::Answer> {
        match reply {
            Reply::Applied(Ok(Outcome::Acquire(Acquired::Granted(grant)))) => {
                Some(Ok(Granted { grant, undelivered }))
            }
            Reply::Applied(Err(rejection)) => Some(Err(rejection)),
            _ => None,
        }
    }
}

impl Ask for TakeAll {
    type Answer = Result<GrantedAll, Rejection>;

    #[inline]
    fn into_question(self) -> Question {
        let AcquireAll { first, others } = self.acquire;
        Question::Apply(AcquireAll { first: Acquire { wait: Wait::No, ..first }, others }.into())
    }

    #[inline]
    fn answer_in(Told { reply, undelivered }: Told) -> Option<Self::Answer> {
        match reply {
            Reply::Applied(Ok(Outcome::AcquireAll(AcquiredAll::Granted(grants)))) => {
                Some(Ok(GrantedAll { grants, undelivered }))
            }
            Reply::Applied(Err(rejection)) => Some(Err(rejection)),
            _ => None,
        }
    }
}

impl Ask for WaitFor {
    type Answer = Result<Waited, Rejection>;

    #[inline]
    fn into_question(self) -> Question {
        let wait = if self.wait == Span::ZERO { Wait::No } else { Wait::Connected(self.wait) };
        acquire(self.acquire, wait)
    }

    #[inline]
    fn answer_in(told: Told) -> Option<Self::Answer> {
        match told.reply {
            Reply::WaitOver { view, .. } => Some(Ok(Waited::Over(view))),
            _ => Take::answer_in(told).map(|taken| taken.map(Waited::Granted)),
        }
    }
}

impl Ask for WaitForAll {
    type Answer = Result<WaitedAll, Rejection>;

    #[inline]
    fn into_question(self) -> Question {
        let Self { acquire: AcquireAll { first, others }, wait } = self;
        let wait = if wait == Span::ZERO { Wait::No } else { Wait::Connected(wait) };
        Question::Apply(AcquireAll { first: Acquire { wait, ..first }, others }.into())
    }

    #[inline]
    fn answer_in(Told { reply, undelivered }: Told) -> Option<Self::Answer> {
        match reply {
            Reply::WaitOver { n, view } => Some(Ok(WaitedAll::Over { n, view })),
            Reply::Applied(Ok(Outcome::AcquireAll(AcquiredAll::Granted(grants)))) => {
                Some(Ok(WaitedAll::Granted { grants, undelivered }))
            }
            Reply::Applied(Err(rejection)) => Some(Err(rejection)),
            _ => None,
        }
    }
}

impl Ask for Enqueue {
    type Answer = Result<Enqueued, Rejection>;

    #[inline]
    fn into_question(self) -> Question {
        acquire(self.acquire, Wait::Unattended(self.wait))
    }

    #[inline]
    fn answer_in(told: Told) -> Option<Self::Answer> {
        match told.reply {
            Reply::Applied(Ok(Outcome::Acquire(Acquired::Queued(lease)))) => {
                Some(Ok(Enqueued::Queued(lease)))
            }
            _ => Take::answer_in(told).map(|taken| taken.map(Enqueued::Granted)),
        }
    }
}

#[inline]
fn acquire(acquire: Acquire, wait: Wait) -> Question {
    Question::Apply(Acquire { wait, ..acquire }.into())
}

fn applied<A: leasehold_core::Ask>(reply: Reply) -> Option<Result<A::Answer, Rejection>> {
    match reply {
        Reply::Applied(Ok(outcome)) => A::answer_in(outcome).map(Ok),
        Reply::Applied(Err(rejection)) => Some(Err(rejection)),
        _ => None,
    }
}

/// The commands whose answer is the core's result without conversion.
macro_rules! commands {
    ($($name:ident),* $(,)?) => {$(
        impl Ask for $name {
            type Answer = Result<<$name as leasehold_core::Ask>::Answer, Rejection>;

            #[inline]
            fn into_question(self) -> Question {
                Question::Apply(self.into_command())
            }

            #[inline]
            fn answer_in(told: Told) -> Option<Self::Answer> {
                applied::<$name>(told.reply)
            }
        }
    )*};
}

commands!(
    Renew,
    RenewAll,
    Release,
    ReleaseAll,
    Cancel,
    GiveUp,
    Revoke,
    Amend,
    Confirm,
    OpenSession,
    KeepSession,
    CloseSession,
    Maintain,
    EndSession
);

macro_rules! reads {
    ($($name:ident),* $(,)?) => {$(
        impl Ask for $name {
            type Answer = <$name as Look>::Found;

            #[inline]
            fn into_question(self) -> Question {
                Question::Read(Read::$name(self))
            }

            #[inline]
            fn answer_in(told: Told) -> Option<Self::Answer> {
                match told.reply {
                    Reply::Found(Found::$name(found)) => Some(found),
                    _ => None,
                }
            }
        }
    )*};
}

each_read!(reads);

impl Reply {
    /// Returns whether the request succeeded; `None` if the result is still open.
    pub(super) fn is_success(&self) -> Option<bool> {
        match self {
            Reply::Applied(outcome) if queued(outcome).is_some() => None,
            Reply::Applied(Ok(Outcome::ReleaseAll(each))) => Some(each.iter().any(Result::is_ok)),
            Reply::Applied(outcome) => Some(outcome.is_ok()),
            Reply::WaitOver { .. } | Reply::Found(_) => Some(false),
        }
    }

    /// Returns the lease that this reply grants for the first time. If there are several, returns the first.
    pub(super) fn new_grant(&self) -> Option<LeaseNumber> {
        let grant = match self {
            Reply::Applied(Ok(Outcome::AcquireAll(AcquiredAll::Granted(grants)))) => grants.first(),
            Reply::Applied(Ok(Outcome::Acquire(Acquired::Granted(grant)))) => Some(&**grant),
            _ => None,
        };
        grant.filter(|grant| grant.kind == GrantKind::New).map(|grant| grant.lease.id.number)
    }
}
