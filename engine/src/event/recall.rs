//! Fills the event log with the events of earlier records: at startup, after a restore, and for the history.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::EventLog;
use leasehold_store::{Event, EventId};

/// The events after one record, up to another.
pub struct Since {
    pub generation: u64,
    /// Events up to this record are no longer kept here.
    pub after: u64,
    pub through: u64,
    pub events: Vec<Arc<Event>>,
}

impl EventLog {
    /// Adds the events up to the record `seq` before there are any readers.
    pub(crate) fn recall(&self, told_after: u64, seq: u64, told: Vec<Event>) {
        let mut latest = self.latest();
        latest.seq = seq;
        latest.forgotten = EventId { seq: told_after.min(seq), index: u32::MAX };
        for event in told {
            latest.keep(Arc::new(event), self.n_max, seq.min(self.in_history.load(Relaxed)));
        }
    }

    /// Starts over because the store has another generation. Events of the previous generation do not belong to it, and
    /// its records can reuse their numbers.
    pub(crate) fn start_over(&self, generation: u64, told_after: u64) {
        let mut latest = self.latest();
        if self.generation.swap(generation, Relaxed) != generation {
            latest.skip(told_after, &self.bells);
        }
        drop(latest);
        self.bells.ring();
    }

    /// Returns the events after this record, for the history.
    pub fn since(&self, seq: u64) -> Since {
        let latest = self.latest();
        let after = seq.max(latest.forgotten.seq.min(latest.seq));
        let is_later = |event: &&Arc<Event>| event.id.seq > after;
        let events = latest.events.iter().filter(is_later).cloned().collect();
        let generation = self.generation();
        Since { generation, after, through: latest.seq, events }
    }

    /// Notes that the history contains all events up to this record, so they need not be kept here.
    pub(crate) fn is_in_history(&self, through: u64) {
        self.in_history.store(through, Relaxed);
    }
}
