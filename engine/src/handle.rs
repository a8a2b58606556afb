//! All that the rest of the server sees of the engine.

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
use super::event::{Bell, EventLog, Interest, Reader};
use super::mailbox::{Answered, Desk, Mailbox, ReplyTo, Told};
use super::message::{self, Error, Ticket};
use super::metrics::{EngineMetrics, Op};
use super::rounds::{Bell as RoundsBell, Lead, Refused};
use super::shared::{Asking, Gone, Shared, Whereabouts};
use super::writer::Writer;
use leasehold_store::{Cursor, Event, EventId, Health};

/// How long somebody waits for a server that follows to read what they have seen elsewhere.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);

/// A loop that has not gone round for this long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// Cheap to clone; hides how the engine is reached.
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
    /// The worker that asks, if it is one, and its number.
    worker: Option<(usize, Arc<Desk>)>,
    /// By which the worker's readers are woken.
    bell: Option<Bell>,
}

/// A permitted request, and its caller if that is written down.
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

    /// The same engine for a worker, a thread that serves many connections. That thread must run the mailbox's
    /// [`Mailbox::deliver`] and this handle's [`Self::flush`] and [`Self::wake_readers`].
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

    /// How the store is.
    #[inline]
    pub fn health(&self) -> &Arc<Health> {
        &self.0.health
    }

    /// Sees to what the worker has asked, for ever. The first question wakes it; to be run on the worker's thread as a
    /// task of its own, so that it comes after everything else that is ready, and finds as many questions as there are.
    pub fn flush(&self) -> impl Future<Output = ()> + Send + use<> {
        // The last handle that can ask must be able to go: this is none.
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

    /// The instant it is, whatever lock time that is.
    #[inline]
    pub fn instant(&self) -> clock::Instant {
        self.0.clock.instant()
    }

    /// What lock time it was at an instant, by the clock of whoever leads now.
    #[inline]
    pub fn at(&self, instant: clock::Instant) -> Timestamp {
        self.0.clock.at(instant)
    }

    /// A lock time as the wall clock shows it.
    #[inline]
    pub fn wall_ms_of(&self, at: Timestamp) -> i64 {
        self.0.clock.wall_ms_of(at)
    }

    /// What the wall clock shows now. It decides nothing about locks; credentials expire by it.
    #[inline]
    pub fn wall_ms(&self) -> i64 {
        self.0.clock.wall_ms()
    }

    /// Differs between a store and one restored from its backup.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.events.generation()
    }

    /// The last record of which is known what happened in it.
    #[inline]
    pub fn told_through(&self) -> u64 {
        self.0.events.told_through()
    }

    /// Returns once this server has read this record, or after a while.
    pub async fn follow_to(&self, seq: u64) {
        let followed = self.0.events.followed_to(seq);
        let _ = tokio::time::timeout(CATCH_UP_MAX, followed).await;
    }

    /// Events kept for readers that come back.
    pub fn n_kept_events(&self) -> usize {
        self.0.events.n_kept()
    }

    /// Bytes of events that wait for readers.
    pub fn n_backlog_bytes(&self) -> usize {
        self.0.events.n_backlog_bytes()
    }

    /// The latest events that are asked for and older than `before`: see [`EventLog::recent`].
    pub fn recent(
        &self,
        asked: &ReadHistory,
        before: Option<EventId>,
        n_max: usize,
    ) -> (Vec<Arc<Event>>, EventId) {
        self.0.events.recent(before, n_max, |event| asked.wants(event))
    }

    /// Every note of a lease from now on, on the operator's word: see [`EventLog::take_notes`].
    pub fn take_notes(&self, n_max: usize) -> mpsc::Receiver<Arc<Event>> {
        self.0.events.take_notes(n_max)
    }

    /// How many notes wait to be taken, and how many were dropped.
    pub fn n_notes(&self) -> (usize, u64) {
        self.0.events.n_notes()
    }

    /// Everything after `since` that `interest` covers, as it happens; without `since`, only what is to come.
    pub fn follow(&self, interest: Permitted<Interest>, since: Option<Cursor>) -> Reader {
        self.0.events.follow(interest.into_inner(), since, self.0.bell.as_ref())
    }

    /// While this server follows: returns once it has read what `cursor` has seen, or after a while. Whoever comes from
    /// a server that had read more must not be told that it has not happened.
    pub async fn catch_up_to(&self, cursor: Cursor) {
        if self.is_following()
            && cursor.generation == self.generation()
            && !mutant!(CursorAheadNotAwaited)
        {
            self.follow_to(cursor.id.seq).await;
        }
    }

    /// Wakes those who follow something on the worker's thread when it happens, for ever. To be run on that thread.
    pub fn wake_readers(&self) -> impl Future<Output = ()> + Send + use<> {
        let bell = self.0.bell.clone();
        async move {
            if let Some(bell) = bell {
                bell.answer().await;
            }
        }
    }

    /// Does the engine's loop go round? One that has not for a while is stuck.
    pub fn is_alive(&self) -> bool {
        let alive_at = Timestamp::from_nanos(self.0.shared.alive_at.load(Relaxed));
        let silent = Duration::from_nanos(self.now().since(alive_at).as_nanos());
        // Whoever follows may have much to read, and answers meanwhile.
        self.is_following() || silent < STUCK_AFTER
    }

    /// Finish what was accepted, answer those who wait, and stop.
    pub fn stop(&self) {
        self.0.shared.stop();
    }

    /// Does this server follow another, or nobody, instead of answering by itself?
    #[inline]
    pub fn is_following(&self) -> bool {
        self.0.shared.is_following()
    }

    /// What is left of a wait that began when its request came.
    pub fn left_of(&self, wait: Span, received: clock::Instant) -> Span {
        if wait == Span::ZERO {
            return wait;
        }
        let held = u64::try_from(self.instant().since(received).as_nanos()).unwrap_or(u64::MAX);
        let left = wait.as_nanos().saturating_sub(held);
        // Whoever waits is told that the wait is over, not that there was none.
        Span::from_nanos(left).max(Span::from_millis(1)).min(wait)
    }

    /// Does this server answer by itself, and will it go on?
    #[inline]
    pub fn is_leading(&self) -> bool {
        !self.is_following() && !self.is_stopping()
    }

    /// Where the one is that leads, and whenever that changes.
    pub fn whereabouts(&self) -> watch::Receiver<Whereabouts> {
        self.0.shared.whereabouts()
    }

    /// How long ago the store said that nobody has taken over, on one that others can take over.
    pub fn unconfirmed_for(&self) -> Duration {
        let confirmed = Timestamp::from_nanos(self.0.shared.confirmed_at.load(Relaxed));
        Duration::from_nanos(self.now().since(confirmed).as_nanos())
    }

    /// While this server follows: how long ago it had read everything; `None`: it never had.
    pub fn behind_for(&self) -> Option<Duration> {
        let whole_at = *lock(&self.0.shared.whole_at);
        whole_at.map(|at| self.instant().since(at))
    }

    #[inline]
    pub(super) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// Is the engine stopping, or has it stopped?
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.0.shared.is_stopping()
    }

    /// Returns when requests cannot be answered here: another server leads, or the store has not confirmed this leader
    /// for the length of its lease. What waits for events here might wait in vain, and has to ask again.
    pub async fn unsure(&self) {
        self.0.shared.unsure().await;
    }

    /// Returns when the engine has stopped, for whatever reason.
    pub async fn stopped(&self) {
        let mut stopped = self.0.shared.stopped.subscribe();
        // An error means that the engine is gone, which is what was waited for.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Asks something. Who waits for a lock is answered when the wait is over; dropping the future is going away.
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

    /// Several questions that are to be in one batch: see [`Together`].
    #[inline]
    pub fn together(&self) -> Together<'_> {
        Together { handle: self, asked: Vec::new() }
    }

    /// A question ready to be asked, and where its answer will be.
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

    /// The same on nobody's word but the process's own: for tests and the simulation.
    #[doc(hidden)]
    pub fn ask_unchecked<A: Ask>(&self, ask: A) -> Call<A> {
        self.ask(Permitted::unchecked(ask))
    }
}

/// Questions that are asked together: they are applied in order and made durable by one commit, unless there are more
/// of them than a batch has room for. Nothing is asked before [`Self::send`].
#[must_use = "nothing is asked before they are sent"]
pub struct Together<'a> {
    handle: &'a EngineHandle,
    asked: Vec<message::Asked>,
}

impl Together<'_> {
    /// One more.
    #[inline]
    pub fn ask<A: Ask>(&mut self, ask: Permitted<A>) -> Call<A> {
        let (asked, call) = self.handle.prepare(ask.into_parts());
        self.asked.push(asked);
        call
    }

    /// Asks all of them, or if there is no room for all, none.
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

/// An answer on its way. Whoever drops it before it has come is gone: a waiter leaves the queue or is
/// parked, and a grant nobody was told of is given back.
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
        // A request the engine dropped unanswered may have been applied.
        Poll::Ready(answer.unwrap_or(Err(Error::Unknown)).and_then(typed::<A>))
    }
}

/// The type of an answer is what its question says. If it were another, the engine would have answered something else
/// than was asked, and nobody could say what was done.
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
        // An answer that came meanwhile gives back by itself what it grants.
        if self.receiver.try_recv().is_err() {
            self.handle.0.shared.is_gone(Gone::Ticket(self.ticket));
        }
    }
}
