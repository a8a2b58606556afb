//! Delivers replies to the connections that wait for them.
//!
//! A worker is a thread that serves many connections. It has a mailbox, which receives all its replies of a batch at
//! once. So the worker is woken once per batch, and wakes its own connections at almost no cost.

use std::future::poll_fn;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::ask::Reply;
use super::error::Error;
use super::rounds::{Bell, Tray};
use super::undelivered::Undelivered;

/// The answer to a request.
pub(super) type Answered = Result<Told, Error>;

/// A reply, with the guard of the grant in it.
#[derive(Debug)]
pub struct Told {
    pub(super) reply: Reply,
    pub(super) undelivered: Option<Undelivered>,
}

/// Where the reply to a request goes.
pub(super) struct ReplyTo {
    pub(super) sender: oneshot::Sender<Answered>,
    /// The worker through whose mailbox the reply goes; `None`: it is sent directly.
    pub(super) worker: Option<usize>,
}

impl ReplyTo {
    /// Returns whether the client no longer waits for the reply.
    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends the reply directly. If the client is gone, the guard in the reply releases its grant.
    pub(super) fn tell(self, answered: Answered) {
        drop(self.sender.send(answered));
    }
}

/// A reply and its destination.
type Addressed = (ReplyTo, Answered);

/// The worker's end of its mailbox.
pub struct Mailbox {
    desk: Arc<Desk>,
}

/// The state that the engine shares with one worker.
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

    /// Hands replies to the waiting connections. Never returns. Run it on the worker's thread.
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

/// The desks of all workers, by number.
pub(super) type Desks = Vec<Arc<Desk>>;

/// The replies of one batch, grouped by worker.
#[derive(Default)]
pub(super) struct Outbox {
    /// The worker that runs this round. Its own replies are delivered directly.
    pub(super) at: Option<usize>,
    sorted: Vec<Vec<Addressed>>,
    /// Number of clients answered since this was last reset.
    pub(super) n_told: usize,
    /// How many of the answered clients were granted a lock they had waited for.
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

    /// Sends all replies.
    pub(super) fn send(&mut self, desks: &Desks) {
        for (desk, answers) in desks.iter().zip(&mut self.sorted) {
            if !answers.is_empty() {
                desk.tray.put(answers);
            }
        }
    }
}
