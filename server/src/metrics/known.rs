//! How many locks and ended leases the server remembers.

use leasehold_core::Counts;
use prometheus_client::metrics::gauge::Gauge;

use super::Book;

/// The gauges of `locks-max` and of `answered-max`.
pub(crate) struct Known {
    locks: Gauge,
    ended: Gauge,
}

impl Known {
    pub(super) fn register(book: &mut Book) -> Self {
        let this = Self { locks: Gauge::default(), ended: Gauge::default() };
        let help = "Locks held, waited for or remembered";
        book.add("leasehold_locks", help, this.locks.clone());
        let help = "Ended leases that are remembered";
        book.add("leasehold_ended_leases", help, this.ended.clone());
        this
    }

    pub(super) fn observe(&self, counts: &Counts) {
        self.locks.set(counts.n_locks as i64);
        self.ended.set(counts.n_ended as i64);
    }
}
