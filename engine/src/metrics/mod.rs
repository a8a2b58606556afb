//! What the engine counts. The server shows it in `/metrics`, beside what it counts itself.
//!
//! No lock names: there may be millions.

mod book;
mod cluster;
mod disk;
mod known;
mod lease;
mod op;
mod refusal;
mod timing;

use std::sync::atomic::{AtomicI64, AtomicU64};

use leasehold_core::{Counts, Dialect, Footprint};
use leasehold_store::{Health, JournalSize};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

pub use book::Book;
pub use cluster::ClusterMetrics;
pub(crate) use cluster::{Resolved, Turn};
use disk::DiskMetrics;
pub use known::Known;
pub use lease::Leases;
pub use op::{Op, Ops};
pub use refusal::Refusals;
use timing::Scale;
pub use timing::{Shown, Timing};

/// Tells the results of something apart.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub struct ResultLabel {
    /// The result, such as `success`.
    pub result: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct DialectLabel {
    dialect: String,
}

/// For what is there once or not at all.
pub type NoLabels = [(&'static str, &'static str); 0];

/// Everything that the engine counts.
pub struct EngineMetrics {
    /// Operations on locks.
    pub ops: Ops,
    /// What happens to leases.
    pub leases: Leases,
    /// Requests that met a limit.
    pub refusals: Refusals,
    /// The part of a server that shares its store.
    pub cluster: ClusterMetrics,
    /// What the server remembers.
    pub known: Known,
    /// Locks that are held.
    pub locks_held: Gauge,
    /// Active leases.
    pub leases_held: Gauge,
    /// Waiting leases.
    pub n_waiting: Gauge,
    /// Locks that are free though a group waits for them.
    pub n_convoys: Gauge,
    /// Namespaces.
    pub n_namespaces: Gauge,
    /// What has a budget in bytes: metadata, names, requests, queues and ended leases.
    pub bytes: [Gauge; 5],
    /// Requests that wait for their turn.
    pub queue_depth: Gauge<i64, AtomicI64>,
    /// Journal records that are not trimmed yet.
    pub journal_records: Gauge,
    /// Bytes of records since the start.
    pub journal_written: Counter<u64, AtomicU64>,
    /// Bytes of records that are not in the tables yet.
    pub journal_bytes: Gauge,
    /// Folds of the journal that failed.
    pub fold_failures: Counter,
    /// From a batch being applied to its record being durable.
    pub commit_latency: Timing,
    /// Requests per record.
    pub batch_size: Histogram,
    n_sessions: Vec<(Dialect, Gauge)>,
    disk: DiskMetrics,
}

impl EngineMetrics {
    /// Everything at zero. Adds to the book what has a place of its own there; whoever shows the single gauges adds
    /// these. `dialects` names the dialects whose sessions are counted.
    pub fn register(book: &mut Book, dialects: &[(Dialect, String)]) -> Self {
        Self {
            ops: Ops::register(book),
            leases: Leases::register(book),
            refusals: Refusals::register(book),
            n_sessions: sessions_of_each(book, dialects),
            cluster: ClusterMetrics::registered(book),
            disk: DiskMetrics::registered(book),
            known: Known::register(book),
            locks_held: Gauge::default(),
            leases_held: Gauge::default(),
            n_waiting: Gauge::default(),
            n_convoys: Gauge::default(),
            n_namespaces: Gauge::default(),
            bytes: Default::default(),
            queue_depth: Gauge::default(),
            journal_records: Gauge::default(),
            journal_written: Counter::default(),
            journal_bytes: Gauge::default(),
            fold_failures: Counter::default(),
            commit_latency: Timing::new(Scale::WORK),
            batch_size: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
        }
    }

    /// Shows the state of the machine and of the journal.
    pub(crate) fn observe(&self, counts: &Counts, journal: JournalSize, n_asked: usize) {
        self.locks_held.set(counts.n_held as i64);
        self.leases_held.set(counts.n_held_leases as i64);
        self.known.observe(counts);
        self.n_waiting.set(counts.n_waiting as i64);
        self.n_convoys.set(counts.n_convoys as i64);
        self.n_namespaces.set(counts.n_namespaces as i64);
        let Footprint { metadata, names, requests, queues, ended } = counts.bytes;
        for (gauge, n) in self.bytes.iter().zip([metadata, names, requests, queues, ended]) {
            gauge.set(n as i64);
        }
        self.queue_depth.set(n_asked as i64);
        self.journal_records.set(journal.n_records as i64);
        let known = self.journal_written.get();
        self.journal_written.inc_by(journal.n_bytes_written.saturating_sub(known));
    }

    /// How many sessions each dialect has, to be called when one has begun or ended.
    pub(crate) fn observe_sessions(&self, n_sessions: impl Fn(Dialect) -> usize) {
        for (dialect, gauge) in &self.n_sessions {
            gauge.set(n_sessions(*dialect) as i64);
        }
    }

    /// What is looked up only when somebody asks.
    pub fn observe_health(&self, health: &Health, wall_ms: i64) {
        self.cluster.observe(health.pulse(), health.room(), wall_ms);
        self.disk.observe(health.disk());
        self.journal_bytes.set(health.n_bytes() as i64);
        let known = self.fold_failures.get();
        self.fold_failures.inc_by(health.n_failures().saturating_sub(known));
    }
}

/// How many sessions each dialect has.
fn sessions_of_each(book: &mut Book, dialects: &[(Dialect, String)]) -> Vec<(Dialect, Gauge)> {
    let family = Family::<DialectLabel, Gauge>::default();
    book.add("leasehold_sessions", "Sessions, by dialect", family.clone());
    let gauge = |(dialect, name): &(Dialect, String)| {
        let label = DialectLabel { dialect: name.clone() };
        (*dialect, family.get_or_create(&label).clone())
    };
    dialects.iter().map(gauge).collect()
}
