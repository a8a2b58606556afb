//! The records.

use std::ops::Range;

use super::{BackendFailure, FoundHead, LeaderEntry};
use crate::Place;
use crate::shared::guard::{Guard, Verdict};

/// The records, and guarded writes to them.
pub trait Journal {
    /// Reads at one moment: the records from `from` on, as many as fit, and everything else that a server checks
    /// regularly. Never reads outdated data.
    fn look(&self, from: u64) -> Result<Look, BackendFailure>;

    /// Reads the records from `from` on, as many as fit. They might be outdated.
    fn records(&self, from: u64) -> Result<Records, BackendFailure>;

    /// Reads the number of the first record that still exists.
    fn first_record(&self) -> Result<Option<u64>, BackendFailure>;

    /// Reads the id of the store.
    fn id(&self) -> Result<Option<Vec<u8>>, BackendFailure>;

    /// Writes if all conditions of the guard hold, and returns whether they do.
    fn write(&self, guard: &Guard, what: &Write<'_>) -> Result<Verdict, BackendFailure>;

    /// Records that the store was rolled back, unless that is recorded already, or the id of the store is not this one.
    fn note_rewound(&self, value: &[u8], id: Option<&[u8]>) -> Result<(), BackendFailure>;
}

/// Records that were read, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Records {
    /// Their numbers and bytes.
    pub all: Vec<(u64, Vec<u8>)>,
    /// The name of the next entry, if it is not a record.
    pub stray: Option<String>,
}

/// The store at one moment.
#[derive(Debug)]
pub struct Look {
    /// The id of the store.
    pub id: Option<Vec<u8>>,
    /// The leader.
    pub leader: Option<LeaderEntry>,
    /// The end of the journal.
    pub head: FoundHead,
    /// The next records.
    pub records: Records,
    /// Whether a server has noticed that the store was rolled back.
    pub is_rewound: bool,
    /// Where the store has moved to, if it has.
    pub closed: Option<Vec<u8>>,
    /// Whether leader changes are paused.
    pub is_paused: bool,
    /// The servers that must not lead, and why.
    pub drained: Vec<(String, String)>,
}

/// A guarded write.
#[derive(Clone, Debug)]
pub enum Write<'a> {
    /// Nothing: only the conditions are checked.
    Nothing,
    /// The next record.
    Record {
        /// Its position.
        place: Place,
        /// Its bytes.
        bytes: &'a [u8],
        /// Old records to delete. They are in a snapshot.
        trims: Range<u64>,
    },
    /// The last record of a store that moves elsewhere.
    Closing {
        /// Its position.
        place: Place,
        /// Its bytes.
        bytes: &'a [u8],
        /// Where the store moves to.
        closed: &'a [u8],
    },
    /// The end of this leadership.
    Resignation,
}

impl Write<'_> {
    /// Returns the record that is to be the last one, if there is a record.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Record { place, .. } | Self::Closing { place, .. } => Some(*place),
            Self::Nothing | Self::Resignation => None,
        }
    }
}
