//! The readers of one namespace or one lock, and the events they have not read yet.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use leasehold_base::sync::lock;

use super::backlog::Backlog;
use super::bell::Bells;
use leasehold_store::Event;

/// Maximum number of events a reader can be behind before it misses some.
const LAG_MAX: usize = 4096;
/// Number of events a reader can always be behind while the budget is not used up, however many bytes other topics
/// have.
const LAG_MIN: usize = 1;

/// One namespace or one lock that has readers.
pub(super) struct Topic {
    state: Mutex<State>,
    backlog: Arc<Backlog>,
}

#[derive(Default)]
struct State {
    /// The number of dropped events. Positions count from when the topic got its first reader.
    n_dropped: u64,
    events: VecDeque<Arc<Event>>,
    /// The size of `events` in bytes.
    n_bytes: usize,
    n_readers: usize,
    n_asleep: usize,
    next_reader: u64,
    /// Readers that have read everything, by the bell of their worker.
    asleep: HashMap<usize, HashMap<u64, Waker>>,
    /// Readers with news that their worker has yet to wake.
    called: HashMap<usize, Vec<(u64, Waker)>>,
}

/// The state at a reader's position.
pub(super) enum Found {
    /// The next event.
    Event(Arc<Event>),
    /// This many events were dropped.
    Missed(u64),
    /// There is no event yet.
    Nothing,
}

impl Topic {
    pub(super) fn new(backlog: Arc<Backlog>) -> Self {
        backlog.topic_begins();
        Self { state: Mutex::default(), backlog }
    }

    /// Adds a reader.
    pub(super) fn join(&self) {
        self.state().n_readers += 1;
    }

    /// Removes a reader. Returns whether it was the last one.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.state();
        state.n_readers -= 1;
        state.n_readers == 0
    }

    /// Returns a number for a new reader, and its start position.
    pub(super) fn enter(&self) -> (u64, u64) {
        let mut state = self.state();
        state.next_reader += 1;
        (state.next_reader, state.n_dropped + state.events.len() as u64)
    }

    /// Adds an event and schedules waking the sleeping readers.
    pub(super) fn push(self: &Arc<Self>, event: &Arc<Event>, bells: &Bells) {
        let mut state = self.state();
        let n_more = Backlog::weight(event);
        while state.events.len() == LAG_MAX
            || state.events.len() >= LAG_MIN && self.backlog.is_too_much(state.n_bytes, n_more)
        {
            state.drop_oldest(&self.backlog);
        }
        while !self.backlog.add(n_more) {
            if !state.drop_oldest(&self.backlog) {
                // Readers that have read everything up to here get a gap.
                state.n_dropped += 1;
                return self.call_all(&mut state, bells);
            }
        }
        state.n_bytes += n_more;
        state.events.push_back(event.clone());
        self.call_all(&mut state, bells);
    }

    /// Counts an event that will never be published, so that every reader gets a gap.
    pub(super) fn skip(self: &Arc<Self>, bells: &Bells) {
        let mut state = self.state();
        state.n_dropped += 1;
        state.clear(&self.backlog);
        self.call_all(&mut state, bells);
    }

    fn call_all(self: &Arc<Self>, state: &mut State, bells: &Bells) {
        for (bell, asleep) in std::mem::take(&mut state.asleep) {
            if !asleep.is_empty() {
                state.called.entry(bell).or_default().extend(asleep);
                bells.add_topic(bell, self);
            }
        }
        state.n_asleep = 0;
    }

    /// Returns the state at `position`. If there is no event yet, registers `waker` to be woken when one is added.
    pub(super) fn find(&self, position: u64, bell: usize, reader: u64, waker: &Waker) -> Found {
        let mut state = self.state();
        if position < state.n_dropped {
            return Found::Missed(state.n_dropped - position);
        }
        if let Some(event) = state.events.get((position - state.n_dropped) as usize) {
            return Found::Event(event.clone());
        }
        let asleep = state.asleep.entry(bell).or_default();
        if asleep.insert(reader, waker.clone()).is_none() {
            state.n_asleep += 1;
        }
        if state.n_asleep == state.n_readers {
            // All readers have read all events.
            state.clear(&self.backlog);
        }
        Found::Nothing
    }

    /// Removes a sleeping reader.
    pub(super) fn forget(&self, bell: usize, reader: u64) {
        let mut state = self.state();
        let asleep = state.asleep.get_mut(&bell).and_then(|asleep| asleep.remove(&reader));
        state.n_asleep -= usize::from(asleep.is_some());
        if let Some(called) = state.called.get_mut(&bell) {
            called.retain(|(called, _)| *called != reader);
        }
    }

    /// Wakes all sleeping readers of this bell.
    pub(super) fn wake(&self, bell: usize) {
        let called = self.state().called.remove(&bell).unwrap_or_default();
        called.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Drops the oldest event; returns `false` if there was none.
    fn drop_oldest(&mut self, backlog: &Backlog) -> bool {
        let Some(event) = self.events.pop_front() else { return false };
        let n_bytes = Backlog::weight(&event);
        backlog.remove(n_bytes);
        self.n_bytes -= n_bytes;
        self.n_dropped += 1;
        true
    }

    fn clear(&mut self, backlog: &Backlog) {
        backlog.remove(std::mem::take(&mut self.n_bytes));
        self.n_dropped += self.events.len() as u64;
        self.events.clear();
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        self.backlog.remove(self.state().n_bytes);
        self.backlog.topic_ends();
    }
}
