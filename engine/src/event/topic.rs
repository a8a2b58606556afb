//! Those who follow one namespace or one lock, and what they have not read yet.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use leasehold_base::sync::lock;

use super::backlog::Backlog;
use super::bell::Bells;
use leasehold_store::Event;

/// How many events a reader may be behind before it misses some.
const LAG_MAX: usize = 4096;
/// How many events a reader can be behind, however many bytes other topics have, as long as the budget is not used up.
const LAG_MIN: usize = 1;

/// One namespace or one lock that somebody follows.
pub(super) struct Topic {
    state: Mutex<State>,
    backlog: Arc<Backlog>,
}

#[derive(Default)]
struct State {
    /// Counts events from when the topic was first followed; this many are no longer there.
    n_dropped: u64,
    events: VecDeque<Arc<Event>>,
    /// The bytes of these events.
    n_bytes: usize,
    n_readers: usize,
    n_asleep: usize,
    next_reader: u64,
    /// Readers that have read everything, by the bell of their worker.
    asleep: HashMap<usize, HashMap<u64, Waker>>,
    /// Those there is news for, until their worker wakes them.
    called: HashMap<usize, Vec<(u64, Waker)>>,
}

/// What a reader finds at its position.
pub(super) enum Found {
    /// This event.
    Event(Arc<Event>),
    /// So many events are no longer there.
    Missed(u64),
    /// Nothing yet.
    Nothing,
}

impl Topic {
    pub(super) fn new(backlog: Arc<Backlog>) -> Self {
        backlog.topic_begins();
        Self { state: Mutex::default(), backlog }
    }

    /// One more reader.
    pub(super) fn join(&self) {
        self.state().n_readers += 1;
    }

    /// One reader less; `true` if none is left.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.state();
        state.n_readers -= 1;
        state.n_readers == 0
    }

    /// A number for a reader, and the position of what comes next.
    pub(super) fn enter(&self) -> (u64, u64) {
        let mut state = self.state();
        state.next_reader += 1;
        (state.next_reader, state.n_dropped + state.events.len() as u64)
    }

    /// Adds an event, and has the workers of all who sleep wake them.
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

    /// At least one event will never be told: every reader is to know that it missed something.
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

    /// What is at `position`; if nothing is there yet, `waker` is woken when something is.
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
            // Everybody has read everything.
            state.clear(&self.backlog);
        }
        Found::Nothing
    }

    /// The reader does not want to be woken any more.
    pub(super) fn forget(&self, bell: usize, reader: u64) {
        let mut state = self.state();
        let asleep = state.asleep.get_mut(&bell).and_then(|asleep| asleep.remove(&reader));
        state.n_asleep -= usize::from(asleep.is_some());
        if let Some(called) = state.called.get_mut(&bell) {
            called.retain(|(called, _)| *called != reader);
        }
    }

    /// Wakes all who sleep by this bell.
    pub(super) fn wake(&self, bell: usize) {
        let called = self.state().called.remove(&bell).unwrap_or_default();
        called.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// `false`: there is none.
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
