//! The engine's metrics. The server shows them in `/metrics` together with its own.
//!
//! They contain no lock names, because there can be millions.

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

/// The label that separates operations by result.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub struct ResultLabel {
    /// The result, such as `success`.
    pub result: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct DialectLabel {
    dialect: String,
}

/// The label set of a metric without labels.
pub type NoLabels = [(&'static str, &'static str); 0];

/// All metrics of the engine.
pub struct EngineMetrics {
    /// Operations on locks.
    pub ops: Ops,
    /// Waits, hold times and notes.
    pub leases: Leases,
    /// Requests refused because of a limit.
    pub refusals: Refusals,
    /// Cluster membership.
    pub cluster: ClusterMetrics,
    /// Numbers of remembered locks, leases and events.
    pub known: Known,
    /// Locks that are held.
    pub locks_held: Gauge,
    /// Active leases.
    pub leases_held: Gauge,
    /// Waiting leases.
    pub n_waiting: Gauge,
    /// Free locks that a waiting group needs together with locks that are still held.
    pub n_convoys: Gauge,
    /// Namespaces.
    pub n_namespaces: Gauge,
    /// Bytes of what has a budget: metadata, names, requests, queues and ended leases.
    pub bytes: [Gauge; 5],
    /// Queued requests.
    pub queue_depth: Gauge<i64, AtomicI64>,
    /// Journal records that are not deleted yet.
    pub journal_records: Gauge,
    /// Bytes of journal records written since the start.
    pub journal_written: Counter<u64, AtomicU64>,
    /// Bytes of journal records that are not folded into the tables yet.
    pub journal_bytes: Gauge,
    /// Failed folds of the journal.
    pub fold_failures: Counter,
    /// Time from applying a batch to its record being durable.
    pub commit_latency: Timing,
    /// Requests per journal record.
    pub batch_size: Histogram,
    n_sessions: Vec<(Dialect, Gauge)>,
    disk: DiskMetrics,
}

impl EngineMetrics {
    /// Creates the metrics with zero values, and registers those that the server does not show itself. `dialects` names
    /// the dialects whose sessions are counted.
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

    /// Updates the number of sessions per dialect, after one was opened or ended.
    pub(crate) fn observe_sessions(&self, n_sessions: impl Fn(Dialect) -> usize) {
        for (dialect, gauge) in &self.n_sessions {
            gauge.set(n_sessions(*dialect) as i64);
        }
    }

    /// Updates the gauges that are computed only when metrics are read.
    pub fn observe_health(&self, health: &Health, wall_ms: i64) {
        self.cluster.observe(health.pulse(), health.room(), wall_ms);
        self.disk.observe(health.disk());
        self.journal_bytes.set(health.n_bytes() as i64);
        let known = self.fold_failures.get();
        self.fold_failures.inc_by(health.n_failures().saturating_sub(known));
    }
}

/// Registers a gauge of sessions for each dialect.
fn sessions_of_each(book: &mut Book, dialects: &[(Dialect, String)]) -> Vec<(Dialect, Gauge)> {
    let family = Family::<DialectLabel, Gauge>::default();
    book.add("leasehold_sessions", "Sessions, by dialect", family.clone());
    let gauge = |(dialect, name): &(Dialect, String)| {
        let label = DialectLabel { dialect: name.clone() };
        (*dialect, family.get_or_create(&label).clone())
    };
    dialects.iter().map(gauge).collect()
}
