//! What was asked and is in no round yet.

use leasehold_core::mutant;

use super::Bell;
use crate::sync::{AtomicUsize, Mutex, Ordering::Relaxed, lock};

/// The questions, first come first served, and the bell of the engine's thread.
pub(crate) struct Inbox<A> {
    asks: Mutex<Asks<A>>,
    /// How many there are.
    n_asked: AtomicUsize,
    n_asked_max: usize,
    /// So many are not left to a worker that still has other things to do.
    n_at_once: usize,
    /// Wakes the thread that does every round nobody else does.
    pub engine: Bell,
}

struct Asks<A> {
    list: Vec<A>,
    /// Nobody will look at them any more.
    is_closed: bool,
}

/// Why something cannot be asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    Full,
    Closed,
}

impl<A> Inbox<A> {
    pub(crate) fn new(n_asked_max: usize, n_at_once: usize) -> Self {
        Self {
            asks: Mutex::new(Asks { list: Vec::new(), is_closed: false }),
            n_asked: AtomicUsize::new(0),
            n_asked_max,
            n_at_once,
            engine: Bell::default(),
        }
    }

    /// Asks, and wakes whoever will see to it: the asking worker's flusher, or else the engine's thread.
    pub(crate) fn ask(&self, ask: A, flusher: Option<&Bell>) -> Result<(), Refused> {
        let mut asks = lock(&self.asks);
        if asks.is_closed {
            return Err(Refused::Closed);
        }
        if asks.list.len() >= self.n_asked_max {
            return Err(Refused::Full);
        }
        asks.list.push(ask);
        let n_asked = asks.list.len();
        self.n_asked.store(n_asked, Relaxed);
        drop(asks);
        self.wake(n_asked - 1, n_asked, flusher);
        Ok(())
    }

    /// Asks all of these or none, leaving an empty list: they are in one round, unless a full batch was asked before.
    pub(crate) fn ask_all(&self, all: &mut Vec<A>, flusher: Option<&Bell>) -> Result<(), Refused> {
        let mut asks = lock(&self.asks);
        if asks.is_closed {
            return Err(Refused::Closed);
        }
        let n_before = asks.list.len();
        if n_before + all.len() > self.n_asked_max {
            return Err(Refused::Full);
        }
        asks.list.append(all);
        let n_asked = asks.list.len();
        self.n_asked.store(n_asked, Relaxed);
        drop(asks);
        self.wake(n_before, n_asked, flusher);
        Ok(())
    }

    fn wake(&self, n_before: usize, n_asked: usize, flusher: Option<&Bell>) {
        let is_at_once = n_before < self.n_at_once && self.n_at_once <= n_asked;
        match flusher {
            Some(_) if mutant!(AskWithoutWaking) => {}
            Some(flusher) if !is_at_once => flusher.ring(),
            _ => self.engine.ring(),
        }
    }

    /// The oldest, up to so many, into an empty list. The room it has is made use of again.
    pub(crate) fn take(&self, n_max: usize, taken: &mut Vec<A>) {
        let mut asks = lock(&self.asks);
        if asks.list.len() <= n_max {
            std::mem::swap(&mut asks.list, taken);
        } else {
            taken.extend(asks.list.drain(..n_max));
        }
        self.n_asked.store(asks.list.len(), Relaxed);
    }

    /// From here on nothing can be asked. What was in no round.
    pub(crate) fn close(&self) -> Vec<A> {
        lock(&self.asks).is_closed = true;
        self.drain()
    }

    /// All of them, for somebody who answers them without a round.
    pub(crate) fn drain(&self) -> Vec<A> {
        let mut asks = lock(&self.asks);
        self.n_asked.store(0, Relaxed);
        std::mem::take(&mut asks.list)
    }

    /// From here on it can be asked again.
    pub(crate) fn open(&self) {
        lock(&self.asks).is_closed = false;
    }

    /// How many wait. What other threads did a moment ago may be missing.
    pub(crate) fn n_asked(&self) -> usize {
        self.n_asked.load(Relaxed)
    }

    /// How many of those that wait are like this.
    pub(crate) fn count(&self, is_like_this: impl Fn(&A) -> bool) -> usize {
        lock(&self.asks).list.iter().filter(|ask| is_like_this(ask)).count()
    }

    /// Does anything wait? Sure to see what was asked by whoever found the writer taken before it was given up.
    pub(crate) fn has_asks(&self) -> bool {
        !lock(&self.asks).list.is_empty()
    }
}
