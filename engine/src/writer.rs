//! The engine's loop: collects requests, reserves the store, applies, appends, replies.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use leasehold_base::clock::LockClock;
use leasehold_core::{
    Ask, Asker, Fact, LeaseNumber, Leave, Machine, Rejection, Span, Sweep, Timestamp, mutant,
};

use super::Options;
use super::ask::{Question, Reply};
use super::batch::{Answer, Batch};
use super::commit::{Held, SETTLE_PAUSE};
use super::durability::Durability;
use super::error::Error;
use super::event::EventLog;
use super::gather::{Ended, Gathering};
use super::lapse::Forsaken;
use super::log;
use super::mailbox::{Outbox, ReplyTo, Told};
use super::message::Asked;
use super::metrics::{EngineMetrics, Op};
use super::read::Look;
use super::rounds::{Gathers, Round, Work};
use super::shared::{Gone, Shared};
use super::undelivered::Undelivered;
use super::waited::{Wanted, queued};
use super::waiters::{Waiter, Waiters};
use super::watch::Watchers;
use leasehold_store::{self as store, Health, Kind, Store};

/// Minimum pause between attempts while another process holds the database.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Maximum sleep of the loop, so that its health check sees it running.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// If a round takes longer than this, because of a slow disk, workers do not do rounds themselves.
const QUICK_MAX: Duration = Duration::from_millis(1);

pub struct Writer {
    pub(super) options: Options,
    pub(super) store: Box<dyn Store>,
    pub(super) health: Arc<Health>,
    pub(super) machine: Machine,
    pub(super) clock: LockClock,
    pub(super) shared: Arc<Shared>,
    events: Arc<EventLog>,
    pub(super) metrics: Arc<EngineMetrics>,
    pub(super) waiters: Waiters,
    pub(super) watchers: Watchers,
    pub(super) outbox: Outbox,
    /// Requests of the current round. Empty between rounds; its memory is reused.
    pub(super) asks: Vec<Asked>,
    pub(super) batch: Batch,
    pub(super) written_at: Timestamp,
    /// When the store last confirmed that this writer has seen all records.
    pub(super) confirmed_at: Timestamp,
    /// The epoch of the journal.
    pub(super) epoch: u64,
    pub(super) durability: Durability,
    /// A deadline passed in this round, whether or not that changed anything.
    pub(super) was_due: bool,
    pub(super) was_busy: bool,
    /// The store did not answer the last time.
    pub(super) was_silent: bool,
    gathering: Gathering,
    /// A batch whose outcome is not known yet. No command is applied in the meantime.
    pub(super) held: Option<Held>,
    /// Leases whose waits ended because the store was silent.
    pub(super) forsaken: Forsaken,
}

impl Writer {
    pub(super) fn new(
        (options, durability): (Options, Durability),
        (store, epoch): (Box<dyn Store>, u64),
        machine: Machine,
        clock: LockClock,
        shared: Arc<Shared>,
        events: Arc<EventLog>,
        metrics: Arc<EngineMetrics>,
    ) -> Self {
        Self {
            options,
            health: store.health(),
            durability,
            epoch,
            store,
            machine,
            clock,
            shared,
            events,
            metrics,
            waiters: Waiters::default(),
            watchers: Watchers::default(),
            outbox: Outbox::default(),
            asks: Vec::new(),
            batch: Batch::default(),
            written_at: Timestamp::ZERO,
            confirmed_at: Timestamp::ZERO,
            was_due: false,
            was_busy: false,
            was_silent: false,
            gathering: Gathering::default(),
            held: None,
            forsaken: Forsaken::default(),
        }
    }

    /// See [`Options::settle_max`].
    pub(super) fn settle_max(&self) -> Span {
        Span::from_nanos(self.options.settle_max.as_nanos() as u64)
    }

    /// Returns how long there is nothing to do without new requests.
    fn patience(&self, now: Timestamp) -> Duration {
        if self.held.is_some() {
            return SETTLE_PAUSE;
        }
        if self.shared.is_stopping() || !self.asks.is_empty() {
            return Duration::ZERO;
        }
        let tick = self.options.tick.saturating_sub(nanos(now.since(self.written_at)));
        let (due, tick) = match self.machine.next_deadline() {
            Some(at) => (nanos(at.since(now)), tick),
            None => (IDLE_MAX, IDLE_MAX),
        };
        let wanted = if self.shared.has_gone() || self.has_forsaken() {
            Duration::ZERO
        } else {
            due.min(tick)
        };
        wanted.min(IDLE_MAX).max(if self.was_busy { BUSY_PAUSE } else { Duration::ZERO })
    }

    /// Commits one batch. On an error, the outcome of the batch is unknown and its clients are told so.
    fn turn(&mut self, asks: &mut Vec<Asked>) -> Result<(), store::Error> {
        let now = self.clock.now();
        let is_due = self.machine.next_deadline().is_some_and(|at| at <= now);
        let gone = self.shared.take_gone();
        let is_idle = asks.is_empty() && !is_due && gone.is_empty() && !self.is_tick_due(now);
        let has_left = self.has_forsaken() || self.has_unclaimed(now);
        if is_idle && !self.is_confirm_due(now) && !has_left {
            return Ok(());
        }
        self.was_due = is_due;
        let permit = match self.store.reserve() {
            Ok(permit) => permit,
            Err(store::Error::Busy) => {
                gone.into_iter().for_each(|gone| self.shared.add_gone(gone));
                if mutant!(BusyAfterApplying) {
                    self.apply_unseen(asks);
                }
                self.refuse_busy(asks);
                return Ok(());
            }
            Err(error) => {
                // No command was applied.
                for ask in asks.drain(..) {
                    ask.reply_to.tell(Err(Error::Stopping));
                }
                return Err(error);
            }
        };
        self.was_busy = false;
        let mut batch = std::mem::take(&mut self.batch);
        let n_bytes_max = self.store.record_bytes_max() / 2;
        let steps_aside = self.must_step_aside(is_due || !gone.is_empty(), asks);
        if steps_aside && !self.step_aside(now, n_bytes_max, &mut batch) {
            // No lock is granted before all of these waiters are parked.
            gone.into_iter().for_each(|gone| self.shared.add_gone(gone));
            return self.commit(permit, Kind::Batch, batch);
        }
        self.leave_unclaimed(now, n_bytes_max, &mut batch);
        self.leave(gone, &mut batch);
        if is_due || steps_aside {
            self.sweep(&mut batch);
        }
        if !asks.is_empty() {
            self.metrics.batch_size.observe(asks.len() as f64);
        }
        let mut asked = asks.drain(..);
        for ask in asked.by_ref() {
            self.answer(ask, &mut batch);
            if batch.n_bytes >= n_bytes_max {
                break;
            }
        }
        let later: Vec<_> = asked.collect();
        asks.extend(later);
        self.commit(permit, Kind::Batch, batch)
    }

    /// Deliberate bug: applies commands that are then refused as busy.
    fn apply_unseen(&mut self, asks: &[Asked]) {
        for ask in asks {
            if let Question::Apply(command) = &ask.question {
                let _ = self.apply(command.clone(), &mut Batch::default());
            }
        }
    }

    fn leave(&mut self, gone: Vec<Gone>, batch: &mut Batch) {
        for gone in gone {
            let lease = match gone {
                Gone::Ticket(ticket) => self.waiters.remove(ticket),
                Gone::Grant(lease, epoch) => {
                    let is_ours = epoch == self.epoch || mutant!(DepartureOfAnyEpoch);
                    Some(lease).filter(|_| is_ours)
                }
            };
            if let Some(lease) = lease {
                let _ = self.apply(Leave(lease), batch);
            }
        }
    }

    fn sweep(&mut self, batch: &mut Batch) {
        let began = Instant::now();
        let sweep = Sweep { n_changes_max: self.options.sweep_changes_max };
        if let Ok(swept) = self.apply(sweep, batch)
            && swept.n_done > 0
        {
            let took_us = began.elapsed().as_micros() as u64;
            tracing::debug!(n_done = swept.n_done, more = swept.more, took_us, "swept");
        }
    }

    fn answer(&mut self, asked: Asked, batch: &mut Batch) {
        let Asked { question, asker, ticket, reply_to, sent_at } = asked;
        let op = Op::of(&question);
        if op == Some(Op::Acquire) && reply_to.is_closed() {
            // The client is gone, so it is granted nothing. Releases are applied anyway.
            return;
        }
        if question.takes_more()
            && let Some(error) = self.no_room()
            && !self.is_renewal(&question)
        {
            self.metrics.ops.failed(op);
            return self.post(reply_to, Err(error));
        }
        // Changes that the server itself makes are audited later.
        if asker.is_some() && self.is_unaudited(&question) {
            self.metrics.ops.failed(op);
            return self.post(reply_to, Err(Error::AuditFailed));
        }
        let content = match question {
            Question::Apply(command) => {
                let wanted = Wanted::by(&command);
                let shown = self.shown(asker.as_ref(), &command);
                let outcome = self.apply_for(asker, command, batch);
                if let Err(rejection) = &outcome {
                    self.metrics.refusals.count_rejection(rejection);
                }
                if let Some(shown) = shown {
                    self.note_mismatches(&shown, &outcome);
                }
                if let (Some(wanted), Some(lease)) = (wanted, queued(&outcome)) {
                    let waiter = Waiter { ticket, wanted, reply_to, sent_at };
                    return self.waiters.add(lease, waiter);
                }
                Reply::Applied(outcome)
            }
            Question::Read(read) => Reply::Found(read.look(self, batch)),
        };
        batch.answers.push(Answer { reply_to, content, op, sent_at });
    }

    pub(super) fn apply<A: Ask>(
        &mut self,
        ask: A,
        batch: &mut Batch,
    ) -> Result<A::Answer, Rejection> {
        self.apply_for(None, ask, batch)
    }

    fn apply_for<A: Ask>(
        &mut self,
        asker: Option<Arc<Asker>>,
        ask: A,
        batch: &mut Batch,
    ) -> Result<A::Answer, Rejection> {
        let n_before = batch.effects.changes.len();
        let now = self.clock.now();
        let outcome = self.machine.apply_onto(&mut batch.effects, asker, now, ask);
        let changes = &batch.effects.changes[n_before..];
        batch.n_bytes += changes.iter().map(store::bytes_at_most).sum::<usize>();
        outcome
    }

    /// Publishes and logs the facts of a durable record.
    pub(super) fn tell(&mut self, facts: &mut Vec<Fact>, wall_ms: i64) {
        if facts.is_empty() {
            return;
        }
        for fact in facts.iter() {
            self.watchers.tell(fact);
            log::change(fact);
            self.metrics.leases.count(fact);
        }
        let journal = self.store.journal();
        if let Some((audit, _)) = &self.options.audit {
            audit.tell((self.events.generation(), journal.seq), facts, wall_ms);
        }
        self.events.add(journal, facts.drain(..), wall_ms);
    }

    /// Queues a reply for the next [`Self::send`].
    pub(super) fn post(&mut self, reply_to: ReplyTo, reply: Result<Reply, Error>) {
        let told = reply.map(|reply| {
            let undelivered = reply.new_grant().map(|lease| self.undelivered(lease));
            Told { reply, undelivered }
        });
        self.outbox.add(reply_to, told);
    }

    /// Creates the guard for a reply with a grant.
    pub(super) fn undelivered(&self, lease: LeaseNumber) -> Undelivered {
        Undelivered::new(self.shared.clone(), lease, self.epoch)
    }

    pub(super) fn send(&mut self) {
        self.outbox.send(&self.shared.desks());
    }

    /// Returns whether the server is stopping, so that it must not wait for the store indefinitely.
    fn must_give_up(&self) -> bool {
        self.shared.is_stopping() && !mutant!(StopWithTheStore)
    }

    /// Returns whether a shared store has not confirmed for a while that no other server has taken over.
    fn is_confirm_due(&self, now: Timestamp) -> bool {
        let every = self.durability.confirm_every();
        every.is_some_and(|every| nanos(now.since(self.confirmed_at)) >= every)
    }

    pub(super) fn is_tick_due(&self, now: Timestamp) -> bool {
        let since = nanos(now.since(self.written_at));
        since >= self.options.tick
            && (self.machine.next_deadline().is_some() || self.store.is_torn())
    }
}

impl Work for Writer {
    type End = Result<(), store::Error>;
    type Ask = Asked;

    fn round(&mut self, worker: Option<usize>) -> Round<Self::End> {
        let began = self.clock.now();
        self.outbox.at = worker;
        (self.outbox.n_told, self.outbox.n_woken) = (0, 0);
        self.shared.alive_at.store(began.as_nanos(), Relaxed);
        if let Some(held) = &self.held {
            let held_max = self.durability.held_max();
            let is_long = held_max.is_some_and(|max| nanos(began.since(held.since)) >= max);
            if is_long {
                self.note_silence(true);
                self.refuse_all();
            }
            if mutant!(SweepWhileUnsettled) {
                self.sweep(&mut Batch::default());
            }
            return match self.settle() {
                Ok(()) if is_long && self.held.is_some() && self.must_give_up() => {
                    let why = "the outcome of the last write is unknown; the server stops";
                    Round::Last(self.end(Err(store::Error::Unknown(why.into()))))
                }
                Ok(()) if self.held.is_some() => {
                    self.end_waits_if_lapsed();
                    Round::Held
                }
                Ok(()) => Round::Slow,
                Err(error) => Round::Last(self.end(Err(error))),
            };
        }
        if self.durability.can_be_overtaken() && self.store.is_dismissed() {
            return Round::Last(self.step_down());
        }
        if mutant!(ConfirmBeforeApplying)
            && self.durability.can_be_overtaken()
            && let Err(error) = self.store.reserve().and_then(|permit| self.store.confirm(permit))
        {
            return match self.unconfirmed(Batch::default(), error) {
                Ok(()) => Round::Slow,
                Err(error) => Round::Last(self.end(Err(error))),
            };
        }
        let mut asks = std::mem::take(&mut self.asks);
        // First finishes the requests that did not fit into the last record. A leader that has lapsed first checks
        // whether the store answers again.
        if asks.is_empty() && (!self.has_lapsed() || mutant!(HeldWhileLapsed)) {
            self.shared.inbox.take(self.options.batch_max, &mut asks);
        }
        if asks.is_empty() && self.shared.is_stopping() {
            return Round::Last(self.end(Ok(())));
        }
        let n_taken = asks.len();
        if let Err(error) = self.turn(&mut asks) {
            return Round::Last(self.end(Err(error)));
        }
        self.asks = asks;
        self.end_waits_if_lapsed();
        if self.held.is_some() {
            return Round::Held;
        }
        let ended_at = self.clock.now();
        let took = ended_at.since(began);
        let (n_told, n_woken) = (self.outbox.n_told, self.outbox.n_woken);
        // A round without requests and replies says nothing about returning clients.
        if self.durability.gathers_requests() && (n_taken > 0 || n_told > 0) {
            let n_asked = self.shared.inbox.n_asked();
            self.gathering.ended(Ended { n_taken, n_told, n_woken, n_asked, took }, ended_at);
        }
        if nanos(took) <= QUICK_MAX { Round::Quick } else { Round::Slow }
    }

    fn gathers(&mut self, n_asked: usize) -> Option<Gathers> {
        if !self.durability.gathers_requests() || self.held.is_some() || !self.asks.is_empty() {
            return None;
        }
        let gives_back = |asked: &Asked| Op::of(&asked.question) == Some(Op::Release);
        let n_returns = || self.shared.inbox.count(gives_back);
        self.gathering.wait(n_asked, n_returns, self.clock.now())
    }

    fn rest(&self) -> (Duration, u64) {
        let now = self.clock.now();
        let patience = self.patience(now);
        (patience, now.as_nanos().saturating_add(patience.as_nanos() as u64))
    }
}

pub(super) fn nanos(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
