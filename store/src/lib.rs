//! Stores of the lock server's state: a journal of changes, which is folded into tables from time to time.
//!
//! The [`Store`] trait mentions no type of a particular database, so another kind of store only needs another
//! implementation. A store that several machines share is in [`shared`]; the system that keeps it, such as etcd,
//! implements the traits of [`shared::Backend`].

mod chain;
mod change;
mod codec;
#[cfg(feature = "etcd")]
pub mod etcd;
mod event;
mod folder;
mod hash;
mod health;
pub mod history;
pub mod memory;
#[cfg(any(test, feature = "memory-shared"))]
pub mod memory_shared;
mod pulse;
mod reach;
mod record;
mod row;
mod seat;
pub mod shared;
pub mod sqlite;
pub mod status;
mod tag;
mod whole;
mod witness;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_core::{Limits, Machine};

pub use chain::{Broken, Chain, Place};
pub use change::bytes_at_most;
pub use event::{Cursor, Event, EventId};
pub use folder::{NodeFolder, lock_path, user};
pub use hash::Hash;
pub use health::{DiskSpace, Health, Room};
pub use pulse::Pulse;
pub use reach::{Obstacle, Unreached};
pub use record::{Draft, Head, Kind, Record};
pub use seat::Embedded;
pub use seat::{Followed, Leader, News, Peering, Seat, Taken, Told};
pub use whole::Whole;
#[doc(hidden)]
pub use witness::Witness;

/// A durable store of records. Its calls block until they are done.
pub trait Store: Send {
    /// Loads the state as of the last acknowledged record.
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error>;

    /// Makes sure that a record can be appended, before the caller applies anything. After `Busy`, nothing has
    /// happened.
    fn reserve(&mut self) -> Result<Permit, Error>;

    /// Makes one record durable. After [`Error::Unsettled`] the outcome is unknown until [`Store::settle`] determines
    /// it, and the caller must not use the store for anything else. After any other error the caller must stop.
    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), Error>;

    /// Checks that no other process has written anything, for a response that needs no record. `Busy` means that the
    /// check is not possible now.
    fn confirm(&mut self, permit: Permit) -> Result<(), Error>;

    /// Determines the outcome of an append that was [`Error::Unsettled`]. Returns the same results as an append.
    fn settle(&mut self) -> Result<(), Error>;

    /// Returns the maximum size of a record. A batch ends long before that.
    fn record_bytes_max(&self) -> usize;

    /// Returns whether calls are fast enough for a thread that has other work to do.
    fn is_near(&self) -> bool;

    /// Writes everything appended to the tables. Called once, at the end.
    fn finish(&mut self) -> Result<(), Error>;

    /// Returns the size of the journal.
    fn journal(&self) -> JournalSize;

    /// Returns how long the store can go without a confirmation before another process can write in its place. Returns
    /// `None` if no other process can.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// Returns whether written data is missing, so that [`Store::mend`] has to be called after the next append.
    fn is_torn(&self) -> bool {
        false
    }

    /// Provides the state as of the last record, to restore missing data.
    fn mend(&mut self, _: &Machine) {}

    /// Returns whether another process has to take over. Called before every record.
    fn is_dismissed(&self) -> bool {
        false
    }

    /// Returns why another process has to take over.
    fn dismissal(&self) -> Dismissal {
        Dismissal::ByOperator
    }

    /// Returns the health of the store, which is updated continuously. A store that folds nothing is always healthy.
    fn health(&self) -> Arc<Health> {
        Arc::default()
    }
}

/// Why another process has to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dismissal {
    /// An operator requested it.
    ByOperator,
    /// Most of the other servers cannot reach this one. Contains their names.
    Unreached(Vec<String>),
}

impl fmt::Display for Dismissal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dismissal::ByOperator => f.write_str("an operator asked for another leader"),
            Dismissal::Unreached(by) => {
                write!(f, "these servers cannot reach this leader: {}", by.join(", "))
            }
        }
    }
}

/// The right to append one record in one epoch.
#[must_use = "a permit is used or confirmed"]
pub struct Permit {
    epoch: u64,
}

impl Permit {
    /// For stores: grants the right to append a record of this epoch.
    pub fn granted(epoch: u64) -> Self {
        Self { epoch }
    }

    /// Returns the epoch in which the permit was granted.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// The result of loading a store.
pub struct Loaded {
    /// The state.
    pub machine: Machine,
    /// When the last record was written.
    pub last: Option<Moment>,
    /// The generation of the store, which changes when it is restored from a backup.
    pub generation: u64,
    /// An epoch larger than that of every record so far. In an embedded store: how often it was opened, including this
    /// time.
    pub epoch: u64,
    /// Whether this is the first start from a backup.
    pub is_restored: bool,
    /// The number of the last record.
    pub seq: u64,
    /// The latest known events, oldest first.
    pub told: Vec<Event>,
}

/// The size of the journal that is not in the tables yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalSize {
    /// The number of the last record.
    pub seq: u64,
    /// The number of the last record that is in the tables and in the history.
    pub folded_through: u64,
    /// The number of records.
    pub n_records: u64,
    /// The size of the records appended since the start, in bytes.
    pub n_bytes_written: u64,
}

/// Why a store call failed. The caller has to treat each kind differently.
#[derive(Debug)]
pub enum Error {
    /// Another process has locked the database. Nothing was done, and the call can be repeated.
    Busy,
    /// The existing data cannot be used, and is left unchanged: it is damaged, foreign, or from a newer version.
    Refused(String),
    /// It is unknown whether the record is durable. Only a restart can tell.
    Unknown(String),
    /// It is not known yet whether the record is durable. [`Store::settle`] determines it.
    Unsettled(String),
    /// Another server has taken over. Nothing more can be written, and the state in memory might be outdated.
    Fenced(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("another process holds the database"),
            Error::Refused(why) => f.write_str(why),
            Error::Unknown(why) => write!(
                f,
                "cannot tell whether the last write reached the disk: {why}; restart the \
                server to check"
            ),
            Error::Unsettled(why) => write!(f, "cannot tell yet which writes are durable: {why}"),
            Error::Fenced(why) => write!(f, "another server has taken over: {why}"),
        }
    }
}

impl std::error::Error for Error {}
