//! Finds the events that a returning reader missed, a few at a time, so that a slow reader uses little memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{EventLog, Interest, Latest, Next};
use leasehold_store::{Event, EventId};

/// Maximum missed events that are kept for one reader.
const FOUND_MAX: usize = 8;
/// Maximum events that are searched before other tasks get their turn.
const LOOK_MAX: usize = 1024;

/// The events that a reader missed while it was disconnected and has not received yet.
pub(super) struct Missed {
    generation: u64,
    /// Events up to this one were searched.
    after: EventId,
    /// Later events come from the reader's topic.
    until: EventId,
    found: VecDeque<Arc<Event>>,
}

impl Missed {
    /// The events after `after`, up to the latest one.
    pub(super) fn new(
        generation: u64,
        after: EventId,
        latest: &Latest,
        interest: &Interest,
    ) -> Self {
        let until = latest.events.back().map_or(after, |event| event.id);
        let mut missed = Self { generation, after, until, found: VecDeque::new() };
        missed.find(latest, interest);
        missed
    }

    /// Returns the next missed event.
    pub(super) fn next(&mut self, log: &EventLog, interest: &Interest) -> Option<Next> {
        while self.found.is_empty() && self.after < self.until {
            let latest = log.latest();
            if log.generation() != self.generation || latest.forgotten > self.after {
                // The store was replaced. No more missed events come, and the topic reports a gap.
                let is_same = log.generation() == self.generation;
                self.after = if is_same { latest.forgotten } else { self.until };
                return Some(Next::Gap("too slow: older events are no longer kept".into()));
            }
            self.find(&latest, interest);
        }
        self.found.pop_front().map(Next::Event)
    }

    fn find(&mut self, latest: &Latest, interest: &Interest) {
        let first = latest.events.partition_point(|event| event.id <= self.after);
        let mut n_looked = 0;
        for event in latest.events.range(first..) {
            if event.id > self.until || self.found.len() == FOUND_MAX || n_looked == LOOK_MAX {
                break;
            }
            n_looked += 1;
            self.after = event.id;
            if interest.covers(&event.fact.lock) {
                self.found.push_back(event.clone());
            }
        }
        if n_looked == 0 {
            self.after = self.until;
        }
    }
}
