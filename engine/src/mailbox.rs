//! Answers on their way back.
//!
//! A worker, a thread that serves many connections, has a mailbox: it gets all of a batch's answers for it at once, is
//! woken once, and wakes the connections itself, which costs it next to nothing.

use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::ask::Reply;
use super::error::Error;
use super::rounds::{Bell, Tray};
use super::undelivered::Undelivered;

/// What whoever asked is told.
pub(super) type Answered = Result<Told, Error>;

/// A reply, with the guard of what it grants.
#[derive(Debug)]
pub struct Told {
    pub(super) reply: Reply,
    pub(super) undelivered: Option<Undelivered>,
}

/// Where an answer goes.
pub(super) struct ReplyTo {
    pub(super) sender: oneshot::Sender<Answered>,
    /// By way of this worker's mailbox, or else straight.
    pub(super) worker: Option<usize>,
}

impl ReplyTo {
    /// Nobody waits for it any more.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Tells it straight away. If nobody is there to be told, what it grants is given back by its guard.
    pub(super) fn tell(self, answered: Answered) {
        drop(self.sender.send(answered));
    }
}

/// An answer and where it goes.
type Addressed = (ReplyTo, Answered);

/// The answers for one worker.
pub struct Mailbox {
    desk: Arc<Desk>,
}

/// What the engine and one worker share.
#[derive(Default)]
pub(super) struct Desk {
    pub(super) tray: Tray<Addressed>,
    /// Wakes the worker's flusher.
    pub(super) flusher: Bell,
}

impl Mailbox {
    pub(super) fn new(desk: Arc<Desk>) -> Self {
        Self { desk }
    }

    /// Hands out what comes, for ever. To be run on the worker's thread.
    pub async fn deliver(self) {
        let mut answers = Vec::new();
        loop {
            poll_fn(|context| self.desk.tray.bell.poll(context)).await;
            self.desk.tray.take(&mut answers);
            for (to, answered) in answers.drain(..) {
                to.tell(answered);
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
    sorted: Vec<Vec<Addressed>>,
    /// How many were told something since this was last set to nothing,
    pub(super) n_told: usize,
    /// and how many of them were given what they had waited for.
    pub(super) n_woken: usize,
}

impl Outbox {
    pub(super) fn add(&mut self, to: ReplyTo, answered: Answered) {
        self.n_told += 1;
        let Some(n) = to.worker.filter(|_| to.worker != self.at) else {
            return to.tell(answered);
        };
        if self.sorted.len() <= n {
            self.sorted.resize_with(n + 1, Vec::new);
        }
        self.sorted[n].push((to, answered));
    }

    /// Sends everything off.
    pub(super) fn send(&mut self, desks: &Desks) {
        for (desk, answers) in desks.iter().zip(&mut self.sorted) {
            if !answers.is_empty() {
                desk.tray.put(answers);
            }
        }
    }
}
