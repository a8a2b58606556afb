//! What is said to the engine, and what it says.

use std::fmt;
use std::time::Instant;

use super::mailbox::Return;
use crate::metrics::Op;
use leasehold_core::{
    Command, Dialect, LeaseNumber, LeaseRecord, LockKey, LockView, Outcome, Rejection,
    SessionDigest, SessionRecord,
};

/// One request on its way.
pub(super) struct Ask {
    pub(super) question: Question,
    pub(super) ticket: Ticket,
    pub(super) reply: Return,
    pub(super) sent_at: Instant,
}

/// Tells requests apart while they wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Ticket(pub(super) u64);

pub(super) enum Question {
    Apply(Command),
    Read(Read),
    /// Could something be made durable right now?
    Probe,
}

impl Op {
    /// Which operation a question counts as.
    pub(super) fn of(question: &Question) -> Option<Self> {
        match question {
            Question::Apply(command) => Op::of_command(command),
            Question::Read(_) | Question::Probe => None,
        }
    }
}

/// A question that changes nothing, except that what has fallen due is written down first.
#[derive(Clone, Debug)]
pub enum Read {
    /// One lock.
    Lock {
        /// Which.
        key: LockKey,
        /// How much of its queue.
        n_queue_max: usize,
    },
    /// Some of the locks.
    Locks(Filter),
    /// A session of a dialect, by its secret.
    Session(SessionDigest, Dialect),
    /// One lease of a dialect, by number.
    Lease(LeaseNumber, Dialect),
    /// Some of the leases of a dialect, from this place on.
    Leases(Dialect, usize),
}

/// Which locks to list.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Of this namespace.
    pub namespace: Box<str>,
    /// Whose name begins so.
    pub prefix: Box<str>,
    /// That this owner (its instance) has or waits for.
    pub owner: Option<Box<str>>,
    /// In this standing.
    pub standing: Option<Standing>,
    /// Most to return.
    pub n_max: usize,
    /// Where to go on.
    pub from: usize,
}

/// How a lock stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Somebody has it.
    Held,
    /// Somebody waits for it.
    Waiting,
    /// Nobody has it.
    Free,
}

/// Some of the locks.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// These.
    pub locks: Vec<(LockKey, LockView)>,
    /// Where to go on. There may be more even if there was nothing on this page.
    pub next: Option<usize>,
}

/// What the engine says.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A command's outcome.
    Applied(Result<Outcome, Rejection>),
    /// The wait is over without a grant; the lock as it is now.
    WaitOver(Box<LockView>),
    /// A lock.
    Lock(Box<LockView>),
    /// Some of the locks.
    Locks(Page),
    /// A session, if there is one.
    Session(Option<Box<SessionRecord>>),
    /// A lease, if there is one.
    Lease(Option<Box<LeaseRecord>>),
    /// Some leases, and where to go on.
    Leases(Vec<LeaseRecord>, Option<usize>),
    /// Yes.
    Ready,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Another process holds the database. Nothing was done.
    Busy,
    /// Too many requests wait already. Nothing was done.
    Overloaded,
    /// The server is stopping. Nothing was done.
    Stopping,
    /// It is not known whether it was done: repeat it with the same request id.
    Unknown,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Busy => "another process holds the database; nothing was done",
            Error::Overloaded => "too many requests are waiting; nothing was done",
            Error::Stopping => "the server is stopping; nothing was done",
            Error::Unknown => {
                "it is not known whether this was done; repeat it with the same request_id"
            }
        })
    }
}

impl std::error::Error for Error {}
