//! A store that fails on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use leasehold_core::Limits;
use leasehold_store::memory::MemoryStore;
use leasehold_store::{Draft, Error, JournalSize, Loaded, Permit, Store};

/// A store in memory with faults.
#[derive(Default)]
pub struct FaultyStore {
    store: MemoryStore,
    /// The faults that the test requests.
    pub faults: Arc<Faults>,
}

/// The faults of a store.
#[derive(Default)]
pub struct Faults {
    /// Another process has locked the database.
    pub busy: AtomicBool,
    /// An append fails, and its outcome is unknown.
    pub unknown: AtomicBool,
    /// The outcome of an append is not known yet. The append turns out to be made when this is reset.
    pub unsettled: AtomicBool,
    /// How often the outcome was not known.
    pub n_unsettled: AtomicUsize,
    /// Another server has taken over.
    pub fenced: AtomicBool,
    /// The store is too slow for a thread that has other work to do.
    pub far: AtomicBool,
    /// Maximum size of a record, or 0 for the limit of the real store.
    pub record_bytes_max: AtomicUsize,
}

impl FaultyStore {
    fn outcome(&self) -> Result<(), Error> {
        let why = || "a test said so".to_owned();
        if self.faults.fenced.load(Relaxed) {
            return Err(Error::Fenced(why()));
        }
        if self.faults.unsettled.load(Relaxed) {
            self.faults.n_unsettled.fetch_add(1, Relaxed);
            return Err(Error::Unsettled(why()));
        }
        Ok(())
    }
}

impl Store for FaultyStore {
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error> {
        self.store.load(limits, hash_seed)
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        if self.faults.busy.load(Relaxed) { Err(Error::Busy) } else { self.store.reserve() }
    }

    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), Error> {
        self.store.append(permit, draft)?;
        if self.faults.unknown.load(Relaxed) {
            return Err(Error::Unknown("a test said so".into()));
        }
        self.outcome()
    }

    fn confirm(&mut self, permit: Permit) -> Result<(), Error> {
        if self.faults.fenced.load(Relaxed) { self.outcome() } else { self.store.confirm(permit) }
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.outcome()
    }

    fn record_bytes_max(&self) -> usize {
        match self.faults.record_bytes_max.load(Relaxed) {
            0 => self.store.record_bytes_max(),
            n => n,
        }
    }

    fn is_near(&self) -> bool {
        !self.faults.far.load(Relaxed)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.store.finish()
    }

    fn journal(&self) -> JournalSize {
        self.store.journal()
    }
}
