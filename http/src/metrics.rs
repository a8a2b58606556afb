//! The metrics of `/metrics`. They contain no lock names, because there can be millions.

mod issuers;
mod namespaces;
mod process;
mod tasks;
mod text;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_eof;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;

use crate::DialectNames;
pub use issuers::IssuerMetrics;
use leasehold_engine::NamespaceCounts;
use leasehold_engine::metrics::{Book, EngineMetrics, NoLabels, ResultLabel, Shown};
use process::Process;
pub use tasks::Tasks;
pub use text::Format;

/// Resources with a budget in bytes: name and description.
const BYTES: [(&str, &str); 5] = [
    ("metadata", "Bytes of metadata of waiting and active leases"),
    ("names", "Bytes of names of locks, namespaces and owners"),
    ("requests", "Bytes of request ids, and of the ended leases kept for them"),
    ("queues", "Bytes of waiting leases"),
    ("ended", "Bytes of ended leases that stay readable"),
];

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct CommandLabel {
    command: &'static str,
    result: &'static str,
}

/// The labels by which responses are counted.
#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
pub struct AnswerLabel {
    method: &'static str,
    route: String,
    status: u16,
}

impl AnswerLabel {
    /// Returns the label of answers with this status to requests of this method and route.
    pub fn new(method: &'static str, route: &str, status: u16) -> Self {
        Self { method, route: route.into(), status }
    }
}

/// The current load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Active leases.
    pub n_held: i64,
    /// Waiting leases.
    pub n_waiting: i64,
    /// Leases that were granted since the start.
    pub n_granted: u64,
}

/// All metrics.
pub struct Metrics {
    book: Book,
    process: Process,
    /// The metrics of the engine.
    pub engine: Arc<EngineMetrics>,
    /// What is in progress.
    pub tasks: Tasks,
    webhooks: Family<ResultLabel, Counter>,
    webhook_queue: Gauge,
    /// Shown only if backups are on.
    backup_age: Family<NoLabels, Gauge>,
    backup_failures: Family<NoLabels, Counter>,
    /// Open connections.
    pub connections: Gauge,
    /// Bytes of all files.
    pub files_bytes: Gauge,
    /// Bytes of long responses in progress.
    pub answers_bytes: Gauge,
    /// Bytes of connection buffers for request heads, beyond the free allowance of each connection.
    pub heads_bytes: Gauge,
    /// Open event streams.
    pub event_streams: Gauge,
    /// Signed-in browsers.
    pub sign_ins: Gauge,
    /// Bytes of events that streams have not taken yet.
    pub event_streams_bytes: Gauge,
    /// Admitted HTTP/2 requests in progress.
    pub streams: Gauge,
    /// All HTTP/2 requests, including refused ones whose response was not read.
    pub streams_open: Gauge,
    /// For how many seconds the auth file, or a file that it names, has been unusable.
    pub auth_stale: Family<NoLabels, Gauge>,
    /// For how many seconds the TLS certificate or key has been unusable.
    pub tls_stale: Family<NoLabels, Gauge>,
    unopened: Family<ReasonLabel, Counter>,
    malformed_names: Counter,
    audit_failures: Family<NoLabels, Counter>,
    audit_lost: Family<NoLabels, Counter>,
    audit_left_out: Family<NoLabels, Counter>,
    audit_failing: Family<NoLabels, Gauge>,
    redis: Family<CommandLabel, Counter>,
    /// The issuers of tokens.
    pub issuers: IssuerMetrics,
    spans: Family<ResultLabel, Counter>,
    /// Responses, by route and status.
    pub answers: Family<AnswerLabel, Counter>,
}

impl Metrics {
    /// Creates the metrics with zero values.
    pub fn new(names: DialectNames) -> Self {
        let mut book = Book::default();
        let build = [
            ("version", env!("CARGO_PKG_VERSION")),
            // Set by the release build.
            ("revision", option_env!("LEASEHOLD_REVISION").unwrap_or("unknown")),
            ("os", std::env::consts::OS),
            ("arch", std::env::consts::ARCH),
        ];
        book.add("leasehold_build", "Version and build of this server", Info::new(build));
        let process = Process::register(&mut book);
        let dialects = names.0.iter().map(|(number, name)| (*number, (*name).to_owned()));
        let engine = EngineMetrics::register(&mut book, &dialects.collect::<Vec<_>>());
        let tasks = Tasks::register(&mut book);
        let metrics = Self {
            process,
            engine: Arc::new(engine),
            tasks,
            webhooks: Family::default(),
            webhook_queue: Gauge::default(),
            backup_age: Family::default(),
            backup_failures: Family::default(),
            auth_stale: Family::default(),
            tls_stale: Family::default(),
            unopened: Family::default(),
            malformed_names: Counter::default(),
            audit_failures: Family::default(),
            audit_lost: Family::default(),
            audit_left_out: Family::default(),
            audit_failing: Family::default(),
            connections: Gauge::default(),
            files_bytes: Gauge::default(),
            answers_bytes: Gauge::default(),
            heads_bytes: Gauge::default(),
            event_streams: Gauge::default(),
            sign_ins: Gauge::default(),
            event_streams_bytes: Gauge::default(),
            streams: Gauge::default(),
            streams_open: Gauge::default(),
            redis: Family::default(),
            issuers: IssuerMetrics::registered(&mut book),
            spans: Family::default(),
            answers: Family::default(),
            book,
        };
        metrics.registered()
    }

    fn registered(mut self) -> Self {
        let r = &mut self.book;
        r.add("locks_held", "Locks that are held", self.engine.locks_held.clone());
        let help = "Active leases, without the shares that file locks take on folders";
        r.add("leasehold_leases_held", help, self.engine.leases_held.clone());
        r.add("leasehold_waiters", "Leases waiting for their lock", self.engine.n_waiting.clone());
        let help = "Warnings sent to the webhook, by result";
        r.add("leasehold_webhooks", help, self.webhooks.clone());
        let help = "Warnings that wait to be sent to the webhook";
        r.add("leasehold_webhook_queue", help, self.webhook_queue.clone());
        let help = "Free locks that a group waits for";
        r.add("leasehold_convoy_locks", help, self.engine.n_convoys.clone());
        r.add(
            "leasehold_queue_depth",
            "Requests that wait for the engine",
            self.engine.queue_depth.clone(),
        );
        let records = self.engine.journal_records.clone();
        r.add("leasehold_journal_records", "Journal records not trimmed yet", records);
        let written = self.engine.journal_written.clone();
        r.add("leasehold_journal_written_bytes", "Bytes of records since the start", written);
        let bytes = self.engine.journal_bytes.clone();
        r.add("leasehold_journal_bytes", "Bytes of records not in the tables yet", bytes);
        let failures = self.engine.fold_failures.clone();
        r.add("leasehold_fold_failures", "Folds of the journal that failed", failures);
        let age = self.backup_age.clone();
        r.add("leasehold_backup_age_seconds", "Time since the latest backup", age);
        let failures = self.backup_failures.clone();
        r.add("leasehold_backup_failures", "Backups that failed", failures);
        let commit = Shown::one(&self.engine.commit_latency);
        r.add("leasehold_commit_seconds", "Making one record durable", commit);
        r.add("leasehold_batch_size", "Requests per record", self.engine.batch_size.clone());
        r.add("leasehold_connections", "Connections open", self.connections.clone());
        r.add("leasehold_namespaces", "Namespaces", self.engine.n_namespaces.clone());
        r.add("leasehold_files_bytes", "Bytes of all files", self.files_bytes.clone());
        let help = "Bytes of long responses that are being sent";
        r.add("leasehold_answers_bytes", help, self.answers_bytes.clone());
        let help = "Bytes of connection buffers that grew for large request heads";
        r.add("leasehold_heads_bytes", help, self.heads_bytes.clone());
        r.add("leasehold_event_streams", "Streams of events", self.event_streams.clone());
        let help = "Bytes of events that streams have not taken yet";
        r.add("leasehold_event_streams_bytes", help, self.event_streams_bytes.clone());
        r.add("leasehold_streams", "Admitted HTTP/2 requests in progress", self.streams.clone());
        let help = "HTTP/2 requests, including refused ones whose response is not taken";
        r.add("leasehold_streams_open", help, self.streams_open.clone());
        for (gauge, (name, help)) in self.engine.bytes.iter().zip(BYTES) {
            r.add(format!("leasehold_{name}_bytes"), help, gauge.clone());
        }
        let help = "Trace spans, by outcome";
        r.add("leasehold_spans", help, self.spans.clone());
        let help = "Commands on the Redis listener, by result";
        r.add("leasehold_redis_commands", help, self.redis.clone());
        let answers = self.answers.clone();
        r.add("leasehold_http_requests", "Responses, by route and status", answers);
        self.register_access();
        self
    }

    /// Registers the metrics of credentials, certificates and the audit files.
    fn register_access(&mut self) {
        let r = &mut self.book;
        let stale = self.auth_stale.clone();
        let about = "Time since which the auth file, or a file it names, is invalid";
        r.add("leasehold_auth_stale_seconds", about, stale);
        let about = "Time since which the TLS certificate or its key is invalid";
        r.add("leasehold_tls_stale_seconds", about, self.tls_stale.clone());
        let about = "Connections that ended before their first request could be sent";
        r.add("leasehold_handshakes_failed", about, self.unopened.clone());
        let about = "Malformed subject alternative names of client certificates";
        r.add("leasehold_certificate_names_malformed", about, self.malformed_names.clone());
        let about = "Browsers that are signed in";
        r.add("leasehold_sign_ins", about, self.sign_ins.clone());
        let failures = self.audit_failures.clone();
        r.add("leasehold_audit_failures", "Writes to the audit file that failed", failures);
        let lost = self.audit_lost.clone();
        r.add("leasehold_audit_lost_lines", "Lines missing from the audit files", lost);
        let left_out = self.audit_left_out.clone();
        let help = "Refused requests that the audit files only count";
        r.add("leasehold_audit_left_out_refusals", help, left_out);
        let failing = self.audit_failing.clone();
        r.add("leasehold_audit_failing", "1 while the audit file cannot be written", failing);
    }

    /// Returns the current load, for charts.
    pub fn load(&self) -> Load {
        let n_granted = self.engine.ops.n_granted();
        Load {
            n_held: self.engine.leases_held.get(),
            n_waiting: self.engine.n_waiting.get(),
            n_granted,
        }
    }

    /// Renders `/metrics` without counts per namespace.
    pub fn render(&self) -> String {
        self.show(Format::Prometheus, None)
    }

    /// Renders `/metrics`, with counts per namespace if the caller can see them.
    pub fn show(&self, format: Format, namespaces: Option<&NamespaceCounts>) -> String {
        self.process.observe();
        let mut text = String::new();
        self.book.write(&mut text);
        if let Some(namespaces) = namespaces {
            let mut book = Book::default();
            namespaces::register(&mut book, namespaces);
            book.write(&mut text);
        }
        // Writing to a string cannot fail.
        let _ = encode_eof(&mut text);
        format.of(text)
    }

    /// Returns the full name of each metric, including metrics that have no value yet.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.book.names().chain(namespaces::SHOWN.iter().map(|(name, _)| *name))
    }

    /// Counts a connection that ended before its first request.
    pub fn count_unopened(&self, reason: &'static str) {
        self.unopened.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// Counts a Redis command.
    pub fn count_redis(&self, command: &'static str, is_error: bool) {
        let result = if is_error { "error" } else { "ok" };
        self.redis.get_or_create(&CommandLabel { command, result }).inc();
    }

    /// Counts trace spans that were sent, that failed to be sent, or that were dropped.
    pub fn count_spans(&self, result: &'static str, n: u64) {
        self.spans.get_or_create(&ResultLabel { result }).inc_by(n);
    }

    /// Counts malformed names in client certificates.
    pub fn count_malformed_names(&self, n: usize) {
        self.malformed_names.inc_by(n as u64);
    }

    /// A note was delivered to the webhook, or was not.
    pub fn count_webhook(&self, is_delivered: bool) {
        let result = if is_delivered { "success" } else { "fail" };
        self.webhooks.get_or_create(&ResultLabel { result }).inc();
    }

    /// Updates the number of notes that wait for the webhook, and of those that were dropped.
    pub fn observe_notes(&self, (n_waiting, n_dropped): (usize, u64)) {
        self.webhook_queue.set(n_waiting as i64);
        let dropped = self.webhooks.get_or_create(&ResultLabel { result: "dropped" });
        dropped.inc_by(n_dropped.saturating_sub(dropped.get()));
    }

    /// Shows the counts of the audit files.
    pub fn observe_audit(&self, counts: crate::audit::Counts) {
        let failures = self.audit_failures.get_or_create(&[]);
        failures.inc_by(counts.n_failures.saturating_sub(failures.get()));
        let lost = self.audit_lost.get_or_create(&[]);
        lost.inc_by(counts.n_lost.saturating_sub(lost.get()));
        let left_out = self.audit_left_out.get_or_create(&[]);
        left_out.inc_by(counts.n_left_out.saturating_sub(left_out.get()));
        self.audit_failing.get_or_create(&[]).set(i64::from(counts.is_failing));
    }

    /// Shows how old the latest backup is, and how many failed.
    pub fn observe_backups(&self, age: Duration, n_failures: u64) {
        self.backup_age.get_or_create(&[]).set(age.as_secs() as i64);
        let known = self.backup_failures.get_or_create(&[]);
        known.inc_by(n_failures.saturating_sub(known.get()));
    }
}

/// Metrics that know no protocol, for tests.
impl Default for Metrics {
    fn default() -> Self {
        Self::new(DialectNames(&[]))
    }
}
