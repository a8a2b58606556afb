//! The effects of a command. All state changes, in memory and in the journal, are expressed as these.
//!
//! A machine that absorbs the changes of another machine, in order, reaches the same state. A change records a result
//! and leaves nothing to decide, so that later versions of the rules never reinterpret an old journal.

use std::sync::Arc;

use crate::asker::Asker;
use crate::lease::{Ending, LeaseNumber, LeaseRecord};
use crate::name::LockKey;
use crate::request::{Operation, Request};
use crate::session::{SessionNumber, SessionRecord};
use crate::time::{Span, Timestamp};
use crate::token::Token;

/// One state change.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "fields are named as in the records they change")]
pub enum Change {
    /// A lease was added, active or waiting.
    LeaseAdded(Box<LeaseRecord>),
    /// A waiting lease was granted its lock.
    Granted { lease: LeaseNumber, token: Token, at: Timestamp, deadline: Timestamp },
    /// The deadline of an active lease moved.
    Renewed { lease: LeaseNumber, at: Timestamp, deadline: Timestamp, request: Option<Request> },
    /// The TTL of later grants of a lease changed.
    Amended { lease: LeaseNumber, ttl: Option<Span> },
    /// A waiter's client disconnected. Its position in the queue is kept until the deadline.
    Parked { lease: LeaseNumber, deadline: Timestamp },
    /// A waiter's client came back, or changed the length of its wait.
    Attached { lease: LeaseNumber, deadline: Timestamp },
    /// A lease ended. `kept` means that it can still be looked up.
    Ended {
        lease: LeaseNumber,
        how: Ending,
        at: Timestamp,
        kept: bool,
        request: Option<Request>,
        reason: Option<Arc<str>>,
    },
    /// The id of an older request was forgotten, to make space for a newer one.
    RequestForgotten { lease: LeaseNumber, operation: Operation, id: Box<str> },
    /// An ended lease was forgotten and can no longer be looked up.
    LeaseForgotten { lease: LeaseNumber },
    /// The last owner ended its grace period early.
    GraceForgone { lock: LockKey },
    /// An unused lock was forgotten. The namespace's token floor preserves its last token.
    LockForgotten { lock: LockKey },
    /// A session was opened.
    SessionOpened(Box<SessionRecord>),
    /// The deadline of a session moved.
    SessionKept { session: SessionNumber, deadline: Timestamp },
    /// A session ended. Its leases end one by one.
    SessionEnded { session: SessionNumber, how: Ending, at: Timestamp },
    /// The last lease of an ended session ended, and the session was forgotten.
    SessionForgotten { session: SessionNumber },
    /// A restore removed all leases, sessions and locks. Tokens and numbers continue `raise` higher.
    Restored { raise: u64 },
    /// A namespace without locks was forgotten. The token floor of unknown namespaces preserves its tokens.
    NamespaceForgotten { namespace: Arc<str> },
    /// Maintenance mode was turned on or off.
    Maintenance { on: bool },
    /// Changes no state. Names the caller of the next `n_changes` changes.
    Asked { asker: Arc<Asker>, n_changes: u32 },
    /// Changes no state. Records an observation about a lease.
    Noted { lease: LeaseNumber, what: Note, at: Timestamp, reason: Option<Arc<str>> },
}

/// An observation about a lease that changes no state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// The lease has been held for long.
    HeldLong,
    /// The lease has waited for long.
    WaitedLong,
    /// The lease seems to be part of a deadlock: its owner waits, perhaps through others, for itself.
    DeadlockSuspected,
}
