//! The queue of requests that are not in a round yet.

use leasehold_core::mutant;

use super::Bell;
use crate::sync::{AtomicUsize, Mutex, Ordering::Relaxed, lock};

/// The queued requests in order of arrival, and the bell of the engine's thread.
pub(crate) struct Inbox<A> {
    asks: Mutex<Asks<A>>,
    /// The number of queued requests.
    n_asked: AtomicUsize,
    n_asked_max: usize,
    /// With this many queued requests, the engine's thread is woken instead of waiting for a worker that has other
    /// work.
    n_at_once: usize,
    /// Wakes the engine's thread, which does all rounds that no worker does.
    pub engine: Bell,
}

struct Asks<A> {
    list: Vec<A>,
    /// No further request will be processed.
    is_closed: bool,
}

/// Why a request was not queued.
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

    /// Queues a request, and wakes the asking worker's flusher or else the engine's thread.
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

    /// Queues all of these requests or none, and empties the list. They are processed in one round, unless a full batch
    /// was queued before.
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

    /// Moves up to `n_max` of the oldest requests into an empty list, whose memory is reused.
    pub(crate) fn take(&self, n_max: usize, taken: &mut Vec<A>) {
        let mut asks = lock(&self.asks);
        if asks.list.len() <= n_max {
            std::mem::swap(&mut asks.list, taken);
        } else {
            taken.extend(asks.list.drain(..n_max));
        }
        self.n_asked.store(asks.list.len(), Relaxed);
    }

    /// Rejects further requests, and returns those that are not in a round.
    pub(crate) fn close(&self) -> Vec<A> {
        lock(&self.asks).is_closed = true;
        self.drain()
    }

    /// Returns all queued requests, for a caller that answers them without a round.
    pub(crate) fn drain(&self) -> Vec<A> {
        let mut asks = lock(&self.asks);
        self.n_asked.store(0, Relaxed);
        std::mem::take(&mut asks.list)
    }

    /// Accepts requests again.
    pub(crate) fn open(&self) {
        lock(&self.asks).is_closed = false;
    }

    /// The number of queued requests. Might miss requests that other threads queued a moment ago.
    pub(crate) fn n_asked(&self) -> usize {
        self.n_asked.load(Relaxed)
    }

    /// Counts the queued requests that match.
    pub(crate) fn count(&self, is_like_this: impl Fn(&A) -> bool) -> usize {
        lock(&self.asks).list.iter().filter(|ask| is_like_this(ask)).count()
    }

    /// Returns whether there are queued requests. A caller that has just released the writer sees every request whose
    /// sender found the writer taken.
    pub(crate) fn has_asks(&self) -> bool {
        !lock(&self.asks).list.is_empty()
    }
}
