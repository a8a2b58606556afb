//! Answers on their way back.
//!
//! A thread that serves many connections has a mailbox: it gets all of a batch's answers for it at once, is woken once,
//! and wakes the connections itself, which costs it next to nothing.

use std::sync::{Arc, Mutex};

use leasehold_core::{GrantKind, LeaseNumber};
use tokio::sync::{Notify, oneshot};

use super::ask::Reply;
use super::handle::EngineHandle;
use super::lead;
use super::lock;
use super::message::Error;
use super::shared::Gone;

/// What whoever asked is told.
pub(super) type Verdict = Result<Reply, Error>;

/// Where an answer goes.
pub(super) struct Return {
    pub(super) sender: oneshot::Sender<Verdict>,
    /// By way of this mailbox, or else straight.
    pub(super) mailbox: Option<usize>,
}

impl Return {
    /// Nobody waits for it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Tells it straight away. `Some`: nobody was there to be told of this new grant.
    pub(super) fn tell(self, verdict: Verdict) -> Option<LeaseNumber> {
        let granted = new_grant(&verdict);
        self.sender.send(verdict).err().and(granted)
    }
}

/// What a verdict grants, if it is what its receiver has waited for and not a replay.
pub(super) fn new_grant(verdict: &Verdict) -> Option<LeaseNumber> {
    let grant = verdict.as_ref().ok()?.grant()?;
    (grant.kind == GrantKind::New).then_some(grant.lease.id.number)
}

/// An answer and where it goes.
type Letter = (Return, Verdict);

/// The answers for one thread.
pub struct Mailbox {
    slot: Arc<Slot>,
    engine: EngineHandle,
}

/// Where the engine puts them.
#[derive(Default)]
pub(super) struct Slot {
    letters: Mutex<Vec<Letter>>,
    is_full: Notify,
}

impl Mailbox {
    pub(super) fn new(slot: Arc<Slot>, engine: EngineHandle) -> Self {
        Self { slot, engine }
    }

    /// Hands out what comes, for ever. To be run on the thread that asks.
    pub async fn deliver(self) {
        let mut letters = Vec::new();
        loop {
            self.slot.is_full.notified().await;
            std::mem::swap(&mut letters, &mut lock(&self.slot.letters));
            for (back, verdict) in letters.drain(..) {
                if let Some(lease) = back.tell(verdict) {
                    self.engine.is_gone(Gone::Grant(lease));
                }
            }
        }
    }
}

/// The engine's side: the slot of each mailbox.
pub(super) type Slots = Vec<Arc<Slot>>;

/// The answers of one batch, sorted by mailbox.
#[derive(Default)]
pub(super) struct Outbox {
    sorted: Vec<Vec<Letter>>,
}

impl Outbox {
    /// `Some`: nobody was there to be told of this new grant.
    pub(super) fn add(&mut self, back: Return, verdict: Verdict) -> Option<LeaseNumber> {
        let Some(n) = back.mailbox.filter(|_| back.mailbox != lead::here()) else {
            return back.tell(verdict);
        };
        if self.sorted.len() <= n {
            self.sorted.resize_with(n + 1, Vec::new);
        }
        self.sorted[n].push((back, verdict));
        None
    }

    /// Sends everything off.
    pub(super) fn send(&mut self, slots: &Slots) {
        for (slot, letters) in slots.iter().zip(&mut self.sorted) {
            if !letters.is_empty() {
                lock(&slot.letters).append(letters);
                slot.is_full.notify_one();
            }
        }
    }
}
