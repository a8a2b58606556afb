//! The loop: collect, reserve, apply, append, answer.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use leasehold_core::{
    Applied, Change, Command, Grant, GrantKind, LeaseNumber, LockKey, Machine, Notice, Outcome,
    Phase, Proof, Rejection, Span, Timestamp, Wait, mutant,
};
use tokio::sync::oneshot;

use super::Options;
use super::event::EventLog;
use super::handle::{Gone, Shared};
use super::message::{Ask, Error, Message, Question, Reply};
use super::waiters::{Waiter, Waiters};
use crate::clock::LockClock;
use crate::metrics::{Metrics, Op};
use crate::store::{self, Permit, Store};

/// While another process holds the database, nothing is tried more often than this.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// The loop goes round at least this often, so that it can be seen to be alive.
const IDLE_MAX: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    options: Options,
    store: Box<dyn Store>,
    pub(super) machine: Machine,
    clock: LockClock,
    receiver: Receiver<Message>,
    shared: Arc<Shared>,
    events: Arc<EventLog>,
    metrics: Arc<Metrics>,
    waiters: Waiters,
    written_at: Timestamp,
    was_busy: bool,
}

/// What a batch did and whom to tell, held back until it is durable.
#[derive(Default)]
pub(super) struct Batch {
    changes: Vec<Change>,
    answers: Vec<Answer>,
    wakeups: Vec<LeaseNumber>,
    notices: Vec<Notice>,
}

struct Answer {
    reply: oneshot::Sender<Result<Reply, Error>>,
    content: Reply,
    op: Option<Op>,
    sent_at: Instant,
}

impl Writer {
    #[expect(clippy::too_many_arguments, reason = "everything the loop owns, handed over once")]
    pub(super) fn new(
        options: Options,
        store: Box<dyn Store>,
        machine: Machine,
        clock: LockClock,
        receiver: Receiver<Message>,
        shared: Arc<Shared>,
        events: Arc<EventLog>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            options,
            store,
            machine,
            clock,
            receiver,
            shared,
            events,
            metrics,
            waiters: Waiters::default(),
            written_at: Timestamp::ZERO,
            was_busy: false,
        }
    }

    /// Applies a first command and makes it durable, before anybody can ask anything.
    pub(super) fn begin(&mut self, command: Command) -> Result<(), store::Error> {
        let permit = self.store.reserve()?;
        let mut batch = Batch::default();
        let _ = self.apply(command, &mut batch);
        self.commit(permit, batch)
    }

    pub(super) fn run(mut self) -> Result<(), store::Error> {
        let result = self.serve();
        self.end(result)
    }

    fn serve(&mut self) -> Result<(), store::Error> {
        while self.round(self.patience())? {}
        Ok(())
    }

    /// Waits this long at most for something to do, and does it. `false`: it is time to stop.
    pub(super) fn round(&mut self, patience: Duration) -> Result<bool, store::Error> {
        let (asks, is_over) = self.collect(patience);
        self.shared.alive_at.store(self.clock.now().as_nanos(), Relaxed);
        if asks.is_empty() && (is_over || self.shared.is_stopping()) {
            return Ok(false);
        }
        self.turn(asks)?;
        Ok(true)
    }

    /// Tells everybody who still waits that the loop has ended, and how.
    pub(super) fn end(mut self, result: Result<(), store::Error>) -> Result<(), store::Error> {
        // Whoever is still in the channel has had no effect.
        while let Ok(message) = self.receiver.try_recv() {
            if let Message::Ask(ask) = message {
                let _ = ask.reply.send(Err(Error::Stopping));
            }
        }
        let error = if result.is_ok() { Error::Stopping } else { Error::Unknown };
        for waiter in self.waiters.drain() {
            let _ = waiter.reply.send(Err(error));
        }
        let result = result.and_then(|()| self.store.finish());
        self.shared.stopped.send_replace(true);
        result
    }

    /// Waits for something to do, then takes all of it up to a batch. `true`: nobody can ask any more.
    fn collect(&mut self, patience: Duration) -> (Vec<Ask>, bool) {
        let mut asks = Vec::new();
        match self.receiver.recv_timeout(patience) {
            Ok(Message::Ask(ask)) => asks.push(ask),
            Ok(Message::Wake) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return (asks, true),
        }
        while asks.len() < self.options.batch_max {
            match self.receiver.try_recv() {
                Ok(Message::Ask(ask)) => asks.push(ask),
                Ok(Message::Wake) => {}
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        self.shared.n_queued.fetch_sub(asks.len() as u64, Relaxed);
        (asks, false)
    }

    /// Is anything left in the channel?
    pub(super) fn has_asks(&self) -> bool {
        self.shared.n_queued.load(Relaxed) > 0
    }

    /// How long nothing needs to be done if nobody asks.
    pub(super) fn patience(&self) -> Duration {
        if self.shared.is_stopping() {
            return Duration::ZERO;
        }
        let now = self.clock.now();
        let due = self.machine.next_deadline().map_or(IDLE_MAX, |at| nanos(at.since(now)));
        let tick = self.options.tick.saturating_sub(nanos(now.since(self.written_at)));
        let tick = if self.machine.next_deadline().is_some() { tick } else { IDLE_MAX };
        let wanted = if self.shared.has_gone() { Duration::ZERO } else { due.min(tick) };
        wanted.min(IDLE_MAX).max(if self.was_busy { BUSY_PAUSE } else { Duration::ZERO })
    }

    /// One batch. An error means that it is not known what is durable, and everybody in it is told so.
    fn turn(&mut self, asks: Vec<Ask>) -> Result<(), store::Error> {
        let now = self.clock.now();
        let is_due = self.machine.next_deadline().is_some_and(|at| at <= now);
        let gone = self.shared.take_gone();
        if asks.is_empty() && !is_due && gone.is_empty() && !self.is_tick_due(now) {
            return Ok(());
        }
        let permit = match self.store.reserve() {
            Ok(permit) => permit,
            Err(store::Error::Busy) => {
                gone.into_iter().for_each(|gone| self.shared.add_gone(gone));
                if mutant!(BusyAfterApplying) {
                    self.apply_unseen(&asks);
                }
                self.refuse_busy(asks);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.was_busy = false;
        let mut batch = Batch::default();
        self.let_go(gone, &mut batch);
        if is_due {
            self.sweep(&mut batch);
        }
        if !asks.is_empty() {
            self.metrics.batch_size.observe(asks.len() as f64);
        }
        for ask in asks {
            self.answer(ask, &mut batch);
        }
        self.commit(permit, batch)
    }

    fn refuse_busy(&mut self, asks: Vec<Ask>) {
        self.was_busy = true;
        for ask in asks {
            self.metrics.busy(Op::of(&ask.question));
            let _ = ask.reply.send(Err(Error::Busy));
        }
    }

    /// Applies what is about to be refused: what being busy must never do.
    fn apply_unseen(&mut self, asks: &[Ask]) {
        for ask in asks {
            if let Question::Apply(command) = &ask.question {
                let _ = self.apply(command.clone(), &mut Batch::default());
            }
        }
    }

    fn let_go(&mut self, gone: Vec<Gone>, batch: &mut Batch) {
        for gone in gone {
            let lease = match gone {
                Gone::Ticket(ticket) => self.waiters.remove(ticket),
                Gone::Grant(lease) => Some(lease),
            };
            if let Some(lease) = lease {
                let _ = self.apply(Command::Leave(lease), batch);
            }
        }
    }

    fn sweep(&mut self, batch: &mut Batch) {
        let began = Instant::now();
        let outcome = self.apply(Command::Sweep(self.options.sweep_changes_max), batch);
        if let Ok(Outcome::Swept(swept)) = outcome
            && swept.n_done > 0
        {
            let took_us = began.elapsed().as_micros() as u64;
            tracing::debug!(n_done = swept.n_done, more = swept.more, took_us, "swept");
        }
    }

    fn answer(&mut self, ask: Ask, batch: &mut Batch) {
        let Ask { question, ticket, reply, sent_at } = ask;
        let op = Op::of(&question);
        if op == Some(Op::Acquire) && reply.is_closed() {
            // Nobody is there to be given anything. Releases are applied all the same.
            return;
        }
        let content = match question {
            Question::Apply(command) => {
                let waits_for = waits_for(&command);
                let renewal = renewal(&command);
                let outcome = self.apply(command, batch);
                if let (Some(key), Ok(Outcome::Queued(lease))) = (waits_for, &outcome) {
                    return self.waiters.add(*lease, Waiter { ticket, key, reply, sent_at });
                }
                if let (Some(renewal), Err(Rejection::Ended(_))) = (renewal, &outcome) {
                    // The proof was right, so what it says of lock, owner and token is true.
                    self.tell_renewal_lost(renewal);
                }
                Reply::Applied(outcome)
            }
            Question::Read(read) => self.read(read, batch),
            Question::Probe => Reply::Ready,
        };
        batch.answers.push(Answer { reply, content, op, sent_at });
    }

    pub(super) fn apply(
        &mut self,
        command: Command,
        batch: &mut Batch,
    ) -> Result<Outcome, Rejection> {
        let Applied { outcome, changes, wakeups, notices } =
            self.machine.apply(self.clock.now(), command);
        batch.changes.extend(changes);
        batch.wakeups.extend(wakeups);
        batch.notices.extend(notices);
        outcome
    }

    /// Makes a batch durable, then tells everybody.
    fn commit(&mut self, permit: Permit, mut batch: Batch) -> Result<(), store::Error> {
        let moment = self.clock.moment();
        if mutant!(AnswerBeforeAppend) {
            for Answer { reply, content, .. } in std::mem::take(&mut batch.answers) {
                self.send(reply, content);
            }
        }
        if batch.changes.is_empty() && !self.is_tick_due(moment.lock_time) {
            self.store.give_back(permit)?;
        } else {
            let began = Instant::now();
            if let Err(error) = self.store.append(permit, moment, &batch.changes) {
                let told = if mutant!(UnknownAsBusy) { Error::Busy } else { Error::Unknown };
                for answer in batch.answers {
                    let _ = answer.reply.send(Err(told));
                }
                return if mutant!(GoOnAfterUnknown) { Ok(()) } else { Err(error) };
            }
            self.metrics.commit_latency.observe(began.elapsed().as_secs_f64() * 1000.0);
            self.written_at = moment.lock_time;
        }
        self.tell(batch.notices, moment.wall_ms);
        self.wake(batch.wakeups);
        for Answer { reply, content, op, sent_at } in batch.answers {
            self.metrics.answered(op, &content, sent_at);
            self.send(reply, content);
        }
        self.metrics.observe(&self.machine.counts(), self.store.journal(), &self.shared.n_queued);
        Ok(())
    }

    fn tell(&self, notices: Vec<Notice>, wall_ms: i64) {
        for notice in notices {
            let Notice { ended, lock, owner, token, reason } = &notice;
            let what = ended.map_or("granted".into(), |how| format!("{how:?}").to_lowercase());
            tracing::debug!(what, ?lock, ?owner, ?token, reason = reason.as_deref(), "lease");
            self.metrics.count_ending(*ended);
            self.events.add(notice, wall_ms);
        }
    }

    fn tell_renewal_lost(&self, proof: Proof) {
        if let Proof::Id { owner, token: Some(token), lock: Some(lock), .. } = proof {
            tracing::debug!(what = "renewal_lost", ?lock, ?owner, ?token, "lease");
            self.events.add_renewal_lost(lock, owner, token, self.clock.moment().wall_ms);
        }
    }

    fn wake(&mut self, leases: Vec<LeaseNumber>) {
        for lease in leases {
            let waiters = self.waiters.take(lease);
            let mut is_told = waiters.is_empty();
            let mut is_granted = false;
            // If several are told, none of them gives it back by going away.
            let is_shared = waiters.len() > 1 && !mutant!(GiveBackWhatWasRetold);
            let kind = if is_shared { GrantKind::Replayed } else { GrantKind::New };
            for Waiter { key, reply, sent_at, .. } in waiters {
                let content = self.verdict(lease, kind, &key);
                is_granted |= matches!(content, Reply::Applied(Ok(Outcome::Granted(_))));
                self.metrics.answered(Some(Op::Acquire), &content, sent_at);
                is_told |= reply.send(Ok(content)).is_ok();
            }
            if is_granted && !is_told {
                self.shared.add_gone(Gone::Grant(lease));
            }
        }
    }

    /// What became of a lease that waited.
    fn verdict(&self, lease: LeaseNumber, kind: GrantKind, key: &LockKey) -> Reply {
        match self.machine.lease(lease) {
            Some(view) if view.phase == Phase::Active => {
                let grant = Grant { lease: view, kind, previous: None };
                Reply::Applied(Ok(Outcome::Granted(Box::new(grant))))
            }
            _ => Reply::WaitOver(Box::new(self.machine.lock(key, 0))),
        }
    }

    fn send(&self, reply: oneshot::Sender<Result<Reply, Error>>, content: Reply) {
        let granted = match &content {
            Reply::Applied(Ok(Outcome::Granted(grant))) if grant.kind == GrantKind::New => {
                Some(grant.lease.id.number)
            }
            _ => None,
        };
        if reply.send(Ok(content)).is_err()
            && let Some(lease) = granted
        {
            self.shared.add_gone(Gone::Grant(lease));
        }
    }

    fn is_tick_due(&self, now: Timestamp) -> bool {
        let since = nanos(now.since(self.written_at));
        since >= self.options.tick && self.machine.next_deadline().is_some()
    }
}

/// The lock an acquire waits for on its connection.
fn waits_for(command: &Command) -> Option<LockKey> {
    match command {
        Command::Acquire(acquire) if matches!(acquire.wait, Wait::Connected(_)) => {
            Some(acquire.lock.clone())
        }
        _ => None,
    }
}

fn renewal(command: &Command) -> Option<Proof> {
    match command {
        Command::Renew(renew) => Some(renew.proof.clone()),
        _ => None,
    }
}

fn nanos(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
