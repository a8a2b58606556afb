//! What those who ask and whoever answers both look at.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread::Thread;

use leasehold_core::LeaseNumber;
use tokio::sync::watch;

use super::lock;
use super::mailbox::Slots;
use super::message::{Asked, Ticket};

pub(super) struct Shared {
    asks: Mutex<Asks>,
    /// How many there are.
    n_asked: AtomicUsize,
    n_asked_max: usize,
    /// Requests nobody waits for any more, and grants nobody was told of.
    gone: Mutex<Vec<Gone>>,
    next_ticket: AtomicU64,
    is_stopping: AtomicBool,
    /// Lock time at which there was last a round.
    pub(super) alive_at: AtomicU64,
    pub(super) stopped: watch::Sender<bool>,
    mailboxes: Mutex<Slots>,
    thread: OnceLock<Thread>,
}

#[derive(Default)]
struct Asks {
    list: Vec<Asked>,
    /// Nobody will look at them any more.
    is_closed: bool,
}

/// Why something cannot be asked.
pub(super) enum Refused {
    Full,
    Closed,
}

/// Whose connection is gone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gone {
    /// Whoever asked this.
    Ticket(Ticket),
    /// Whoever this was granted to.
    Grant(LeaseNumber),
}

impl Shared {
    pub(super) fn new(n_asked_max: usize) -> Self {
        Self {
            asks: Mutex::default(),
            n_asked: AtomicUsize::new(0),
            n_asked_max,
            gone: Mutex::default(),
            next_ticket: AtomicU64::new(1),
            is_stopping: AtomicBool::new(false),
            alive_at: AtomicU64::new(0),
            stopped: watch::Sender::new(false),
            mailboxes: Mutex::default(),
            thread: OnceLock::new(),
        }
    }

    pub(super) fn ticket(&self) -> Ticket {
        Ticket(self.next_ticket.fetch_add(1, Relaxed))
    }

    /// How many wait now.
    pub(super) fn ask(&self, ask: Asked) -> Result<usize, Refused> {
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
        Ok(n_asked)
    }

    /// The oldest, up to so many, into an empty list. The room it has is made use of again.
    pub(super) fn take_asks(&self, n_max: usize, taken: &mut Vec<Asked>) {
        let mut asks = lock(&self.asks);
        if asks.list.len() <= n_max {
            std::mem::swap(&mut asks.list, taken);
        } else {
            taken.extend(asks.list.drain(..n_max));
        }
        self.n_asked.store(asks.list.len(), Relaxed);
    }

    /// From here on nothing can be asked. What nobody looked at.
    pub(super) fn close(&self) -> Vec<Asked> {
        let mut asks = lock(&self.asks);
        asks.is_closed = true;
        self.n_asked.store(0, Relaxed);
        std::mem::take(&mut asks.list)
    }

    pub(super) fn n_asked(&self) -> usize {
        self.n_asked.load(Relaxed)
    }

    /// As [`Self::n_asked`], and sure to see what was asked by whoever found the lead taken before it was given up.
    pub(super) fn has_asks(&self) -> bool {
        !lock(&self.asks).list.is_empty()
    }

    pub(super) fn take_gone(&self) -> Vec<Gone> {
        std::mem::take(&mut *lock(&self.gone))
    }

    pub(super) fn add_gone(&self, gone: Gone) {
        lock(&self.gone).push(gone);
    }

    pub(super) fn has_gone(&self) -> bool {
        !lock(&self.gone).is_empty()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(SeqCst)
    }

    pub(super) fn stop(&self) {
        self.is_stopping.store(true, SeqCst);
        self.wake();
    }

    pub(super) fn mailboxes(&self) -> MutexGuard<'_, Slots> {
        lock(&self.mailboxes)
    }

    /// The thread that answers when nobody else does.
    pub(super) fn set_thread(&self, thread: Thread) {
        // There is only ever one.
        let _ = self.thread.set(thread);
    }

    /// Has that thread look round.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
