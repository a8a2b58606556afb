//! What keeps the state: a journal of changes, folded now and then into tables.
//!
//! No type of any particular database appears in this trait, so that another kind of store (one that many
//! machines share) is another implementation and nothing else.

mod change;
mod codec;
pub mod memory;
mod record;
pub mod sqlite;

use std::fmt;

use leasehold_core::{Change, Limits, Machine};

pub use record::Record;

use crate::clock::Moment;

/// A durable place for records.
pub trait Store: Send {
    /// The state as of the last record that was acknowledged.
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error>;

    /// Makes sure that a record can be appended, before anything is applied: busy means nothing happened.
    fn reserve(&mut self) -> Result<Permit, Error>;

    /// Makes one record durable. An error leaves it unknown whether it is: the caller must stop.
    fn append(&mut self, permit: Permit, moment: Moment, changes: &[Change]) -> Result<(), Error>;

    /// There was nothing to append.
    fn give_back(&mut self, permit: Permit) -> Result<(), Error>;

    /// Everything appended is in the tables when this returns. Called once, at the end.
    fn finish(&mut self) -> Result<(), Error>;

    /// How long the journal is.
    fn journal(&self) -> JournalSize;
}

/// The right to append one record.
#[must_use = "a permit is used or given back"]
pub struct Permit(());

impl Permit {
    /// For stores: from here on a record can be appended.
    pub fn granted() -> Self {
        Self(())
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
    /// How often this store was opened, this time included.
    pub n_starts: u64,
    /// This is the first start from a backup.
    pub is_restored: bool,
}

/// How much of the journal is not in the tables yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalSize {
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
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Busy => f.write_str("another process holds the database"),
            Error::Refused(why) => f.write_str(why),
            Error::Unknown(why) => write!(f, "it is not known what reached the disk: {why}"),
        }
    }
}

impl std::error::Error for Error {}
