//! The audit files: who did what, from where, with which credential and rule, and which requests were refused.
//!
//! Lines about leases come from the journal's facts, after these are durable and before any client is answered. Each
//! line contains its journal position, so a restarted server continues after the last line: lines that a crash
//! prevented are written then, and none is written twice. Refusals and other acts of operators are not in the journal;
//! they are written when they happen.

mod catch_up;
mod file;
mod flood;
mod line;
mod outlet;
mod part;
mod sink;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::DialectNames;
use leasehold_auth::By;
use leasehold_base::sync::lock;
use leasehold_core::Fact;
use leasehold_engine::{AuditLog, Mismatch};
use leasehold_store::{Cursor, Event, EventId};

pub use file::rotated;
use flood::{LeftOut, Rate};
pub use line::{Act, Kind, Refused};
pub use part::Part;
pub use part::files;
use sink::Sink;

/// Default maximum size of one audit file, in bytes.
pub const BYTES_MAX: u64 = 64 << 20;
/// Default number of rotated files to keep.
pub const KEEP: usize = 10;
/// Default maximum refusals written per second, of known principals and as many of other clients.
pub const REFUSALS_PER_SECOND: u32 = 100;
/// Default maximum refusals of one client written per second.
pub const REFUSALS_PER_CLIENT: u32 = 10;

/// Settings of the audit files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The path of the file. Rotated files are in the same directory: `audit.log.1` is the previous one.
    pub file: PathBuf,
    /// The file is rotated at this size, in bytes.
    pub bytes_max: u64,
    /// The number of rotated files to keep.
    pub keep: usize,
    /// What to do if the file cannot be written.
    pub failure: OnFailure,
    /// Maximum refusals written per second, of known principals and as many of clients without a valid credential.
    pub refusals_per_second: u32,
    /// Maximum refusals written per second, of one principal or of one address without a valid credential.
    pub refusals_per_client: u32,
}

impl Options {
    /// Returns the default settings for this file.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            bytes_max: BYTES_MAX,
            keep: KEEP,
            failure: OnFailure::Refuse,
            refusals_per_second: REFUSALS_PER_SECOND,
            refusals_per_client: REFUSALS_PER_CLIENT,
        }
    }

    /// Checks that the files can be opened. Creates nothing.
    pub fn check(&self) -> Result<(), String> {
        Sink::check(self).map(drop)
    }
}

/// What to do while the audit file cannot be written. The acts that could not be recorded have already happened; this
/// setting is about later ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFailure {
    /// Refuse changes that would have to be audited.
    Refuse,
    /// Continue, count the missing lines, and log a warning.
    Warn,
}

impl std::str::FromStr for OnFailure {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "refuse" => Ok(Self::Refuse),
            "warn" => Ok(Self::Warn),
            _ => Err(format!("must be refuse or warn, got {word:?}")),
        }
    }
}

impl std::fmt::Display for OnFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if *self == Self::Refuse { "refuse" } else { "warn" })
    }
}

/// The open audit files of a server. Shared by all threads.
pub struct Audit {
    options: Options,
    names: DialectNames,
    sink: Mutex<Sink>,
    is_failing: AtomicBool,
    n_failures: AtomicU64,
    n_lost: AtomicU64,
    n_left_out: AtomicU64,
}

/// Counters for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Writes that failed.
    pub n_failures: u64,
    /// Lines that were dropped because they could not be written.
    pub n_lost: u64,
    /// Refusals that were counted but not written.
    pub n_left_out: u64,
    /// Whether the last write failed.
    pub is_failing: bool,
}

impl Audit {
    /// Opens or creates the files and finds the journal position of the last line.
    pub fn open(options: Options, names: DialectNames) -> Result<Arc<Self>, String> {
        let sink = Sink::open(&options)?;
        Ok(Arc::new(Self {
            options,
            names,
            sink: Mutex::new(sink),
            is_failing: AtomicBool::new(false),
            n_failures: AtomicU64::new(0),
            n_lost: AtomicU64::new(0),
            n_left_out: AtomicU64::new(0),
        }))
    }

    /// Writes a line for a refused request, unless there were too many.
    pub fn refused(&self, refused: &Refused<'_>, wall_ms: i64) {
        let outcome = line::outcome_of(refused.status);
        self.refuse(&refused.by, outcome, wall_ms, |after| {
            line::of_refusal(refused, after, wall_ms)
        });
    }

    fn refuse(
        &self,
        by: &By,
        outcome: &'static str,
        wall_ms: i64,
        line: impl FnOnce(&str) -> String,
    ) {
        let rate = self.rate();
        let mut sink = self.sink();
        let mut has_lines = self.turn(&mut sink, wall_ms);
        let (part, client) = flood::counted(by);
        if sink.flood.take(part, (client, outcome), rate) {
            let line = line(&sink.place());
            sink.add(part, &line);
            has_lines = true;
        } else {
            self.n_left_out.fetch_add(1, Relaxed);
        }
        if has_lines {
            self.flush(&mut sink);
        }
    }

    /// If a new second has begun, writes how many refusals were left out in the last one.
    fn turn(&self, sink: &mut Sink, wall_ms: i64) -> bool {
        let left_out = sink.flood.turn(wall_ms);
        let has_lines = !left_out.is_empty();
        for LeftOut { part, of, n } in left_out {
            let mut act = Act::new("refusals left out", By::server()).detail("n", n);
            if let Some((client, outcome)) = of {
                let who = if part == Part::Unknown { "peer" } else { "principal" };
                act = act.detail(who, &*client).detail("outcome", outcome);
            }
            let line = line::of_act(&act, &sink.place(), wall_ms);
            sink.add(part, &line);
        }
        has_lines
    }

    /// Writes an act that is not in the journal, or an act of an operator.
    pub fn acted(&self, part: Part, act: &Act, wall_ms: i64) {
        let mut sink = self.sink();
        let line = line::of_act(act, &sink.place(), wall_ms);
        sink.add(part, &line);
        self.flush(&mut sink);
    }

    /// Writes that a caller took leases of other principals away. Such lines of callers that are no operators are kept
    /// like those about operators, up to the limits for refusals; the others are lines about clients.
    pub fn took(&self, act: &Act, is_operator: bool, wall_ms: i64) {
        let mut sink = self.sink();
        self.turn(&mut sink, wall_ms);
        let client = (act.principal().clone(), "taken");
        let is_kept = is_operator || sink.flood.take(Part::Admin, client, self.rate());
        let line = line::of_act(act, &sink.place(), wall_ms);
        sink.add(if is_kept { Part::Admin } else { Part::Access }, &line);
        self.flush(&mut sink);
    }

    fn rate(&self) -> Rate {
        let Options { refusals_per_second, refusals_per_client, .. } = self.options;
        Rate { of_all: refusals_per_second, of_each: refusals_per_client }
    }

    /// Retries lines that could not be written, and writes how many refusals were left out.
    pub fn tend(&self, wall_ms: i64) {
        let mut sink = self.sink();
        let has_lines = self.turn(&mut sink, wall_ms);
        if has_lines || self.is_failing.load(Relaxed) {
            self.flush(&mut sink);
        }
    }

    /// Opens the files again, because another program might have moved them. Logs the result.
    pub fn reopen(&self) {
        let mut sink = self.sink();
        sink.close();
        let was_failing = self.is_failing.load(Relaxed);
        self.flush(&mut sink);
        let (file, is_failing) = (self.options.file.display(), self.is_failing.load(Relaxed));
        match (was_failing, is_failing) {
            (false, false) => tracing::info!(%file, "reopened the audit file"),
            (true, true) => tracing::error!(%file, "cannot write the audit file yet"),
            // `flush` has logged this.
            (true, false) | (false, true) => {}
        }
    }

    /// Returns the counts for metrics.
    pub fn counts(&self) -> Counts {
        Counts {
            n_failures: self.n_failures.load(Relaxed),
            n_lost: self.n_lost.load(Relaxed),
            n_left_out: self.n_left_out.load(Relaxed),
            is_failing: self.is_failing.load(Relaxed),
        }
    }

    fn flush(&self, sink: &mut Sink) {
        match sink.flush(&self.options) {
            Ok(()) => {
                if self.is_failing.swap(false, Relaxed) {
                    tracing::warn!("the audit file is writable again");
                }
            }
            Err(error) => {
                self.n_failures.fetch_add(1, Relaxed);
                self.n_lost.fetch_add(sink.take_lost(), Relaxed);
                if !self.is_failing.swap(true, Relaxed) {
                    let (file, what) = (self.options.file.display(), self.options.failure);
                    tracing::error!(%file, %error, "cannot write the audit file ({what})");
                }
            }
        }
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        lock(&self.sink)
    }
}

impl AuditLog for Audit {
    fn begin(
        &self,
        (generation, seq): (u64, u64),
        known: &[Event],
        data: Option<&Path>,
        wall_ms: i64,
    ) {
        let mut sink = self.sink();
        if let Some(last) = sink.last().filter(|last| last.generation == generation) {
            let before = known.first().map(|event| event.id);
            let older = data.map_or_else(Vec::new, |data| catch_up::read(data, last.id, before));
            for event in older.iter().chain(known).filter(|event| event.id > last.id) {
                let line =
                    line::of_fact(self.names, generation, event.id, &event.fact, event.at_ms);
                sink.add(Part::Access, &line);
            }
        }
        let id = EventId { seq, index: u32::MAX };
        sink.is_at(Cursor { generation, id });
        let started = line::of_act(&Act::new("start", By::server()), &sink.place(), wall_ms);
        // `FILE` shows where the lines about leases continue; `FILE.admin` is kept for longer.
        sink.add(Part::Access, &started);
        sink.add(Part::Admin, &started);
        self.flush(&mut sink);
    }

    fn tell(&self, (generation, seq): (u64, u64), facts: &[Fact], at_ms: i64) {
        if facts.is_empty() {
            return;
        }
        let mut sink = self.sink();
        for (index, fact) in facts.iter().enumerate() {
            let id = EventId { seq, index: index as u32 };
            sink.add(Part::Access, &line::of_fact(self.names, generation, id, fact, at_ms));
            sink.is_at(Cursor { generation, id });
        }
        self.flush(&mut sink);
    }

    fn tell_late(&self, generation: u64, events: &mut dyn Iterator<Item = &Event>) {
        let mut sink = self.sink();
        let Some(mut last) = sink.last().filter(|last| last.generation == generation) else {
            return;
        };
        let after = last.id;
        for event in events.filter(|event| event.id > after) {
            let line = line::of_fact(self.names, generation, event.id, &event.fact, event.at_ms);
            sink.add(Part::Access, &line);
            last = Cursor { generation, id: event.id };
        }
        sink.is_at(last);
        self.flush(&mut sink);
    }

    fn tell_late_record(&self, (generation, seq): (u64, u64), facts: &[Fact], at_ms: i64) {
        let id = EventId { seq, index: 0 };
        let is_new = |last: Cursor| last.generation == generation && last.id < id;
        if self.sink().last().is_some_and(is_new) {
            self.tell((generation, seq), facts, at_ms);
        }
    }

    fn mismatched(&self, mismatch: &Mismatch, wall_ms: i64) {
        self.refuse(&mismatch.by, line::MISMATCH, wall_ms, |after| {
            line::of_mismatch(mismatch, after, wall_ms)
        });
    }

    fn refuses(&self) -> bool {
        self.options.failure == OnFailure::Refuse && self.is_failing.load(Relaxed)
    }
}
