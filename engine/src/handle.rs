//! The engine's interface to the rest of the server.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use leasehold_auth::Permitted;
use leasehold_base::clock::{self, LockClock};
use leasehold_base::sync::lock;
use leasehold_core::{Asker, Span, Timestamp, mutant};
use tokio::sync::{mpsc, oneshot, watch};

use super::archive::ReadHistory;
use super::ask::Ask;
use super::directory::Directory;
use super::error::Error;
use super::event::{Bell, EventLog, Interest, Reader};
use super::mailbox::{Answered, Desk, Mailbox, ReplyTo, Told};
use super::message::{self, Ticket};
use super::metrics::{EngineMetrics, Op};
use super::rounds::{Bell as RoundsBell, Lead, Refused};
use super::shared::{Asking, Gone, Shared, Whereabouts};
use super::writer::Writer;
use leasehold_store::{Cursor, Event, EventId, Health};

/// Maximum wait for a follower to read what a client has seen elsewhere.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);
/// The engine's loop counts as stuck after this long without a round.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// A handle to the engine. Cheap to clone.
#[derive(Clone)]
pub struct EngineHandle(pub(super) Arc<Inner>);

#[derive(Clone)]
pub(super) struct Inner {
    shared: Arc<Shared>,
    _asking: Arc<Asking>,
    lead: Arc<Lead<Writer>>,
    clock: LockClock,
    events: Arc<EventLog>,
    metrics: Arc<EngineMetrics>,
    health: Arc<Health>,
    pub(super) directory: Arc<Directory>,
    /// The worker that owns this handle, if any: its number and reply queue.
    worker: Option<(usize, Arc<Desk>)>,
    /// Wakes the worker's readers.
    bell: Option<Bell>,
}

/// A permitted request, and its caller if the audit records it.
type Parts<A> = (A, Option<Arc<Asker>>);

impl EngineHandle {
    pub(super) fn new(
        lead: Arc<Lead<Writer>>,
        shared: Arc<Shared>,
        clock: LockClock,
        events: Arc<EventLog>,
        metrics: Arc<EngineMetrics>,
    ) -> Self {
        let _asking = Arc::new(Asking(shared.clone()));
        let (worker, bell, health, directory) = (None, None, Arc::default(), Arc::default());
        Self(Arc::new(Inner {
            shared,
            _asking,
            lead,
            clock,
            events,
            metrics,
            health,
            directory,
            worker,
            bell,
        }))
    }

    /// Returns a handle for a worker, which is a thread that serves many connections. That thread must run the
    /// mailbox's [`Mailbox::deliver`] and this handle's [`Self::flush`] and [`Self::wake_readers`].
    pub fn with_mailbox(&self) -> (Self, Mailbox) {
        let desk = Arc::<Desk>::default();
        let mut desks = self.0.shared.desks();
        desks.push(desk.clone());
        let worker = Some((desks.len() - 1, desk.clone()));
        drop(desks);
        let bell = Some(self.0.events.bell());
        let handle = Self(Arc::new(Inner { worker, bell, ..Inner::clone(&self.0) }));
        (handle, Mailbox::new(desk))
    }

    pub(super) fn with_health(&self, health: Arc<Health>) -> Self {
        Self(Arc::new(Inner { health, ..Inner::clone(&self.0) }))
    }

    /// The health of the store.
    #[inline]
    pub fn health(&self) -> &Arc<Health> {
        &self.0.health
    }

    /// Processes or passes on the worker's requests. Never returns.
    ///
    /// Run it as a separate task on the worker's thread. The first request wakes it. All other ready tasks run first,
    /// so it finds as many requests as possible.
    pub fn flush(&self) -> impl Future<Output = ()> + Send + use<> {
        // This future must not keep the engine alive, so it holds no handle.
        let (lead, worker) = (self.0.lead.clone(), self.0.worker.clone());
        async move {
            let Some((worker, desk)) = worker else { return };
            loop {
                poll_fn(|context| desk.flusher.poll(context)).await;
                lead.flush(worker);
            }
        }
    }

    /// The clock that decides when leases expire.
    #[inline]
    pub fn clock(&self) -> &LockClock {
        &self.0.clock
    }

    /// Lock time now.
    #[inline]
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// The current instant, independent of lock time.
    #[inline]
    pub fn instant(&self) -> clock::Instant {
        self.0.clock.instant()
    }

    /// Converts an instant to lock time, by the leader's clock.
    #[inline]
    pub fn at(&self, instant: clock::Instant) -> Timestamp {
        self.0.clock.at(instant)
    }

    /// Converts lock time to wall-clock time.
    #[inline]
    pub fn wall_ms_of(&self, at: Timestamp) -> i64 {
        self.0.clock.wall_ms_of(at)
    }

    /// The current wall-clock time. Locks do not depend on it, but credentials expire by it.
    #[inline]
    pub fn wall_ms(&self) -> i64 {
        self.0.clock.wall_ms()
    }

    /// The generation of the store. It changes when the store is restored from a backup.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.events.generation()
    }

    /// The last record whose events were published.
    #[inline]
    pub fn told_through(&self) -> u64 {
        self.0.events.told_through()
    }

    /// Waits until this server has read this record, or for a limited time.
    pub async fn follow_to(&self, seq: u64) {
        let followed = self.0.events.followed_to(seq);
        let _ = tokio::time::timeout(CATCH_UP_MAX, followed).await;
    }

    /// The number of events kept for returning readers.
    pub fn n_kept_events(&self) -> usize {
        self.0.events.n_kept()
    }

    /// The bytes of the events that wait for readers.
    pub fn n_backlog_bytes(&self) -> usize {
        self.0.events.n_backlog_bytes()
    }

    /// Returns past events from memory: see [`EventLog::recent`].
    pub fn recent(
        &self,
        asked: &ReadHistory,
        before: Option<EventId>,
        n_max: usize,
    ) -> (Vec<Arc<Event>>, EventId) {
        self.0.events.recent(before, n_max, |event| asked.wants(event))
    }

    /// Returns all future notes of leases. Needs no permission, because the operator configured the receiver: see
    /// [`EventLog::take_notes`].
    pub fn take_notes(&self, n_max: usize) -> mpsc::Receiver<Arc<Event>> {
        self.0.events.take_notes(n_max)
    }

    /// Returns how many notes are waiting, and how many were dropped.
    pub fn n_notes(&self) -> (usize, u64) {
        self.0.events.n_notes()
    }

    /// Follows the events of `interest` after `since`, or only new ones without `since`.
    pub fn follow(&self, interest: Permitted<Interest>, since: Option<Cursor>) -> Reader {
        self.0.events.follow(interest.into_inner(), since, self.0.bell.as_ref())
    }

    /// On a follower, waits until it has read the events up to `cursor`, for a limited time. A client that comes from a
    /// server that has read more must not be told that an event has not happened.
    pub async fn catch_up_to(&self, cursor: Cursor) {
        if self.is_following()
            && cursor.generation == self.generation()
            && !mutant!(CursorAheadNotAwaited)
        {
            self.follow_to(cursor.id.seq).await;
        }
    }

    /// Wakes the worker's readers when there are events for them. Never returns. Run it on the worker's thread.
    pub fn wake_readers(&self) -> impl Future<Output = ()> + Send + use<> {
        let bell = self.0.bell.clone();
        async move {
            if let Some(bell) = bell {
                bell.answer().await;
            }
        }
    }

    /// Returns whether the engine's loop is running, as opposed to stuck.
    pub fn is_alive(&self) -> bool {
        let alive_at = Timestamp::from_nanos(self.0.shared.alive_at.load(Relaxed));
        let silent = Duration::from_nanos(self.now().since(alive_at).as_nanos());
        // A follower can take long to read many records, and still answers requests in the meantime.
        self.is_following() || silent < STUCK_AFTER
    }

    /// Stops the engine after it has processed the accepted requests and answered the waiters.
    pub fn stop(&self) {
        self.0.shared.stop();
    }

    /// Returns whether another server leads, or none, so that this one cannot answer requests.
    #[inline]
    pub fn is_following(&self) -> bool {
        self.0.shared.is_following()
    }

    /// Returns the remaining part of a wait that started when the request was received.
    pub fn left_of(&self, wait: Span, received: clock::Instant) -> Span {
        if wait == Span::ZERO {
            return wait;
        }
        let held = u64::try_from(self.instant().since(received).as_nanos()).unwrap_or(u64::MAX);
        let left = wait.as_nanos().saturating_sub(held);
        // Not zero, so that the client is told that its wait ended, not that it did not ask to wait.
        Span::from_nanos(left).max(Span::from_millis(1)).min(wait)
    }

    /// Returns whether this server leads and is not stopping.
    #[inline]
    pub fn is_leading(&self) -> bool {
        !self.is_following() && !self.is_stopping()
    }

    /// The address of the leader, and its changes.
    pub fn whereabouts(&self) -> watch::Receiver<Whereabouts> {
        self.0.shared.whereabouts()
    }

    /// How long ago a shared store last confirmed that no other server has taken over.
    pub fn unconfirmed_for(&self) -> Duration {
        let confirmed = Timestamp::from_nanos(self.0.shared.confirmed_at.load(Relaxed));
        Duration::from_nanos(self.now().since(confirmed).as_nanos())
    }

    /// On a follower, how long ago it had last read all records; `None` if it never had.
    pub fn behind_for(&self) -> Option<Duration> {
        let whole_at = *lock(&self.0.shared.whole_at);
        whole_at.map(|at| self.instant().since(at))
    }

    #[inline]
    pub(super) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Returns whether the engine is stopping or has stopped.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.0.shared.is_stopping()
    }

    /// Returns when this server can no longer answer requests: another server leads, or the store has not confirmed
    /// this leader for the length of its lease. A client that waits here might wait in vain and has to send its request
    /// again.
    pub async fn unsure(&self) {
        self.0.shared.unsure().await;
    }

    /// Returns when the engine has stopped, for any reason.
    pub async fn stopped(&self) {
        let mut stopped = self.0.shared.stopped.subscribe();
        // An error means that the engine is gone, so it has stopped.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Sends a request. Dropping the returned future cancels it: a waiter leaves the queue.
    #[inline]
    pub fn ask<A: Ask>(&self, ask: Permitted<A>) -> Call<A> {
        self.send(ask.into_parts())
    }

    #[inline]
    pub(super) fn send<A: Ask>(&self, ask: Parts<A>) -> Call<A> {
        let (asked, mut call) = self.prepare(ask);
        let op = Op::of(&asked.question);
        let refused = self.0.shared.inbox.ask(asked, self.flusher());
        call.refused = refused.err().map(|refused| self.refused(refused, op));
        call
    }

    /// Starts a group of requests for one batch: see [`Together`].
    #[inline]
    pub fn together(&self) -> Together<'_> {
        Together { handle: self, asked: Vec::new() }
    }

    /// Creates a request for the queue, and the future of its answer.
    #[inline]
    fn prepare<A: Ask>(&self, (ask, asker): Parts<A>) -> (message::Asked, Call<A>) {
        let (question, ticket) = (ask.into_question(), self.0.shared.ticket());
        let (sender, receiver) = oneshot::channel();
        let reply_to =
            ReplyTo { sender, worker: self.0.worker.as_ref().map(|(worker, _)| *worker) };
        let asked = message::Asked { question, asker, ticket, reply_to, sent_at: Instant::now() };
        let (handle, answer) = (self.clone(), PhantomData);
        (asked, Call { receiver, ticket, refused: None, handle, is_done: false, answer })
    }

    #[inline]
    fn flusher(&self) -> Option<&RoundsBell> {
        self.0.worker.as_ref().map(|(_, desk)| &desk.flusher)
    }

    fn refused(&self, refused: Refused, op: Option<Op>) -> Error {
        match refused {
            Refused::Full => {
                self.0.metrics.ops.failed(op);
                self.0.metrics.refusals.count("pending-max");
                Error::Overloaded
            }
            Refused::Closed if self.0.shared.is_following() => Error::NotLeading,
            Refused::Closed => Error::Stopping,
        }
    }

    /// Sends a request without checking permissions, for tests and the simulation.
    #[doc(hidden)]
    pub fn ask_unchecked<A: Ask>(&self, ask: A) -> Call<A> {
        self.ask(Permitted::unchecked(ask))
    }
}

/// Requests that are sent as a group. They are applied in order and made durable by one commit, unless there are more
/// than fit into a batch. None is sent before [`Self::send`].
#[must_use = "nothing is asked before they are sent"]
pub struct Together<'a> {
    handle: &'a EngineHandle,
    asked: Vec<message::Asked>,
}

impl Together<'_> {
    /// Adds a request to the group.
    #[inline]
    pub fn ask<A: Ask>(&mut self, ask: Permitted<A>) -> Call<A> {
        let (asked, call) = self.handle.prepare(ask.into_parts());
        self.asked.push(asked);
        call
    }

    /// Sends all requests, or none if the queue has no room for all.
    pub fn send(self) {
        let Self { handle, mut asked } = self;
        if asked.is_empty() {
            return;
        }
        let sent = handle.0.shared.inbox.ask_all(&mut asked, handle.flusher());
        if let Err(refused) = sent {
            for asked in asked {
                let error = handle.refused(refused, Op::of(&asked.question));
                asked.reply_to.tell(Err(error));
            }
        }
    }
}

/// The future of an answer. If it is dropped before the answer is there, a waiter leaves the queue or is parked, and an
/// undelivered grant is released.
#[must_use = "dropping a call takes it back"]
pub struct Call<A: Ask> {
    receiver: oneshot::Receiver<Answered>,
    ticket: Ticket,
    refused: Option<Error>,
    handle: EngineHandle,
    is_done: bool,
    answer: PhantomData<fn() -> A::Answer>,
}

impl<A: Ask> Future for Call<A> {
    type Output = Result<A::Answer, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(error) = self.refused {
            self.is_done = true;
            return Poll::Ready(Err(error));
        }
        let answer = std::task::ready!(Pin::new(&mut self.receiver).poll(context));
        self.is_done = true;
        // The engine dropped the request without an answer, so it might have been applied.
        Poll::Ready(answer.unwrap_or(Err(Error::Unknown)).and_then(typed::<A>))
    }
}

/// Converts a reply to the type of the request's answer. A mismatch means that the engine answered another request, so
/// the outcome is unknown.
fn typed<A: Ask>(told: Told) -> Result<A::Answer, Error> {
    A::answer_in(told).ok_or_else(|| {
        tracing::error!(
            asked = std::any::type_name::<A>(),
            "answered something else than was asked"
        );
        Error::Unknown
    })
}

impl<A: Ask> Drop for Call<A> {
    fn drop(&mut self) {
        if self.is_done || self.refused.is_some() {
            return;
        }
        self.receiver.close();
        // An answer that arrived in the meantime releases its grant when it is dropped.
        if self.receiver.try_recv().is_err() {
            self.handle.0.shared.is_gone(Gone::Ticket(self.ticket));
        }
    }
}
