//! How a store is: whether its journal is folded into its tables, and how much is not yet.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Error;
use crate::sync::lock;

/// One fold may fail because somebody else has the tables for a moment. So many in a row have another reason.
const FAILURES_MAX: u64 = 3;

/// Written by the store, read by whoever watches it.
#[derive(Default)]
pub struct Health {
    n_bytes: AtomicU64,
    n_failures: AtomicU64,
    n_in_a_row: AtomicU64,
    last: Mutex<Option<String>>,
}

impl Health {
    /// Bytes of journal records that are not in the tables yet.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes.load(Relaxed)
    }

    /// How often a fold has failed.
    pub fn n_failures(&self) -> u64 {
        self.n_failures.load(Relaxed)
    }

    /// Why the journal is not folded, if it is not for a while.
    pub fn trouble(&self) -> Option<String> {
        let n = self.n_in_a_row.load(Relaxed);
        if n < FAILURES_MAX {
            return None;
        }
        let last = lock(&self.last).clone();
        let why = last.unwrap_or_default();
        Some(format!(
            "the journal cannot be folded into the tables ({n} attempts, {} bytes so far): {why}",
            self.n_bytes()
        ))
    }

    /// For stores: so much is in the journal and not in the tables at the start.
    pub fn start(&self, n_bytes: u64) {
        self.n_bytes.store(n_bytes, Relaxed);
    }

    /// For stores: a record was appended.
    pub fn appended(&self, n_bytes: usize) {
        self.n_bytes.fetch_add(n_bytes as u64, Relaxed);
    }

    /// For stores: records are in the tables.
    pub fn folded(&self, n_bytes: u64) {
        let less = |n: u64| Some(n.saturating_sub(n_bytes));
        // It always says yes.
        let _ = self.n_bytes.fetch_update(Relaxed, Relaxed, less);
    }

    /// For stores: a fold has ended.
    pub fn fold_ended(&self, result: Result<(), &Error>) {
        let Err(error) = result else { return self.n_in_a_row.store(0, Relaxed) };
        *lock(&self.last) = Some(error.to_string());
        self.n_failures.fetch_add(1, Relaxed);
        self.n_in_a_row.fetch_add(1, Relaxed);
    }
}
