//! What happened lately, for those who watch.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::Fact;
use tokio::sync::broadcast;

/// How many events a reader may be behind before it misses some.
const LAG_MAX: usize = 4096;

/// One event.
#[derive(Debug)]
pub struct Event {
    /// Grows by one with each; jumps with each start of the server.
    pub number: u64,
    /// What happened, and to whom.
    pub fact: Fact,
    /// When, in epoch milliseconds.
    pub at_ms: i64,
}

/// The latest events, and who is told of new ones.
pub struct EventLog {
    generation: u64,
    n_max: usize,
    latest: Mutex<Latest>,
    live: broadcast::Sender<Arc<Event>>,
}

struct Latest {
    next: u64,
    events: VecDeque<Arc<Event>>,
}

/// From where to go on.
pub struct Since {
    /// What is still known from there on.
    pub missed: Vec<Arc<Event>>,
    /// Why something may be missing before that, if it may.
    pub gap: Option<&'static str>,
    /// What happens from now on.
    pub live: broadcast::Receiver<Arc<Event>>,
}

impl EventLog {
    pub(super) fn new(generation: u64, epoch: u64, n_max: usize) -> Self {
        let latest = Latest { next: (epoch << 40) + 1, events: VecDeque::new() };
        let (live, _) = broadcast::channel(LAG_MAX);
        Self { generation, n_max, latest: Mutex::new(latest), live }
    }

    /// Differs between a store and one restored from its backup.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Everything after the event `since` of this generation; with `None`, only what is to come.
    pub fn since(&self, since: Option<(u64, u64)>) -> Since {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let live = self.live.subscribe();
        let Some((generation, number)) = since else {
            return Since { missed: Vec::new(), gap: None, live };
        };
        if generation != self.generation {
            let gap = Some("the server was restored from a backup");
            return Since { missed: latest.events.iter().cloned().collect(), gap, live };
        }
        let oldest = latest.events.front().map_or(latest.next, |event| event.number);
        let gap = if number.saturating_add(1) < oldest {
            Some("older events are no longer kept")
        } else if number >= latest.next {
            Some("this event has not happened")
        } else {
            None
        };
        let missed = latest.events.iter().filter(|event| event.number > number);
        Since { missed: missed.cloned().collect(), gap, live }
    }

    pub(super) fn add(&self, fact: Fact, at_ms: i64) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let event = Arc::new(Event { number: latest.next, fact, at_ms });
        latest.next += 1;
        if latest.events.len() >= self.n_max {
            latest.events.pop_front();
        }
        if self.n_max > 0 {
            latest.events.push_back(event.clone());
        }
        // Whoever begins to watch takes the same lock, so nobody can have come since.
        if self.live.receiver_count() > 0 {
            let _ = self.live.send(event);
        }
    }
}
