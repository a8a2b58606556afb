//! The traits of a system that keeps a shared store, such as etcd. They name the parts of the store by their role. How
//! leadership, following, snapshots, operator requests and transfers work is implemented above these traits, once.
//!
//! Each call makes one attempt, unless its documentation says otherwise. After an error it is unknown whether the call
//! took effect.

mod journal;
mod leadership;
mod lifecycle;
mod servers;
mod snapshots;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use journal::{Journal, Look, Records, Write};
pub use leadership::{LeaderEntry, Leadership, Lease};
pub use lifecycle::{Contents, Lifecycle, Reopened, Replaced};
pub use servers::{Entries, NodeEntry, NodePut, Requests, Servers};
pub use snapshots::{Census, SnapshotChunks, Versioned};

use crate::status::Member;
use crate::{Error, Health, Place};

/// A system that keeps a shared store. Calls block, and must not be made on a thread that runs tokio tasks.
pub trait Backend:
    Leadership + Journal + SnapshotChunks + Servers + Lifecycle + Send + Sync
{
    /// Returns the name of the system, for messages: `etcd`.
    fn system(&self) -> &str;

    /// Returns where in the system the store is, for messages.
    fn location(&self) -> &str;

    /// Returns the name by which an operator of the system knows this entry.
    fn name_of(&self, entry: Entry<'_>) -> String;

    /// Returns the command that deletes one entry, or the whole store.
    fn deletion(&self, entry: Option<Entry<'_>>) -> String;

    /// Returns how many attempts in a row reach each member of the system.
    fn n_tries(&self) -> usize;

    /// Waits until the leader or the end of the journal might have changed since the last call, but at most for
    /// `patience`. Callers must not rely on it: a change can go unnoticed.
    fn wait(&self, patience: Duration);

    /// Returns the members of the system, including those that do not respond.
    fn members(&self) -> Vec<Member> {
        Vec::new()
    }

    /// Returns in words whether each member can serve requests, to explain an error.
    fn describe_members(&self) -> Vec<String> {
        Vec::new()
    }

    /// Removes what the system keeps of earlier values, if that is due. Called by the leader several times in `every`.
    fn tend(&self, _every: Duration) -> Result<(), BackendFailure> {
        Ok(())
    }

    /// Starts to publish how much space is left, until the returned value is dropped. Returns `None` if the space is
    /// not limited.
    fn watch_space(&self, _: Watching, _: Arc<Health>) -> Result<Option<SpaceWatcher>, Error> {
        Ok(None)
    }
}

/// Watches the space that is left until it is dropped.
pub type SpaceWatcher = Box<dyn Send>;

/// How the space that is left is monitored.
#[derive(Clone, Copy, Debug)]
pub struct Watching {
    /// The quota of a member in bytes, for systems that do not report it.
    pub quota: u64,
    /// How often the space is checked.
    pub every: Duration,
}

impl Default for Watching {
    fn default() -> Self {
        Self { quota: 2 << 30, every: Duration::from_secs(5) }
    }
}

/// An entry of a store that has a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry<'a> {
    /// Identifies the store.
    Id,
    /// The position of the last record.
    Head,
    /// The leader. It exists while the leader's lease lasts.
    Leader,
    /// Describes the current snapshot.
    Manifest,
    /// Exists once a server has noticed that the store was rolled back. While it exists, no server may lead.
    Rewound,
    /// Exists once the store has moved elsewhere. While it exists, no server may lead.
    Closed,
    /// A server of this name. It exists while that server runs.
    Node(&'a str),
}

/// The position of the last record, and the version of the store in which it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadEntry {
    /// The last record.
    pub place: Place,
    /// The version of the store.
    pub at: i64,
}

/// The head of the journal, if there is one. The error states what is wrong with it.
pub type FoundHead = Result<Option<HeadEntry>, String>;

/// A failed call. It might have taken effect anyway, unless the kind excludes it.
#[derive(Clone, Debug)]
pub struct BackendFailure {
    /// The kind of failure.
    pub kind: FailureKind,
    why: Box<str>,
}

/// Failures that callers have to handle differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureKind {
    /// No response, or one that does not tell whether the call took effect.
    Unknown,
    /// The system has no space left for writes.
    NoSpace,
    /// The lease does not exist or has ended. The call had no effect.
    LeaseGone,
}

impl BackendFailure {
    /// Creates a failure, for backends.
    pub fn new(kind: FailureKind, why: impl Into<Box<str>>) -> Self {
        Self { kind, why: why.into() }
    }

    /// Returns the error for a caller that does not repeat the call.
    pub fn refused(self) -> Error {
        Error::Refused(self.why.into())
    }
}

impl fmt::Display for BackendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for BackendFailure {}
