//! The audit file: who did what, from where, by which credential and rule, and who was refused.
//!
//! What happened to leases is told from the journal's facts, after they are durable and before anybody is answered.
//! Each line says how far it goes, so a start can go on where the last line ended: what a crash kept from being written
//! is told then, and nothing twice. Refusals and what admins do beside it are in no journal; they are written when they
//! happen.

mod catch_up;
mod file;
mod line;
mod sink;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use leasehold_core::Fact;

pub use file::rotated;
pub(crate) use line::{Act, By, Refused};
use sink::Sink;

use crate::engine::{Cursor, Event, EventId};
use crate::sync::lock;

/// Most bytes of one audit file, if nobody says otherwise.
pub const BYTES_MAX: u64 = 64 << 20;
/// How many older files are kept.
pub const KEEP: usize = 10;
/// How many refusals are written in one second; of others only how many there were.
pub const REFUSALS_PER_SECOND: u32 = 100;

/// What an audit file is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Where it is. Older ones are beside it: `audit.log.1` is the one before.
    pub file: PathBuf,
    /// It is put aside once it has so many bytes.
    pub bytes_max: u64,
    /// How many that were put aside are kept.
    pub keep: usize,
    /// What to do if it cannot be written.
    pub failure: OnFailure,
    /// Most refusals that are written in one second.
    pub refusals_per_second: u32,
}

impl Options {
    /// The usual for a file.
    pub fn new(file: impl Into<PathBuf>) -> Self {
        Self {
            file: file.into(),
            bytes_max: BYTES_MAX,
            keep: KEEP,
            failure: OnFailure::Refuse,
            refusals_per_second: REFUSALS_PER_SECOND,
        }
    }

    /// Says why the file could not be opened. Nothing is made.
    pub(crate) fn check(&self) -> Result<(), String> {
        Sink::check(self).map(drop)
    }
}

/// What to do if the file cannot be written. What could not be written already happened; this is about what is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFailure {
    /// Change nothing more that would have to be in it.
    Refuse,
    /// Go on, count what is missing, and warn.
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

/// An audit file that is open. Shared by all threads.
pub struct Audit {
    options: Options,
    sink: Mutex<Sink>,
    /// It could not be written the last time.
    is_failing: AtomicBool,
    n_failures: AtomicU64,
    n_lost: AtomicU64,
}

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    /// Writes that failed.
    pub(crate) n_failures: u64,
    /// Lines that are in no file.
    pub(crate) n_lost: u64,
    /// It cannot be written now.
    pub(crate) is_failing: bool,
}

impl Audit {
    /// Opens the file, or makes it; and finds out how far it goes.
    pub fn open(options: Options) -> Result<Arc<Self>, String> {
        let sink = Sink::open(&options)?;
        Ok(Arc::new(Self {
            options,
            sink: Mutex::new(sink),
            is_failing: AtomicBool::new(false),
            n_failures: AtomicU64::new(0),
            n_lost: AtomicU64::new(0),
        }))
    }

    /// A server begins that goes on after the record `seq`. What a store still knows of what happened and the file does
    /// not is told first; what only history knows is told too, without who asked for it.
    pub(crate) fn begin(
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
                sink.add(&line::of_fact(generation, event.id, &event.fact, event.at_ms));
            }
        }
        let id = EventId { seq, index: u32::MAX };
        sink.is_at(Cursor { generation, id });
        let started = line::of_act(&Act::new("start", By::server()), &sink.place(), wall_ms);
        sink.add(&started);
        self.flush(&mut sink);
    }

    /// Tells of a record's facts, in order.
    pub(crate) fn tell(&self, (generation, seq): (u64, u64), facts: &[Fact], at_ms: i64) {
        if facts.is_empty() {
            return;
        }
        let mut sink = self.sink();
        for (index, fact) in facts.iter().enumerate() {
            let id = EventId { seq, index: index as u32 };
            sink.add(&line::of_fact(generation, id, fact, at_ms));
            sink.is_at(Cursor { generation, id });
        }
        self.flush(&mut sink);
    }

    /// Tells of what this server wrote while it led, and could not tell then: what is in the file is not told again.
    pub(crate) fn tell_late<'e>(&self, generation: u64, events: impl Iterator<Item = &'e Event>) {
        let mut sink = self.sink();
        let Some(mut last) = sink.last().filter(|last| last.generation == generation) else {
            return;
        };
        let after = last.id;
        for event in events.filter(|event| event.id > after) {
            sink.add(&line::of_fact(generation, event.id, &event.fact, event.at_ms));
            last = Cursor { generation, id: event.id };
        }
        sink.is_at(last);
        self.flush(&mut sink);
    }

    /// The same of one record.
    pub(crate) fn tell_late_record(
        &self,
        (generation, seq): (u64, u64),
        facts: &[Fact],
        at_ms: i64,
    ) {
        let id = EventId { seq, index: 0 };
        let is_new = |last: Cursor| last.generation == generation && last.id < id;
        if self.sink().last().is_some_and(is_new) {
            self.tell((generation, seq), facts, at_ms);
        }
    }

    /// Somebody was refused.
    pub(crate) fn refused(&self, refused: &Refused<'_>, wall_ms: i64) {
        let mut sink = self.sink();
        if let Some(n_left_out) = sink.take_refusal(wall_ms, self.options.refusals_per_second) {
            if n_left_out > 0 {
                let left_out = Act::new("refusals left out", By::server()).detail("n", n_left_out);
                let left_out = line::of_act(&left_out, &sink.place(), wall_ms);
                sink.add(&left_out);
            }
            let line = line::of_refusal(refused, &sink.place(), wall_ms);
            sink.add(&line);
            self.flush(&mut sink);
        }
    }

    /// Somebody did something that is in no journal, or as an admin.
    pub(crate) fn acted(&self, act: &Act, wall_ms: i64) {
        let mut sink = self.sink();
        let line = line::of_act(act, &sink.place(), wall_ms);
        sink.add(&line);
        self.flush(&mut sink);
    }

    /// Is nothing to be changed now?
    pub(crate) fn refuses(&self) -> bool {
        self.options.failure == OnFailure::Refuse && self.is_failing.load(Relaxed)
    }

    /// Tries again to write what could not be written.
    pub(crate) fn retry(&self) {
        if self.is_failing.load(Relaxed) {
            self.flush(&mut self.sink());
        }
    }

    /// Opens the file again: somebody may have put it aside. What came of it is logged.
    pub fn reopen(&self) {
        let mut sink = self.sink();
        sink.close();
        let was_failing = self.is_failing.load(Relaxed);
        self.flush(&mut sink);
        let (file, is_failing) = (self.options.file.display(), self.is_failing.load(Relaxed));
        match (was_failing, is_failing) {
            (false, false) => tracing::info!(%file, "the audit file was opened again"),
            (true, true) => tracing::error!(%file, "the audit file still cannot be written"),
            // That was said when it was noticed.
            (true, false) | (false, true) => {}
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            n_failures: self.n_failures.load(Relaxed),
            n_lost: self.n_lost.load(Relaxed),
            is_failing: self.is_failing.load(Relaxed),
        }
    }

    fn flush(&self, sink: &mut Sink) {
        match sink.flush(&self.options) {
            Ok(()) => {
                if self.is_failing.swap(false, Relaxed) {
                    tracing::warn!("the audit file can be written again");
                }
            }
            Err(error) => {
                self.n_failures.fetch_add(1, Relaxed);
                self.n_lost.fetch_add(sink.take_lost(), Relaxed);
                if !self.is_failing.swap(true, Relaxed) {
                    let (file, what) = (self.options.file.display(), self.options.failure);
                    tracing::error!(%file, %error, "the audit file cannot be written ({what})");
                }
            }
        }
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        lock(&self.sink)
    }
}
