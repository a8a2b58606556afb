//! A store that keeps no records: for `--ephemeral`, and for tests.

use leasehold_core::{Limits, Machine};

use super::{Draft, Error, JournalSize, Loaded, Permit, Store};

/// The only epoch of a store in memory.
const EPOCH: u64 = 1;

/// A store that keeps no records.
#[derive(Default)]
pub struct MemoryStore {
    n_bytes_written: u64,
    seq: u64,
}

impl Store for MemoryStore {
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error> {
        Ok(Loaded {
            machine: Machine::new(limits, hash_seed),
            last: None,
            generation: u64::from_le_bytes(leasehold_base::random::bytes()),
            epoch: EPOCH,
            is_restored: false,
            seq: 0,
            told: Vec::new(),
        })
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        Ok(Permit::granted(EPOCH))
    }

    fn append(&mut self, _: Permit, draft: Draft<'_>) -> Result<(), Error> {
        self.n_bytes_written += draft.changes.len() as u64;
        self.seq += 1;
        Ok(())
    }

    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn record_bytes_max(&self) -> usize {
        usize::MAX
    }

    fn is_near(&self) -> bool {
        true
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
