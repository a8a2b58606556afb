//! Events: the facts of the journal, numbered by its records, so that an id means the same after a restart.

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use bytes::Bytes;
use leasehold_core::Fact;

/// Names an event for as long as the store lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventId {
    /// The journal record it happened in.
    pub seq: u64,
    /// Its place among the facts of that record.
    pub index: u32,
}

/// One event.
#[derive(Debug)]
pub struct Event {
    /// Its name.
    pub id: EventId,
    /// What happened, and to whom.
    pub fact: Fact,
    /// When, in epoch milliseconds.
    pub at_ms: i64,
    frame: OnceLock<Bytes>,
}

impl Event {
    /// Creates an event that is not rendered yet.
    pub fn new(id: EventId, fact: Fact, at_ms: i64) -> Self {
        Self { id, fact, at_ms, frame: OnceLock::new() }
    }

    /// The event as it goes over the wire, rendered once for all its readers.
    pub fn frame(&self, render: impl FnOnce(&Self) -> Bytes) -> Bytes {
        self.frame.get_or_init(|| render(self)).clone()
    }
}

/// An event id with the store's generation: what a reader remembers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// Differs between a store and one restored from its backup.
    pub generation: u64,
    /// The last event seen.
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
        // Rust takes a sign before a number, and we never write one.
        let mut parts = text.split('-').filter(|part| !part.starts_with('+'));
        let mut next = || parts.next().ok_or(());
        let generation = u64::from_str_radix(next()?, 16).map_err(drop)?;
        let seq = next()?.parse().map_err(drop)?;
        let index = next()?.parse().map_err(drop)?;
        let cursor = Self { generation, id: EventId { seq, index } };
        if cursor.to_string() == text.to_ascii_lowercase() { Ok(cursor) } else { Err(()) }
    }
}
