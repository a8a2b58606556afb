//! How many locks, ended leases and events the server remembers.

use leasehold_core::Counts;
use prometheus_client::metrics::gauge::Gauge;

use super::Book;

/// The gauges of `locks-max`, `idle-max`, `answered-max` and `events-max`.
pub struct Known {
    locks: Gauge,
    idle: Gauge,
    ended: Gauge,
    events: Gauge,
}

impl Known {
    pub(crate) fn register(book: &mut Book) -> Self {
        let this = Self {
            locks: Gauge::default(),
            idle: Gauge::default(),
            ended: Gauge::default(),
            events: Gauge::default(),
        };
        let help = "Locks held, waited for or remembered";
        book.add("leasehold_locks", help, this.locks.clone());
        book.add("leasehold_idle_locks", "Unused locks", this.idle.clone());
        let help = "Ended leases that are remembered";
        book.add("leasehold_ended_leases", help, this.ended.clone());
        let help = "Events kept for readers that reconnect";
        book.add("leasehold_kept_events", help, this.events.clone());
        this
    }

    pub(crate) fn observe(&self, counts: &Counts) {
        self.locks.set(counts.n_locks as i64);
        self.idle.set(counts.n_idle as i64);
        self.ended.set(counts.n_ended as i64);
    }

    /// Shows how many events are kept for readers that come back.
    pub fn observe_events(&self, n_kept: usize) {
        self.events.set(n_kept as i64);
    }
}
