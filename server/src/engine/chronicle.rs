//! Each server that shares a store keeps its own history: what happened in the records that it read or wrote, on disk
//! after they are gone from memory and from the store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use super::event::EventLog;
use crate::store::{self, history};

/// How often what happened is written.
const EVERY: Duration = Duration::from_secs(1);

/// The thread that writes it.
pub(super) struct Chronicle {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Chronicle {
    /// Begins to write in this folder.
    pub(super) fn begin(
        events: Arc<EventLog>,
        data: &Path,
        bounds: history::Bounds,
    ) -> Result<Self, store::Error> {
        let store = format!("shared-{:x}", events.generation());
        let mut writer = history::Writer::open(data, &store, bounds)?;
        events.is_recorded(writer.last_seq());
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let life = move || {
            loop {
                let is_last = ends.load(SeqCst);
                write(&mut writer, &events);
                if is_last {
                    return;
                }
                std::thread::park_timeout(EVERY);
            }
        };
        let thread = std::thread::Builder::new().name("history".into()).spawn(life);
        let thread = thread.map_err(|error| store::Error::Refused(error.to_string()))?;
        Ok(Self { is_over, thread })
    }

    /// Writes what is left.
    pub(super) fn end(self) {
        self.is_over.store(true, SeqCst);
        self.thread.thread().unpark();
        // What it has to say it has said.
        let _ = self.thread.join();
    }
}

fn write(writer: &mut history::Writer, events: &EventLog) {
    let (unrecorded, through) = events.after(writer.last_seq());
    let mut block = writer.begin();
    unrecorded.iter().for_each(|event| block.add(event));
    match writer.add(block, through) {
        Ok(()) => events.is_recorded(through),
        // It is missed, and holds up nothing.
        Err(error) => tracing::error!(%error, through, "history could not be written"),
    }
}
