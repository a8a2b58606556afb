//! Decides which thread does the next round.
//!
//! There is one writer. The thread that has locked it does a round with all requests queued until then. Usually that is
//! the engine's own thread. On a quiet server, waking that thread would take longer than the round itself. So the
//! flusher of a worker then does the round, and passes on the requests that arrive in the meantime.

use std::sync::{Arc, TryLockError};
use std::time::Duration;

use leasehold_core::mutant;

use super::Inbox;
use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard,
    Ordering::{Relaxed, SeqCst},
    lock, yield_now,
};

/// The work of the one writer.
pub(crate) trait Work {
    /// The final result.
    type End;
    /// A request.
    type Ask;

    /// Does a round with the requests in the inbox, on this worker or, with `None`, on the engine's thread.
    fn round(&mut self, worker: Option<usize>) -> Round<Self::End>;

    /// Returns how long there is nothing to do without new requests, and until when, in lock time.
    fn rest(&self) -> (Duration, u64);

    /// Returns whether a round with this many requests should wait for more.
    fn gathers(&mut self, n_asked: usize) -> Option<Gathers>;
}

/// The conditions under which a delayed round starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gathers {
    /// Number of queued requests at which the round is reconsidered.
    pub n_awaited: usize,
    /// Time after which the round is reconsidered.
    pub patience: Duration,
}

/// The result of a round.
pub(crate) enum Round<E> {
    /// The round took no longer than a worker can be blocked.
    Quick,
    /// The round took longer.
    Slow,
    /// Its outcome is not known yet. No request can be processed until it is.
    Held,
    /// The last round. No further request will be answered.
    Last(E),
}

/// Settings: when workers do rounds themselves, and when the engine's thread yields.
pub(crate) struct Habits {
    /// Rounds are usually so short that a worker can do them.
    pub is_near: bool,
    /// Maximum requests of a quiet round: a single client, or one that releases a lock and one that acquires it.
    pub(crate) n_quiet_asks_max: usize,
    /// After this many quiet rounds in a row, a worker may do the next one.
    pub n_quiet_rounds_min: u32,
    /// How often the engine's thread yields between two rounds.
    pub n_yields_max: usize,
}

impl Default for Habits {
    fn default() -> Self {
        Self { is_near: true, n_quiet_asks_max: 2, n_quiet_rounds_min: 8, n_yields_max: 8 }
    }
}

/// The writer, locked by the thread that does a round.
pub(crate) struct Lead<W: Work> {
    /// `None` after the last round.
    writer: Mutex<Option<W>>,
    ended: Mutex<Option<W::End>>,
    inbox: Arc<Inbox<W::Ask>>,
    habits: Habits,
    /// Lock time until which the engine's thread sleeps without being woken.
    sleeps_until: AtomicU64,
    /// The last round was slow, or its outcome is not known yet.
    is_slow: AtomicBool,
    /// The number of quiet rounds in a row.
    n_quiet: AtomicU32,
    /// The next round is delayed until this many requests are queued, so earlier requests need not wake a thread.
    n_awaited: AtomicUsize,
}

impl<W: Work> Lead<W> {
    pub(crate) fn new(writer: W, inbox: Arc<Inbox<W::Ask>>, habits: Habits) -> Self {
        let lead = Self::vacant(inbox, habits);
        lead.install(writer);
        lead
    }

    /// Creates it without a writer.
    pub(crate) fn vacant(inbox: Arc<Inbox<W::Ask>>, habits: Habits) -> Self {
        Self {
            writer: Mutex::new(None),
            ended: Mutex::new(None),
            inbox,
            habits,
            sleeps_until: AtomicU64::new(0),
            is_slow: AtomicBool::new(false),
            n_quiet: AtomicU32::new(0),
            n_awaited: AtomicUsize::new(0),
        }
    }

    /// Adds or replaces the writer.
    pub(crate) fn install(&self, writer: W) {
        *lock(&self.writer) = Some(writer);
    }

    /// The engine thread's turn: does rounds until there is nothing to do. Returns how long the thread can sleep unless
    /// its bell rings, or `None` after the last round.
    pub(crate) fn turn(&self) -> Option<Duration> {
        loop {
            let (patience, must_wait) = self.rounds()?;
            // A worker that queued a request while we had the writer relies on us to process it.
            if must_wait || !self.inbox.has_asks() || mutant!(SleepWithoutLooking) {
                return Some(patience);
            }
        }
    }

    /// A flusher's turn, each time its bell rings. Processes a few requests here if no other thread is doing a round.
    /// Otherwise wakes the engine's thread.
    pub(crate) fn flush(&self, worker: usize) {
        let n_asked = self.inbox.n_asked();
        let n_awaited = self.n_awaited.load(SeqCst);
        let is_last_unheard = mutant!(GatherWithoutWaking) && n_asked == n_awaited;
        if n_asked == 0 || n_asked < n_awaited || is_last_unheard {
            return;
        }
        let Habits { is_near, n_quiet_asks_max, n_quiet_rounds_min, .. } = self.habits;
        let is_quiet =
            n_asked <= n_quiet_asks_max && self.n_quiet.load(Relaxed) >= n_quiet_rounds_min;
        if !is_quiet || !is_near || self.is_slow.load(Relaxed) {
            return self.inbox.engine.ring();
        }
        let must_wake = match self.writer.try_lock() {
            Ok(mut writer) => {
                self.round(&mut writer, Some(worker));
                let rest = writer.as_ref().map(W::rest);
                rest.is_none_or(|(_, until)| until < self.sleeps_until.load(Relaxed))
                    && !mutant!(DueWithoutWaking)
            }
            // The thread that has the writer checks the inbox again after releasing it.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(_)) => true,
        };
        if must_wake || self.inbox.has_asks() && !mutant!(SleepWithoutLooking) {
            self.inbox.engine.ring();
        }
    }

    /// Returns the result of the last round. `None` if a round panicked or the result was already taken.
    pub(crate) fn take_end(&self) -> Option<W::End> {
        // Drops the writer and with it the pending replies, so that their clients learn that there is no answer.
        drop(lock(&self.writer).take());
        lock(&self.ended).take()
    }

    /// Does rounds until none is due. Returns how long there is nothing to do, and whether queued requests must wait
    /// for that long: because a round's outcome is unknown, or because more requests are expected. `None` after the
    /// last round.
    fn rounds(&self) -> Option<(Duration, bool)> {
        let mut writer = self.writer.lock().ok()?;
        loop {
            let gathers = |writer: &mut W| writer.gathers(self.inbox.n_asked());
            if let Some(Gathers { n_awaited, patience }) = writer.as_mut().and_then(gathers) {
                self.n_awaited.store(n_awaited, SeqCst);
                // The last of the expected requests might have arrived before the number was published.
                if self.inbox.n_asked() < n_awaited {
                    return Some((patience, true));
                }
                continue;
            }
            self.n_awaited.store(0, SeqCst);
            let n_answered = self.inbox.n_asked();
            let is_held = self.round(&mut writer, None);
            let going_on = writer.as_ref()?;
            if is_held || self.inbox.n_asked() == 0 {
                let (patience, until) = going_on.rest();
                self.sleeps_until.store(until, Relaxed);
                return Some((patience, is_held));
            }
            self.make_way(n_answered);
        }
    }

    /// Yields the processor so that clients that were just answered can send their next requests. A round with all of
    /// them costs hardly more than one with the first. Returns when as many requests are queued as were answered, or
    /// after a few yields. If no other thread is ready, that takes no time.
    fn make_way(&self, n_answered: usize) {
        for _ in 0..self.habits.n_yields_max {
            yield_now();
            if self.inbox.n_asked() >= n_answered {
                return;
            }
        }
    }

    /// Does a round. Returns whether its outcome is not known yet.
    fn round(&self, writer: &mut MutexGuard<'_, Option<W>>, worker: Option<usize>) -> bool {
        let n_asked = self.inbox.n_asked();
        let is_quiet = n_asked <= self.habits.n_quiet_asks_max;
        let n_quiet = if is_quiet { self.n_quiet.load(Relaxed) + 1 } else { 0 };
        self.n_quiet.store(n_quiet.min(self.habits.n_quiet_rounds_min), Relaxed);
        let Some(round) = writer.as_mut().map(|writer| writer.round(worker)) else { return false };
        let is_slow = !matches!(round, Round::Quick);
        // A round without requests does not show that the next one will be quick.
        if is_slow || n_asked > 0 {
            self.is_slow.store(is_slow, Relaxed);
        }
        let is_held = matches!(round, Round::Held);
        if let Round::Last(end) = round {
            **writer = None;
            *lock(&self.ended) = Some(end);
        }
        is_held
    }
}
