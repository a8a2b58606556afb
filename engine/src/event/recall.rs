//! What is known of earlier records: read by a start, begun anew after a restore, and handed to a history.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::EventLog;
use leasehold_store::{Event, EventId};

/// What happened after one record and up to another.
pub struct Since {
    pub generation: u64,
    /// What happened before is not known here any more.
    pub after: u64,
    pub through: u64,
    pub events: Vec<Arc<Event>>,
}

impl EventLog {
    /// What is known of the records up to this one, when nobody reads yet.
    pub(crate) fn recall(&self, told_after: u64, seq: u64, told: Vec<Event>) {
        let mut latest = self.latest();
        latest.seq = seq;
        latest.forgotten = EventId { seq: told_after.min(seq), index: u32::MAX };
        for event in told {
            latest.keep(Arc::new(event), self.n_max, seq.min(self.in_history.load(Relaxed)));
        }
    }

    /// The store is of another generation: nothing that happened in the one before belongs to it, and its records may
    /// have the numbers of others.
    pub(crate) fn begin_anew(&self, generation: u64, told_after: u64) {
        let mut latest = self.latest();
        if self.generation.swap(generation, Relaxed) != generation {
            latest.skip(told_after, &self.bells);
        }
        drop(latest);
        self.bells.ring();
    }

    /// What is known of the records after this one, for a history.
    pub fn since(&self, seq: u64) -> Since {
        let latest = self.latest();
        let after = seq.max(latest.forgotten.seq.min(latest.seq));
        let is_later = |event: &&Arc<Event>| event.id.seq > after;
        let events = latest.events.iter().filter(is_later).cloned().collect();
        let generation = self.generation();
        Since { generation, after, through: latest.seq, events }
    }

    /// Everything up to this record is in history: it need not be kept here.
    pub(crate) fn is_in_history(&self, through: u64) {
        self.in_history.store(through, Relaxed);
    }
}
