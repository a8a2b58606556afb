//! What can be asked of the engine. Each question knows the type of its answer.
//!
//! Only between the handle and the writer are the types forgotten, because all questions wait in one line: [`Question`]
//! and [`Reply`]. What forgets a type and what remembers it stand side by side here, and nowhere else.

use leasehold_core::{
    Acquire, AcquireAll, Acquired, AcquiredAll, Amend, Ask as _, Cancel, CloseSession, Command,
    Confirm, EndSession, GiveUp, Grant, GrantKind, KeepSession, LeaseNumber, LockKey, LockView,
    Maintain, OpenSession, Outcome, Proof, Rejection, Release, ReleaseAll, Renew, RenewAll, Revoke,
    Span, Target, Wait,
};

use super::holders::{CheckToken, ReadLocks};
use super::mailbox::Told;
use super::operator::{CountNamespaces, ListHoldings, ListSessions, ReadMaintenance};
use super::read::{
    Found, ListLeases, ListLocks, Look, Probe, Read, ReadLease, ReadLeases, ReadLock, ReadSession,
    each_read,
};
use super::survey::Survey;
use super::undelivered::Undelivered;
use super::waited::queued;
use super::watch::WatchLease;

/// Something that can be asked of the engine.
pub trait Ask: Sized {
    /// What it is answered.
    type Answer;

    /// The question with its type forgotten.
    #[doc(hidden)]
    fn into_question(self) -> Question;

    /// The answer, the type of which was forgotten. `None`: that is an answer to something else.
    #[doc(hidden)]
    fn answer_in(told: Told) -> Option<Self::Answer>;
}

/// Any question.
#[derive(Debug)]
pub enum Question {
    /// To be applied.
    Apply(Command),
    /// To be looked up.
    Read(Read),
}

impl Question {
    /// Whether it asks for something it does not have yet. Whoever has something may keep it and give it back.
    pub(super) fn takes_more(&self) -> bool {
        matches!(
            self,
            Question::Apply(Command::Acquire(_) | Command::AcquireAll(_) | Command::OpenSession(_))
        )
    }
}

impl Question {
    /// Whether it takes something, or takes it from others, or is an operator's. Whoever has something may keep it and
    /// give it back, also where nobody can write that down yet: a lock that cannot be released helps nobody, and its
    /// end is told later.
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
                // One's own, by its number.
                Command::Revoke(Revoke { target: Target::Lease(proof, _), .. }) => {
                    !matches!(proof, Proof::Number { principal: Some(_), .. })
                }
                _ => true,
            },
        }
    }
}

/// Any answer.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// What came of a command.
    Applied(Result<Outcome, Rejection>),
    /// The wait is over without a grant.
    WaitOver {
        /// The place in the request of the first lock that is in the way.
        n: usize,
        /// That lock as it is now.
        view: Box<LockView>,
    },
    /// What was looked up.
    Found(Found),
}

/// Take a lock, or be refused at once.
#[derive(Clone, Debug)]
pub struct Take(pub Acquire);

/// Take a lock and those around it, all or none, or be refused at once.
#[derive(Clone, Debug)]
pub struct TakeAll {
    /// What it is all about: whoever may have these may have those around them.
    pub of: Vec<LockKey>,
    /// What is wanted.
    pub acquire: AcquireAll,
}

/// Leases that whoever asked has now.
#[derive(Debug)]
pub struct GrantedAll {
    /// In the order of the request.
    pub grants: Vec<Grant>,
    /// To go with the answer.
    pub undelivered: Option<Undelivered>,
}

/// Take a lock, or wait for it as long as the connection is there.
#[derive(Clone, Debug)]
pub struct WaitFor {
    /// What is wanted.
    pub acquire: Acquire,
    /// Longest wait; with none it is [`Take`].
    pub wait: Span,
}

/// A lease that whoever asked has now.
#[derive(Debug)]
pub struct Granted {
    /// The lease, and how it came about.
    pub grant: Box<Grant>,
    /// To go with the answer; `None` if its owner may know of the lease already.
    pub undelivered: Option<Undelivered>,
}

impl Granted {
    /// The grant, for whoever has no answer to send before it is theirs.
    pub fn deliver(self) -> Box<Grant> {
        if let Some(undelivered) = self.undelivered {
            undelivered.delivered();
        }
        self.grant
    }
}

/// What became of a wait.
#[derive(Debug)]
pub enum Waited {
    /// The lease is active.
    Granted(Granted),
    /// The wait is over without a grant; the lock as it is now.
    Over(Box<LockView>),
}

/// Take several locks or none, or wait for all of them as long as the connection is there.
#[derive(Clone, Debug)]
pub struct WaitForAll {
    /// What is wanted.
    pub acquire: AcquireAll,
    /// Longest wait; with none it is refused at once.
    pub wait: Span,
}

/// What became of a wait for several locks.
#[derive(Debug)]
pub enum WaitedAll {
    /// All the leases are active.
    Granted {
        /// In the order of the request.
        grants: Vec<Grant>,
        /// To go with the answer; `None` if their owner may know of the leases already.
        undelivered: Option<Undelivered>,
    },
    /// The wait is over without a grant.
    Over {
        /// The place in the request of the first lock that is in the way.
        n: usize,
        /// That lock as it is now.
        view: Box<LockView>,
    },
}

/// Take a lock, or queue for it whether or not anybody is there.
#[derive(Clone, Debug)]
pub struct Enqueue {
    /// What is wanted.
    pub acquire: Acquire,
    /// Longest wait.
    pub wait: Span,
}

/// What became of a lease that nobody needs to wait for.
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

/// The commands that are answered as the core answers them.
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
    /// Did it achieve what was asked? `None`: that is not known yet.
    pub(super) fn is_success(&self) -> Option<bool> {
        match self {
            Reply::Applied(outcome) if queued(outcome).is_some() => None,
            Reply::Applied(Ok(Outcome::ReleaseAll(each))) => Some(each.iter().any(Result::is_ok)),
            Reply::Applied(outcome) => Some(outcome.is_ok()),
            Reply::WaitOver { .. } | Reply::Found(_) => Some(false),
        }
    }

    /// A lease that was granted by this and by nothing before, the first if there are several.
    pub(super) fn new_grant(&self) -> Option<LeaseNumber> {
        let grant = match self {
            Reply::Applied(Ok(Outcome::AcquireAll(AcquiredAll::Granted(grants)))) => grants.first(),
            Reply::Applied(Ok(Outcome::Acquire(Acquired::Granted(grant)))) => Some(&**grant),
            _ => None,
        };
        grant.filter(|grant| grant.kind == GrantKind::New).map(|grant| grant.lease.id.number)
    }
}
