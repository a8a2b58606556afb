//! A store that forgets: for `--ephemeral`, and for tests, which can make it busy or make it fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use leasehold_core::{Change, Limits, Machine};

use super::{Error, JournalSize, Kind, Loaded, Permit, Store};
use crate::clock::Moment;

/// There is only ever one.
const EPOCH: u64 = 1;

/// Keeps nothing.
#[derive(Default)]
pub struct MemoryStore {
    /// What a test wants to go wrong.
    pub faults: Arc<Faults>,
    n_bytes_written: u64,
    seq: u64,
}

/// Things that go wrong with stores.
#[derive(Default)]
pub struct Faults {
    /// Another process holds the database.
    pub busy: AtomicBool,
    /// An append fails, and nobody knows how much of it happened.
    pub unknown: AtomicBool,
    /// It is not known yet what becomes of an append. It was made once this is over.
    pub unsettled: AtomicBool,
    /// Another server has taken over.
    pub fenced: AtomicBool,
    /// A thread with other things to do must not use it.
    pub far: AtomicBool,
    /// No record may be longer; 0 for what a store can do.
    pub record_bytes_max: AtomicUsize,
}

impl MemoryStore {
    fn outcome(&self) -> Result<(), Error> {
        let why = || "a test said so".to_owned();
        if self.faults.fenced.load(Relaxed) {
            return Err(Error::Fenced(why()));
        }
        if self.faults.unsettled.load(Relaxed) {
            return Err(Error::Unsettled(why()));
        }
        Ok(())
    }
}

impl Store for MemoryStore {
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error> {
        Ok(Loaded {
            machine: Machine::new(limits, hash_seed),
            last: None,
            generation: u64::from_le_bytes(crate::random::bytes()),
            epoch: EPOCH,
            is_restored: false,
            seq: 0,
            told: Vec::new(),
        })
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        if self.faults.busy.load(Relaxed) { Err(Error::Busy) } else { Ok(Permit::granted(EPOCH)) }
    }

    fn append(&mut self, _: Permit, _: Kind, _: Moment, changes: &[Change]) -> Result<(), Error> {
        self.n_bytes_written += changes.len() as u64;
        self.seq += 1;
        if self.faults.unknown.load(Relaxed) {
            return Err(Error::Unknown("a test said so".into()));
        }
        self.outcome()
    }

    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        if self.faults.fenced.load(Relaxed) { self.outcome() } else { Ok(()) }
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.outcome()
    }

    fn record_bytes_max(&self) -> usize {
        match self.faults.record_bytes_max.load(Relaxed) {
            0 => usize::MAX,
            n => n,
        }
    }

    fn is_near(&self) -> bool {
        !self.faults.far.load(Relaxed)
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn journal(&self) -> JournalSize {
        JournalSize {
            seq: self.seq,
            folded_through: self.seq,
            n_records: 0,
            n_bytes_written: self.n_bytes_written,
        }
    }
}
