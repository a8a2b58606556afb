//! What a command did: the only language in which state changes, in memory and in the journal.
//!
//! A machine that absorbs the changes of another, in order, is in the same state. A change says what
//! happened and leaves nothing to decide, so that later rules never reinterpret an old journal.

use std::sync::Arc;

use crate::asker::Asker;
use crate::lease::{Ending, LeaseNumber, LeaseRecord};
use crate::name::LockKey;
use crate::request::{Operation, Request};
use crate::session::{SessionNumber, SessionRecord};
use crate::time::{Span, Timestamp};
use crate::token::Token;

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "fields are named as in the records they change")]
pub enum Change {
    /// A lease came to be, active or waiting.
    LeaseAdded(Box<LeaseRecord>),
    /// A waiting lease became active.
    Granted { lease: LeaseNumber, token: Token, at: Timestamp, deadline: Timestamp },
    /// An active lease's deadline moved.
    Renewed { lease: LeaseNumber, at: Timestamp, deadline: Timestamp, request: Option<Request> },
    /// What a later grant lasts was changed.
    Amended { lease: LeaseNumber, ttl: Option<Span> },
    /// A waiter's client went away; its place is kept until the deadline.
    Parked { lease: LeaseNumber, deadline: Timestamp },
    /// A waiter's client came back, or asked to wait longer or shorter.
    Attached { lease: LeaseNumber, deadline: Timestamp },
    /// A lease is over. `kept`: it can still be looked up.
    Ended {
        lease: LeaseNumber,
        how: Ending,
        at: Timestamp,
        kept: bool,
        request: Option<Request>,
        reason: Option<Arc<str>>,
    },
    /// A remembered request made room for a newer one.
    RequestForgotten { lease: LeaseNumber, operation: Operation, id: Box<str> },
    /// An ended lease can no longer be looked up.
    LeaseForgotten { lease: LeaseNumber },
    /// The last owner gave its grace period up.
    GraceForgone { lock: LockKey },
    /// A lock nobody uses is no longer remembered by name: its token is in the namespace's floor.
    LockForgotten { lock: LockKey },
    /// A session began.
    SessionOpened(Box<SessionRecord>),
    /// A session's deadline moved.
    SessionKept { session: SessionNumber, deadline: Timestamp },
    /// A session is over; its leases end one by one.
    SessionEnded { session: SessionNumber, how: Ending, at: Timestamp },
    /// The last lease of an ended session is gone, and with it the session.
    SessionForgotten { session: SessionNumber },
    /// All leases, sessions and locks are gone; tokens and numbers go on `raise` further up.
    Restored { raise: u64 },
    /// A namespace without locks is no longer remembered: its tokens are in the floor of all unknown ones.
    NamespaceForgotten { namespace: Arc<str> },
    /// Maintenance began or is over.
    Maintenance { on: bool },
    /// Changes nothing: who asked for this many changes that follow.
    Asked { asker: Arc<Asker>, n_changes: u32 },
    /// Changes nothing: something about a lease that is worth writing down.
    Noted { lease: LeaseNumber, what: Note, at: Timestamp, reason: Option<Arc<str>> },
}

/// What can be worth writing down of a lease beside what happens to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Note {
    /// It has been held for long.
    HeldLong,
    /// It has waited for long.
    WaitedLong,
    /// It seems to wait for somebody who waits for its owner.
    DeadlockSuspected,
}
