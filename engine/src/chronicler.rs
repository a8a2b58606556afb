//! Writes the history of a server that shares its store, in a thread of its own.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_base::clock::LockClock;
use leasehold_base::sync::lock;

use super::event::EventLog;
use leasehold_store::history::{Bounds, Chronicle};
use leasehold_store::{Error, Event};

/// The interval between writes.
const EVERY: Duration = Duration::from_secs(1);

/// Settings of the history of a server that shares its store.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// The data directory.
    pub data: PathBuf,
    /// How much history is kept.
    pub bounds: Bounds,
}

/// The thread that writes the history. Dropping this ends the thread, after it has written all events.
pub(super) struct Chronicler {
    desk: Arc<HistoryJob>,
    /// `None` only while this is being dropped.
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

struct HistoryJob {
    options: HistoryOptions,
    book: Mutex<OpenHistory>,
    events: Arc<EventLog>,
    /// The clock by which old history is deleted.
    clock: LockClock,
}

struct OpenHistory {
    generation: u64,
    chronicle: Chronicle,
    /// The last problem that was logged.
    trouble: Option<String>,
}

impl Chronicler {
    /// Starts the thread with the events read so far: all events after the record `after`, up to `through`.
    pub(super) fn start(
        options: HistoryOptions,
        events: Arc<EventLog>,
        clock: LockClock,
        (told, after, through): (&[Event], u64, u64),
    ) -> Result<Self, Error> {
        let generation = events.generation();
        let chronicle = Chronicle::open(&options.data, generation, options.bounds)?;
        let mut book = OpenHistory { generation, chronicle, trouble: None };
        book.add(told.iter(), after, through);
        events.is_in_history(book.chronicle.through());
        let book = Mutex::new(book);
        let desk = Arc::new(HistoryJob { options, book, events, clock });
        let (stop, stopped) = channel();
        let same = desk.clone();
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(EVERY) {
                same.write();
            }
            same.write();
        };
        let thread = std::thread::Builder::new().name("history".into()).spawn(work);
        let thread = thread.map_err(|error| Error::Refused(error.to_string()))?;
        Ok(Self { desk, thread: Some((stop, thread)) })
    }

    /// Writes many events at once, before memory drops the older ones: all events after the record `after`, up to
    /// `through`.
    pub(super) fn add(&self, generation: u64, events: &[Event], after: u64, through: u64) {
        let mut book = self.desk.open(generation);
        book.add(events.iter(), after, through);
        self.desk.events.is_in_history(book.chronicle.through());
    }
}

impl Drop for Chronicler {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            // The thread has logged its problems itself.
            let _ = thread.join();
        }
    }
}

impl HistoryJob {
    /// Returns the history file for this generation. Starts a new one if the generation changed.
    fn open(&self, generation: u64) -> MutexGuard<'_, OpenHistory> {
        let mut book = lock(&self.book);
        if book.generation != generation {
            let HistoryOptions { data, bounds } = &self.options;
            match Chronicle::open(data, generation, *bounds) {
                Ok(chronicle) => *book = OpenHistory { generation, chronicle, trouble: None },
                Err(error) => book.say(error.to_string()),
            }
        }
        book
    }

    fn write(&self) {
        let generation = self.events.generation();
        let mut book = self.open(generation);
        if book.generation != generation {
            return;
        }
        let since = self.events.since(book.chronicle.through());
        if since.generation != generation {
            return;
        }
        book.add(since.events.iter().map(|event| &**event), since.after, since.through);
        book.forget(self.clock.moment().wall_ms);
        self.events.is_in_history(book.chronicle.through());
    }
}

impl OpenHistory {
    fn add<'e>(&mut self, events: impl Iterator<Item = &'e Event>, after: u64, through: u64) {
        match self.chronicle.add(events, after, through) {
            Ok(()) => self.trouble = None,
            Err(error) => self.say(error.to_string()),
        }
    }

    fn forget(&mut self, now_ms: i64) {
        if let Err(error) = self.chronicle.forget(now_ms) {
            self.say(error.to_string());
        }
    }

    /// Logs a problem once.
    fn say(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            tracing::error!(%why, "cannot write history");
            self.trouble = Some(why);
        }
    }
}
