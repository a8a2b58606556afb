//! A store that forgets: for `--ephemeral`, and for tests, which can make it busy or make it fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use leasehold_core::{Change, Limits, Machine};

use super::{Error, JournalSize, Loaded, Permit, Store};
use crate::clock::Moment;

/// Keeps nothing.
#[derive(Default)]
pub struct MemoryStore {
    /// What a test wants to go wrong.
    pub faults: Arc<Faults>,
    n_bytes_written: u64,
}

/// Things that go wrong with stores.
#[derive(Default)]
pub struct Faults {
    /// Another process holds the database.
    pub busy: AtomicBool,
    /// An append fails, and nobody knows how much of it happened.
    pub unknown: AtomicBool,
}

impl Store for MemoryStore {
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error> {
        Ok(Loaded {
            machine: Machine::new(limits, hash_seed),
            last: None,
            generation: u64::from_le_bytes(crate::random::bytes()),
            n_starts: 1,
            is_restored: false,
        })
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        if self.faults.busy.load(Relaxed) { Err(Error::Busy) } else { Ok(Permit(())) }
    }

    fn append(&mut self, _: Permit, _: Moment, changes: &[Change]) -> Result<(), Error> {
        self.n_bytes_written += changes.len() as u64;
        if self.faults.unknown.load(Relaxed) {
            return Err(Error::Unknown("a test said so".into()));
        }
        Ok(())
    }

    fn give_back(&mut self, _: Permit) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn journal(&self) -> JournalSize {
        JournalSize { n_records: 0, n_bytes_written: self.n_bytes_written }
    }
}
