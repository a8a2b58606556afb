//! Who does the next round.
//!
//! There is one writer, and whoever has it does a round with everything that was asked until then. Usually that is the
//! engine's own thread. But if it has nothing to do, waking it and being woken by it would take longer than the round
//! itself; so a worker that has run out of other work does that round in its place, and hands over what was asked
//! meanwhile.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use super::lock;
use super::shared::Shared;
use super::writer::Writer;
use crate::store;

/// A worker must not be held up by a disk that takes longer than this: then all rounds are the engine's thread's.
const QUICK_MAX: Duration = Duration::from_millis(1);
/// A round with so few requests is a quiet one: a single client, or one that gives a lock back and one that wants it.
const FEW: usize = 2;
/// After so many quiet rounds the next one is taken for a quiet one too.
const N_QUIET_MIN: u32 = 8;
/// How often we let others go first between two rounds.
const N_YIELDS_MAX: usize = 8;
/// So many need not wait until the worker that asked has done everything else.
pub(super) const CROWD: usize = 32;

thread_local! {
    /// The mailbox of this thread, if it does rounds.
    static HERE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The mailbox of this thread, if it is one that does rounds when it has nothing else to do.
pub(super) fn here() -> Option<usize> {
    HERE.get()
}

pub(super) fn lead_here(mailbox: Option<usize>) {
    HERE.set(mailbox);
}

pub(super) struct Lead {
    /// Gone when the end has come.
    writer: Mutex<Option<Writer>>,
    ended: Mutex<Option<Result<(), store::Error>>>,
    shared: Arc<Shared>,
    /// The store is so quick that workers may do rounds.
    is_near: bool,
    /// Until when the engine's thread sleeps if nobody wakes it, in lock time.
    sleeps_until: AtomicU64,
    /// The last round took long.
    is_slow: AtomicBool,
    /// So many rounds in a row were quiet.
    n_quiet: AtomicU32,
}

impl Lead {
    pub(super) fn new(writer: Writer, shared: Arc<Shared>) -> Self {
        Self {
            is_near: writer.is_near(),
            writer: Mutex::new(Some(writer)),
            ended: Mutex::default(),
            shared,
            sleeps_until: AtomicU64::new(0),
            is_slow: AtomicBool::new(false),
            n_quiet: AtomicU32::new(0),
        }
    }

    /// The life of the engine's thread: rounds for as long as there is anything to do.
    pub(super) fn run(&self) -> Result<(), store::Error> {
        self.shared.set_thread(std::thread::current());
        while let Some(patience) = self.rounds() {
            // Whoever asked while we had the writer relies on us.
            if !self.shared.has_asks() {
                std::thread::park_timeout(patience);
            }
        }
        let ended = lock(&self.ended).take();
        ended.unwrap_or_else(|| self.break_off())
    }

    /// Somebody panicked during a round.
    fn break_off(&self) -> Result<(), store::Error> {
        // Whoever waits for it or for the next one learns by this that there is no answer.
        drop((lock(&self.writer).take(), self.shared.close()));
        self.shared.stopped.send_replace(true);
        Err(store::Error::Unknown("a round was never finished".into()))
    }

    /// Does what there is to do. How long there is nothing more to do then; `None`: never.
    fn rounds(&self) -> Option<Duration> {
        let mut writer = self.writer.lock().ok()?;
        loop {
            let n_answered = self.shared.n_asked();
            self.round(&mut writer)?;
            if self.shared.n_asked() == 0 {
                let writer = writer.as_ref()?;
                let (patience, until) = writer.rest();
                self.sleeps_until.store(until, Relaxed);
                return Some(patience);
            }
            self.make_way(n_answered);
        }
    }

    /// Those who were just answered are likely to ask again at once, and a round with all of them costs hardly more
    /// than one with the first. So others get the processor before us, until as many have asked or a few times; if
    /// nobody wants it, that takes no time.
    fn make_way(&self, n_answered: usize) {
        for _ in 0..N_YIELDS_MAX {
            std::thread::yield_now();
            if self.shared.n_asked() >= n_answered {
                return;
            }
        }
    }

    /// Whatever was asked is seen to: here and now if it is little and nobody else is about.
    pub(super) fn step_in(&self) {
        let n_asked = self.shared.n_asked();
        if n_asked == 0 {
            return;
        }
        let is_quiet = n_asked <= FEW && self.n_quiet.load(Relaxed) >= N_QUIET_MIN;
        if !is_quiet || !self.is_near || self.is_slow.load(Relaxed) {
            return self.shared.wake();
        }
        {
            // Whoever has it looks again after giving it up.
            let mut writer = match self.writer.try_lock() {
                Ok(writer) => writer,
                Err(TryLockError::WouldBlock) => return,
                Err(TryLockError::Poisoned(_)) => return self.shared.wake(),
            };
            let _ = self.round(&mut writer);
            let must_wake = writer.as_ref().is_none_or(|writer| {
                let (_, until) = writer.rest();
                until < self.sleeps_until.load(Relaxed)
            });
            if must_wake {
                self.shared.wake();
            }
        }
        if self.shared.has_asks() {
            self.shared.wake();
        }
    }

    /// `None`: the end has come.
    fn round(&self, writer: &mut MutexGuard<'_, Option<Writer>>) -> Option<()> {
        let n_quiet = if self.shared.n_asked() > FEW { 0 } else { self.n_quiet.load(Relaxed) + 1 };
        self.n_quiet.store(n_quiet.min(N_QUIET_MIN), Relaxed);
        let began = Instant::now();
        let result = match writer.as_mut()?.round() {
            Ok(true) => {
                self.is_slow.store(began.elapsed() > QUICK_MAX, Relaxed);
                return Some(());
            }
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        let ended = writer.take()?.end(result);
        *lock(&self.ended) = Some(ended);
        None
    }
}
