//! Who does the next round.
//!
//! There is one writer, and whoever has it does a round with everything that was asked until then. Usually that is the
//! engine's own thread. But if it has nothing to do, waking it and being woken by it would take longer than the round
//! itself; so the flusher of a quiet worker does that round in its place, and hands over what was asked meanwhile.

use std::sync::{Arc, TryLockError};
use std::time::Duration;

use leasehold_core::mutant;

use super::Inbox;
use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Mutex, MutexGuard,
    Ordering::{Relaxed, SeqCst},
    lock, yield_now,
};

/// What the one writer does.
pub(crate) trait Work {
    /// How it ends.
    type End;
    /// A question.
    type Ask;

    /// A round with what is in the inbox, done by this worker or, `None`, by the engine's thread.
    fn round(&mut self, worker: Option<usize>) -> Round<Self::End>;

    /// How long nothing needs to be done if nobody asks, and until when, in lock time.
    fn rest(&self) -> (Duration, u64);

    /// Whether a round with so many questions is to wait for more of them.
    fn gathers(&mut self, n_asked: usize) -> Option<Gathers>;
}

/// A round that waits for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gathers {
    /// It is looked at again when there are so many questions,
    pub n_awaited: usize,
    /// or after so long.
    pub patience: Duration,
}

/// What a round was.
pub(crate) enum Round<E> {
    /// It took no longer than a worker may be held up.
    Quick,
    /// It took longer.
    Slow,
    /// Its outcome is not known yet, and nothing can be taken from the inbox until it is.
    Held,
    /// It was the last one. Nobody will be answered any more.
    Last(E),
}

/// When a worker does a round itself, and when the engine's thread lets others go first.
pub(crate) struct Habits {
    /// Rounds are so short, as a rule, that a worker may do any.
    pub is_near: bool,
    /// A round with so few requests is a quiet one: a single client, or one that gives a lock back and one that wants
    /// it.
    pub(crate) n_quiet_asks_max: usize,
    /// After so many quiet rounds the next one is taken for a quiet one too.
    pub n_quiet_rounds_min: u32,
    /// How often the engine's thread lets others go first between two rounds.
    pub n_yields_max: usize,
}

impl Default for Habits {
    fn default() -> Self {
        Self { is_near: true, n_quiet_asks_max: 2, n_quiet_rounds_min: 8, n_yields_max: 8 }
    }
}

/// The writer, and who has it.
pub(crate) struct Lead<W: Work> {
    /// Gone when the end has come.
    writer: Mutex<Option<W>>,
    ended: Mutex<Option<W::End>>,
    inbox: Arc<Inbox<W::Ask>>,
    habits: Habits,
    /// Until when the engine's thread sleeps if nobody wakes it, in lock time.
    sleeps_until: AtomicU64,
    /// The last round took long, or its outcome is not known yet.
    is_slow: AtomicBool,
    /// So many rounds in a row were quiet.
    n_quiet: AtomicU32,
    /// The next round waits until so many have asked, or for long enough: those before need not wake anybody.
    n_awaited: AtomicUsize,
}

impl<W: Work> Lead<W> {
    pub(crate) fn new(writer: W, inbox: Arc<Inbox<W::Ask>>, habits: Habits) -> Self {
        let lead = Self::vacant(inbox, habits);
        lead.install(writer);
        lead
    }

    /// Without a writer yet.
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

    /// A writer, in place of one that has ended or of none.
    pub(crate) fn install(&self, writer: W) {
        *lock(&self.writer) = Some(writer);
    }

    /// What the engine's thread does each time it is awake: rounds, until there is nothing to do. How long it may sleep
    /// then, if its bell does not ring; `None`: the end has come.
    pub(crate) fn turn(&self) -> Option<Duration> {
        loop {
            let (patience, must_wait) = self.rounds()?;
            // Whoever asked while we had the writer, and could not get it, relies on us.
            if must_wait || !self.inbox.has_asks() || mutant!(SleepWithoutLooking) {
                return Some(patience);
            }
        }
    }

    /// What a worker's flusher does each time its bell rings. A few questions are answered here, if nobody else is
    /// doing a round; otherwise the engine's thread is woken.
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
            // Whoever has it looks again after giving it up.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(_)) => true,
        };
        if must_wake || self.inbox.has_asks() && !mutant!(SleepWithoutLooking) {
            self.inbox.engine.ring();
        }
    }

    /// How it ended. `None`: somebody panicked during a round, or this was asked before.
    pub(crate) fn take_end(&self) -> Option<W::End> {
        // Whoever waits for the writer's answers learns by this that there are none.
        drop(lock(&self.writer).take());
        lock(&self.ended).take()
    }

    /// How long there is nothing to do then, and whether what is asked must wait meanwhile: because a round's outcome
    /// is not known yet, or because more are expected to ask.
    fn rounds(&self) -> Option<(Duration, bool)> {
        let mut writer = self.writer.lock().ok()?;
        loop {
            let gathers = |writer: &mut W| writer.gathers(self.inbox.n_asked());
            if let Some(Gathers { n_awaited, patience }) = writer.as_mut().and_then(gathers) {
                self.n_awaited.store(n_awaited, SeqCst);
                // Whoever was the last of them may not have known that.
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

    /// Those who were just answered are likely to ask again at once, and a round with all of them costs hardly more
    /// than one with the first. So others get the processor before us, until as many have asked or a few times; if
    /// nobody wants it, that takes no time.
    fn make_way(&self, n_answered: usize) {
        for _ in 0..self.habits.n_yields_max {
            yield_now();
            if self.inbox.n_asked() >= n_answered {
                return;
            }
        }
    }

    /// Is its outcome not known yet?
    fn round(&self, writer: &mut MutexGuard<'_, Option<W>>, worker: Option<usize>) -> bool {
        let n_asked = self.inbox.n_asked();
        let is_quiet = n_asked <= self.habits.n_quiet_asks_max;
        let n_quiet = if is_quiet { self.n_quiet.load(Relaxed) + 1 } else { 0 };
        self.n_quiet.store(n_quiet.min(self.habits.n_quiet_rounds_min), Relaxed);
        let Some(round) = writer.as_mut().map(|writer| writer.round(worker)) else { return false };
        let is_slow = !matches!(round, Round::Quick);
        // A round without a question is no proof that the next one is quick.
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
