//! Counts the bytes of the events that wait for all readers.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use leasehold_store::Event;

/// The approximate size of an event without its strings.
const EVENT_BYTES: usize = 512;
const COPIES: usize = 3;

/// Shared by all topics. An event that several topics keep counts once for each.
pub(super) struct Backlog {
    n_bytes_max: usize,
    n_bytes: AtomicUsize,
    n_topics: AtomicUsize,
}

impl Backlog {
    pub(super) fn new(n_bytes_max: usize) -> Self {
        Self { n_bytes_max, n_bytes: AtomicUsize::new(0), n_topics: AtomicUsize::new(0) }
    }

    /// The approximate size of an event.
    pub(super) fn weight(event: &Event) -> usize {
        let fact = &event.fact;
        let (lock, owner) = (&fact.lock, &fact.owner);
        let reason = fact.reason.as_ref().map_or(0, |reason| reason.len());
        let names = lock.namespace.len() + lock.name.len();
        EVENT_BYTES + COPIES * (names + owner.principal.len() + owner.instance.len() + reason)
    }

    /// Returns whether one more event is too much for a topic with this many bytes. Once half of the budget is used,
    /// each topic can have at most an equal share of the other half.
    pub(super) fn is_too_much(&self, n_of_topic: usize, n_more: usize) -> bool {
        let (n_bytes, half) = (self.n_bytes.load(Relaxed), self.n_bytes_max / 2);
        let part = half / self.n_topics.load(Relaxed).max(1);
        n_bytes + n_more > self.n_bytes_max || n_bytes > half && n_of_topic + n_more > part
    }

    /// Adds bytes; returns `false` if they exceed the budget.
    pub(super) fn add(&self, n_bytes: usize) -> bool {
        let add = |before: usize| Some(before + n_bytes).filter(|n| *n <= self.n_bytes_max);
        self.n_bytes.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    pub(super) fn remove(&self, n_bytes: usize) {
        self.n_bytes.fetch_sub(n_bytes, Relaxed);
    }

    pub(super) fn topic_begins(&self) {
        self.n_topics.fetch_add(1, Relaxed);
    }

    pub(super) fn topic_ends(&self) {
        self.n_topics.fetch_sub(1, Relaxed);
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes.load(Relaxed)
    }
}
