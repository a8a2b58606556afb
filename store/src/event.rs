//! Events: the facts of the journal. They are numbered by journal record, so that an id stays valid across restarts.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use bytes::Bytes;
use leasehold_core::Fact;

/// The id of an event, valid for the life of the store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventId {
    /// The journal record that contains the event.
    pub seq: u64,
    /// The index among the facts of that record.
    pub index: u32,
}

/// One event.
#[derive(Debug)]
pub struct Event {
    /// The id of the event.
    pub id: EventId,
    /// What happened, to which lock and owner.
    pub fact: Fact,
    /// The wall-clock time, in epoch milliseconds.
    pub at_ms: i64,
    frame: OnceLock<Bytes>,
}

impl Event {
    /// Creates an event that is not rendered yet.
    pub fn new(id: EventId, fact: Fact, at_ms: i64) -> Self {
        Self { id, fact, at_ms, frame: OnceLock::new() }
    }

    /// Returns the event as it is sent to clients. It is rendered once for all readers.
    pub fn frame(&self, render: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.frame.get_or_init(|| render(self)).clone()
    }
}

/// A position in the event stream that clients store: an event id and the generation of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The generation of the store, which changes when the store is restored from a backup.
    pub generation: u64,
    /// The last event that was read.
    pub id: EventId,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}-{}", self.generation, self.id.seq, self.id.index)
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // Rust accepts a plus sign before a number, but cursors never contain one.
        let mut parts = text.split('-').filter(|part| !part.starts_with('+'));
        let mut next = || parts.next().ok_or(());
        let generation = u64::from_str_radix(next()?, 16).map_err(drop)?;
        let seq = next()?.parse().map_err(drop)?;
        let index = next()?.parse().map_err(drop)?;
        let cursor = Self { generation, id: EventId { seq, index } };
        if cursor.to_string() == text.to_ascii_lowercase() { Ok(cursor) } else { Err(()) }
    }
}
