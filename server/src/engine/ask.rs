//! What can be asked of the engine. Each question knows the type of its answer.
//!
//! Only between the handle and the writer are the types forgotten, because all questions wait in one line: [`Question`]
//! and [`Reply`]. What forgets a type and what remembers it stand side by side here, and nowhere else.

use leasehold_core::{
    Acquire, Acquired, Amend, Ask as _, CloseSession, Command, GiveUp, Grant, KeepSession,
    LockView, OpenSession, Outcome, Rejection, Release, Renew, Revoke, Span, Wait,
};

use super::read::{
    Found, ListLeases, ListLocks, Look, Probe, Read, ReadLease, ReadLeases, ReadLock, ReadSession,
};

/// Something that can be asked of the engine.
pub trait Ask: Sized {
    /// What it is answered.
    type Answer;

    /// The question with its type forgotten.
    #[doc(hidden)]
    fn into_question(self) -> Question;

    /// The answer, the type of which was forgotten. `None`: that is an answer to something else.
    #[doc(hidden)]
    fn answer_in(reply: Reply) -> Option<Self::Answer>;
}

/// Any question.
#[derive(Debug)]
pub enum Question {
    /// To be applied.
    Apply(Command),
    /// To be looked up.
    Read(Read),
}

/// Any answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// What came of a command.
    Applied(Result<Outcome, Rejection>),
    /// The wait is over without a grant; the lock as it is now.
    WaitOver(Box<LockView>),
    /// What was looked up.
    Found(Found),
}

/// Take a lock, or be refused at once.
#[derive(Clone, Debug)]
pub struct Take(pub Acquire);

/// Take a lock, or wait for it as long as the connection is there.
#[derive(Clone, Debug)]
pub struct WaitFor {
    /// What is wanted.
    pub acquire: Acquire,
    /// Longest wait; with none it is [`Take`].
    pub wait: Span,
}

/// What became of a wait.
#[derive(Clone, Debug)]
pub enum Waited {
    /// The lease is active.
    Granted(Box<Grant>),
    /// The wait is over without a grant; the lock as it is now.
    Over(Box<LockView>),
}

/// Take a lock, or queue for it whether or not anybody is there.
#[derive(Clone, Debug)]
pub struct Enqueue {
    /// What is wanted.
    pub acquire: Acquire,
    /// Longest wait.
    pub wait: Span,
}

impl Ask for Take {
    type Answer = Result<Box<Grant>, Rejection>;

    fn into_question(self) -> Question {
        acquire(self.0, Wait::No)
    }

    fn answer_in(reply: Reply) -> Option<Self::Answer> {
        match reply {
            Reply::Applied(Ok(Outcome::Acquire(Acquired::Granted(grant)))) => Some(Ok(grant)),
            Reply::Applied(Err(rejection)) => Some(Err(rejection)),
            _ => None,
        }
    }
}

impl Ask for WaitFor {
    type Answer = Result<Waited, Rejection>;

    fn into_question(self) -> Question {
        let wait = if self.wait == Span::ZERO { Wait::No } else { Wait::Connected(self.wait) };
        acquire(self.acquire, wait)
    }

    fn answer_in(reply: Reply) -> Option<Self::Answer> {
        match reply {
            Reply::WaitOver(view) => Some(Ok(Waited::Over(view))),
            other => Take::answer_in(other).map(|taken| taken.map(Waited::Granted)),
        }
    }
}

impl Ask for Enqueue {
    type Answer = Result<Acquired, Rejection>;

    fn into_question(self) -> Question {
        acquire(self.acquire, Wait::Unattended(self.wait))
    }

    fn answer_in(reply: Reply) -> Option<Self::Answer> {
        applied::<Acquire>(reply)
    }
}

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

            fn into_question(self) -> Question {
                Question::Apply(self.into_command())
            }

            fn answer_in(reply: Reply) -> Option<Self::Answer> {
                applied::<$name>(reply)
            }
        }
    )*};
}

commands!(Renew, Release, GiveUp, Revoke, Amend, OpenSession, KeepSession, CloseSession);

macro_rules! reads {
    ($($name:ident),* $(,)?) => {$(
        impl Ask for $name {
            type Answer = <$name as Look>::Found;

            fn into_question(self) -> Question {
                Question::Read(Read::$name(self))
            }

            fn answer_in(reply: Reply) -> Option<Self::Answer> {
                match reply {
                    Reply::Found(Found::$name(found)) => Some(found),
                    _ => None,
                }
            }
        }
    )*};
}

reads!(ReadLock, ListLocks, ReadSession, ReadLease, ReadLeases, ListLeases, Probe);

impl Reply {
    /// Did it achieve what was asked? `None`: that is not known yet.
    pub(super) fn is_success(&self) -> Option<bool> {
        match self {
            Reply::Applied(Ok(Outcome::Acquire(Acquired::Queued(_)))) => None,
            Reply::Applied(outcome) => Some(outcome.is_ok()),
            Reply::WaitOver(_) | Reply::Found(_) => Some(false),
        }
    }

    /// A lease that was granted.
    pub(super) fn grant(&self) -> Option<&Grant> {
        match self {
            Reply::Applied(Ok(Outcome::Acquire(Acquired::Granted(grant)))) => Some(grant),
            _ => None,
        }
    }
}
