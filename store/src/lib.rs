//! What keeps the state: a journal of changes, folded now and then into tables.
//!
//! No type of any particular database appears in this trait, so that another kind of store (one that many
//! machines share) is another implementation and nothing else.

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
mod pulse;
mod reach;
mod record;
#[cfg(feature = "etcd")]
mod row;
mod seat;
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

/// A durable place for records. Its calls block until they are done.
pub trait Store: Send {
    /// The state as of the last record that was acknowledged.
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error>;

    /// Makes sure that a record can be appended, before anything is applied: busy means nothing happened.
    fn reserve(&mut self) -> Result<Permit, Error>;

    /// Makes one record durable. [`Error::Unsettled`]: whether it is will be known by [`Store::settle`], and until then
    /// nothing else may be asked of the store. After any other error the caller must stop.
    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), Error>;

    /// Nothing changed, and nothing has to be appended: is what we know still all there is to know? Busy means that
    /// it cannot be told now.
    fn confirm(&mut self, permit: Permit) -> Result<(), Error>;

    /// What became of the append that was [`Error::Unsettled`]; its outcomes are those of an append.
    fn settle(&mut self) -> Result<(), Error>;

    /// No record may be longer. A batch ends long before.
    fn record_bytes_max(&self) -> usize;

    /// Is it so quick that a thread with other things to do may use it?
    fn is_near(&self) -> bool;

    /// Everything appended is in the tables when this returns. Called once, at the end.
    fn finish(&mut self) -> Result<(), Error>;

    /// How long the journal is.
    fn journal(&self) -> JournalSize;

    /// How long it can go without a confirmation before another process can write in its place; `None` if no other
    /// process can.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// Has it lost something of what was written, so that [`Store::mend`] is to be called after the next append?
    fn is_torn(&self) -> bool {
        false
    }

    /// The state as of the last record, of which some may be lost.
    fn mend(&mut self, _: &Machine) {}

    /// Does another process have to write? Called before every record.
    fn is_dismissed(&self) -> bool {
        false
    }

    /// Why another process has to write.
    fn dismissal(&self) -> Dismissal {
        Dismissal::ByOperator
    }

    /// How it is, from now on. One that folds nothing is always well.
    fn health(&self) -> Arc<Health> {
        Arc::default()
    }
}

/// Why another process has to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dismissal {
    /// An operator asked for it.
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
    /// For stores: from here on a record of this epoch can be appended.
    pub fn granted(epoch: u64) -> Self {
        Self { epoch }
    }

    /// The epoch it was granted in.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// What a store knew.
pub struct Loaded {
    /// The state.
    pub machine: Machine,
    /// When the last record was written.
    pub last: Option<Moment>,
    /// Differs between a store and one restored from its backup.
    pub generation: u64,
    /// Larger than that of every record so far. Embedded: how often the store was opened, this time included.
    pub epoch: u64,
    /// This is the first start from a backup.
    pub is_restored: bool,
    /// The number of the last record.
    pub seq: u64,
    /// What is known of what happened lately, oldest first.
    pub told: Vec<Event>,
}

/// How much of the journal is not in the tables yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalSize {
    /// The number of the last record.
    pub seq: u64,
    /// The number of the last record that is in the tables, and in history.
    pub folded_through: u64,
    /// Records.
    pub n_records: u64,
    /// Bytes of records appended since the start.
    pub n_bytes_written: u64,
}

/// Why a store cannot go on. Each kind asks for something else from whoever gets it.
#[derive(Debug)]
pub enum Error {
    /// Another process holds the database; nothing was done; ask again.
    Busy,
    /// What is there cannot be used, and is left as it is: damaged, foreign, or from a newer version.
    Refused(String),
    /// It is not known whether the record is durable. Only a restart can tell.
    Unknown(String),
    /// It is not known yet whether the record is durable. [`Store::settle`] will tell.
    Unsettled(String),
    /// Somebody else has taken over: nothing of ours will be durable any more, and what we know may be out of date.
    Fenced(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("another process holds the database"),
            Error::Refused(why) => f.write_str(why),
            Error::Unknown(why) => write!(f, "it is not known what reached the disk: {why}"),
            Error::Unsettled(why) => write!(f, "it is not known yet what is durable: {why}"),
            Error::Fenced(why) => write!(f, "another server has taken over: {why}"),
        }
    }
}

impl std::error::Error for Error {}
