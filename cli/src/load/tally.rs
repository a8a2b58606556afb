//! Counters and latency histograms of a load run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use leasehold::Error;

/// Number of different error texts that are counted separately.
const ERRORS_MAX: usize = 5;
/// The largest latency that is recorded: one hour, in microseconds.
const MICROS_MAX: u64 = 3_600_000_000;

/// A counter.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A histogram of durations.
#[derive(Debug)]
pub(super) struct Times(Mutex<Histogram<u64>>);

impl Default for Times {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MICROS_MAX, 3);
        Self(Mutex::new(histogram.expect("the bounds are in order")))
    }
}

impl Times {
    pub(super) fn record(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(MICROS_MAX);
        self.histogram().saturating_record(micros.clamp(1, MICROS_MAX));
    }

    pub(super) fn histogram(&self) -> MutexGuard<'_, Histogram<u64>> {
        locked(&self.0)
    }
}

/// Counts the stale requests that were sent, and those that the server rejected.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    pub(super) injected: Count,
    pub(super) rejected: Count,
}

/// All counters and histograms of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) acquire: Times,
    pub(super) release: Times,
    pub(super) writes: Count,
    pub(super) renewals: Count,
    pub(super) pauses: Count,
    /// Acquires that were still waiting at the end of the run.
    pub(super) timeouts: Count,
    pub(super) lost: Count,
    pub(super) stale_writes: Refusals,
    pub(super) stale_renewals: Refusals,
    pub(super) stale_releases: Refusals,
    pub(super) errors: Count,
    kinds: Mutex<BTreeMap<String, u64>>,
}

impl Tally {
    pub(super) fn error(&self, error: &Error) {
        self.errors.add();
        let mut kinds = locked(&self.kinds);
        let text = error.to_string();
        if kinds.len() < ERRORS_MAX || kinds.contains_key(&text) {
            *kinds.entry(text).or_default() += 1;
        }
    }

    /// Returns the first few error texts with their counts.
    pub(super) fn kinds(&self) -> BTreeMap<String, u64> {
        locked(&self.kinds).clone()
    }
}

/// Locks a mutex even if it is poisoned: values recorded before a panic still count.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
