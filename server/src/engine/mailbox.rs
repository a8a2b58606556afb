//! Answers on their way back.
//!
//! A worker, a thread that serves many connections, has a mailbox: it gets all of a batch's answers for it at once, is
//! woken once, and wakes the connections itself, which costs it next to nothing.

use std::future::poll_fn;
use std::sync::Arc;

use leasehold_core::{GrantKind, LeaseNumber};
use tokio::sync::oneshot;

use super::ask::Reply;
use super::message::Error;
use super::rounds::{Bell, Tray};
use super::shared::{Gone, Shared};

/// What whoever asked is told.
pub(super) type Verdict = Result<Reply, Error>;

/// Where an answer goes.
pub(super) struct Return {
    pub(super) sender: oneshot::Sender<Verdict>,
    /// By way of this worker's mailbox, or else straight.
    pub(super) worker: Option<usize>,
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

/// The answers for one worker.
pub struct Mailbox {
    desk: Arc<Desk>,
    shared: Arc<Shared>,
}

/// What the engine and one worker share.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) tray: Tray<Letter>,
    /// Wakes the worker's flusher.
    pub(super) flusher: Bell,
}

impl Mailbox {
    pub(super) fn new(desk: Arc<Desk>, shared: Arc<Shared>) -> Self {
        Self { desk, shared }
    }

    /// Hands out what comes, for ever. To be run on the worker's thread.
    pub async fn deliver(self) {
        let mut letters = Vec::new();
        loop {
            poll_fn(|context| self.desk.tray.bell.poll(context)).await;
            self.desk.tray.take(&mut letters);
            for (back, verdict) in letters.drain(..) {
                if let Some(lease) = back.tell(verdict) {
                    self.shared.is_gone(Gone::Grant(lease));
                }
            }
        }
    }
}

/// The desk of each worker.
pub(super) type Desks = Vec<Arc<Desk>>;

/// The answers of one batch, sorted by worker.
#[derive(Default)]
pub(super) struct Outbox {
    /// The worker that does this round: its own answers need no way round.
    pub(super) at: Option<usize>,
    sorted: Vec<Vec<Letter>>,
}

impl Outbox {
    /// `Some`: nobody was there to be told of this new grant.
    pub(super) fn add(&mut self, back: Return, verdict: Verdict) -> Option<LeaseNumber> {
        let Some(n) = back.worker.filter(|_| back.worker != self.at) else {
            return back.tell(verdict);
        };
        if self.sorted.len() <= n {
            self.sorted.resize_with(n + 1, Vec::new);
        }
        self.sorted[n].push((back, verdict));
        None
    }

    /// Sends everything off.
    pub(super) fn send(&mut self, desks: &Desks) {
        for (desk, letters) in desks.iter().zip(&mut self.sorted) {
            if !letters.is_empty() {
                desk.tray.put(letters);
            }
        }
    }
}
