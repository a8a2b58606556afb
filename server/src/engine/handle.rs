//! All that the rest of the server sees of the engine.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use leasehold_core::{Command, GrantKind, LeaseNumber, Outcome, Timestamp};
use tokio::sync::{oneshot, watch};

use super::event::EventLog;
use super::message::{Ask, Error, Message, Question, Read, Reply, Ticket};
use crate::clock::LockClock;
use crate::metrics::{Metrics, Op};

/// Cheap to clone; hides the channels.
#[derive(Clone)]
pub struct EngineHandle {
    sender: SyncSender<Message>,
    shared: Arc<Shared>,
    clock: LockClock,
    events: Arc<EventLog>,
    metrics: Arc<Metrics>,
}

/// What both sides look at without a message.
pub(super) struct Shared {
    /// Requests nobody waits for any more, and grants nobody was told of.
    gone: Mutex<Vec<Gone>>,
    next_ticket: AtomicU64,
    is_stopping: AtomicBool,
    /// Lock time at which the loop last went round.
    pub(super) alive_at: AtomicU64,
    /// How many requests are in the channel.
    pub(super) n_queued: AtomicU64,
    pub(super) stopped: watch::Sender<bool>,
}

/// Whose connection is gone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gone {
    /// Whoever asked this.
    Ticket(Ticket),
    /// Whoever this was granted to.
    Grant(LeaseNumber),
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            gone: Mutex::default(),
            next_ticket: AtomicU64::new(1),
            is_stopping: AtomicBool::new(false),
            alive_at: AtomicU64::new(0),
            n_queued: AtomicU64::new(0),
            stopped: watch::Sender::new(false),
        }
    }
}

impl Shared {
    pub(super) fn take_gone(&self) -> Vec<Gone> {
        std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn add_gone(&self, gone: Gone) {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).push(gone);
    }

    pub(super) fn has_gone(&self) -> bool {
        !self.gone.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(SeqCst)
    }
}

impl EngineHandle {
    pub(super) fn new(
        sender: SyncSender<Message>,
        shared: Arc<Shared>,
        clock: LockClock,
        events: Arc<EventLog>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { sender, shared, clock, events, metrics }
    }

    /// Applies a command. An acquire that waits is answered when its wait is over; dropping the future is
    /// going away.
    pub fn apply(&self, command: Command) -> Call {
        self.ask(Question::Apply(command))
    }

    /// Reads what is durable.
    pub fn read(&self, read: Read) -> Call {
        self.ask(Question::Read(read))
    }

    /// Could something be made durable right now?
    pub fn probe(&self) -> Call {
        self.ask(Question::Probe)
    }

    /// Lock time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A lock time as the wall clock shows it.
    pub fn wall_ms_of(&self, at: Timestamp) -> i64 {
        self.clock.wall_ms_of(at)
    }

    /// What happens, as it happens.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    /// Lock time at which the engine's loop last went round.
    pub fn alive_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.shared.alive_at.load(Relaxed))
    }

    /// Finish what was accepted, answer those who wait, and stop.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, SeqCst);
        self.wake();
    }

    /// Is the engine stopping, or has it stopped?
    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Returns when the engine has stopped, for whatever reason.
    pub async fn stopped(&self) {
        let mut stopped = self.shared.stopped.subscribe();
        // An error means that the engine is gone, which is what was waited for.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    fn ask(&self, question: Question) -> Call {
        let ticket = Ticket(self.shared.next_ticket.fetch_add(1, Relaxed));
        let (reply, receiver) = oneshot::channel();
        let ask = Ask { question, ticket, reply, sent_at: Instant::now() };
        let refused = match self.sender.try_send(Message::Ask(ask)) {
            Ok(()) => {
                self.shared.n_queued.fetch_add(1, Relaxed);
                None
            }
            Err(TrySendError::Full(Message::Ask(ask))) => {
                self.metrics.overloaded(Op::of(&ask.question));
                Some(Error::Overloaded)
            }
            Err(TrySendError::Full(Message::Wake)) => Some(Error::Overloaded),
            Err(TrySendError::Disconnected(_)) => Some(Error::Stopping),
        };
        Call { receiver, ticket, refused, handle: self.clone(), is_done: false }
    }

    fn wake(&self) {
        // A full channel wakes it as well.
        let _ = self.sender.try_send(Message::Wake);
    }
}

/// An answer on its way. Whoever drops it before it has come is gone: a waiter leaves the queue or is
/// parked, and a grant nobody was told of is given back.
#[must_use = "dropping a call takes it back"]
pub struct Call {
    receiver: oneshot::Receiver<Result<Reply, Error>>,
    ticket: Ticket,
    refused: Option<Error>,
    handle: EngineHandle,
    is_done: bool,
}

impl Future for Call {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.refused {
            self.is_done = true;
            return Poll::Ready(Err(error));
        }
        let answer = std::task::ready!(Pin::new(&mut self.receiver).poll(context));
        self.is_done = true;
        // A request the engine dropped unanswered may have been applied.
        Poll::Ready(answer.unwrap_or(Err(Error::Unknown)))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.is_done || self.refused.is_some() {
            return;
        }
        self.receiver.close();
        let gone = match self.receiver.try_recv() {
            Ok(Ok(Reply::Applied(Ok(Outcome::Granted(grant))))) if grant.kind == GrantKind::New => {
                Gone::Grant(grant.lease.id.number)
            }
            Ok(_) => return,
            Err(_) => Gone::Ticket(self.ticket),
        };
        self.handle.shared.add_gone(gone);
        self.handle.wake();
    }
}
