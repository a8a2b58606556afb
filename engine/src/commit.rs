//! Commits a batch and sends its replies.
//!
//! A commit can have other results: the outcome stays unknown for a while or for good, or another server has taken
//! over.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use leasehold_base::clock::Moment;
use leasehold_core::{
    Acquired, AcquiredAll, Change, LeaseNumber, LeaseView, Outcome, Timestamp, mutant,
};

use super::ask::Reply;
use super::batch::{Answer, Batch, tell, tell_unknown};
use super::error::Error;
use super::metrics::Resolved;
use super::writer::Writer;
use leasehold_store::{self as store, Draft, Kind, Permit};

/// How often the store is asked for the outcome of an unsettled append.
pub(super) const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// A batch whose outcome the store does not know yet, with its replies.
pub(super) struct Held {
    pub(super) batch: Batch,
    moment: Moment,
    pub(super) since: Timestamp,
    /// Grants whose clients were told that the outcome is unknown.
    forsaken: Vec<LeaseNumber>,
}

impl Writer {
    /// Commits a batch, then sends its replies.
    pub(super) fn commit(
        &mut self,
        permit: Permit,
        kind: Kind,
        mut batch: Batch,
    ) -> Result<(), store::Error> {
        let moment = self.clock.moment();
        if mutant!(AnswerBeforeAppend) {
            for Answer { reply_to, content, .. } in std::mem::take(&mut batch.answers) {
                self.post(reply_to, Ok(content));
            }
            self.send();
        }
        let is_empty = batch.effects.changes.is_empty();
        let must_append = self.durability.needs_record(kind, || self.has_time_to_tell(moment));
        if is_empty && !must_append && !self.is_tick_due(moment.lock_time) {
            let began = self.durability.can_be_overtaken().then(Instant::now);
            let is_confirmed = mutant!(ConfirmBeforeApplying) && self.durability.can_be_overtaken();
            return match if is_confirmed { Ok(()) } else { self.store.confirm(permit) } {
                Ok(()) => {
                    self.note_confirmed(moment.lock_time);
                    began.iter().for_each(|began| self.metrics.cluster.confirmed(began.elapsed()));
                    self.publish(batch, moment);
                    Ok(())
                }
                Err(error) => self.unconfirmed(batch, error),
            };
        }
        let kind = if is_empty && kind == Kind::Batch { Kind::Tick } else { kind };
        if mutant!(MendedTooSoon) {
            self.store.mend(&self.machine);
        }
        let began = Instant::now();
        let draft = Draft { kind, moment, changes: &batch.effects.changes };
        match self.store.append(permit, draft) {
            Ok(()) => {}
            Err(store::Error::Unsettled(_)) if mutant!(UnsettledAsCommitted) => {}
            Err(store::Error::Fenced(_)) if mutant!(FencedAsCommitted) => {}
            Err(error) => return self.not_committed(batch, moment, error),
        }
        self.metrics.commit_latency.observe(began.elapsed());
        self.store.mend(&self.machine);
        self.written_at = moment.lock_time;
        self.note_confirmed(moment.lock_time);
        self.publish(batch, moment);
        Ok(())
    }

    /// Records that the store confirmed, after the time `at`, that no other server has taken over.
    fn note_confirmed(&mut self, at: Timestamp) {
        self.confirmed_at = at;
        self.note_silence(false);
        if self.durability.can_be_overtaken() {
            self.shared.confirmed_at.store(at.as_nanos(), Relaxed);
        }
    }

    /// Returns whether a record of the current time is needed because something has expired. Without it, a later leader
    /// could resume at an earlier lock time and treat as unexpired what clients saw expire.
    fn has_time_to_tell(&self, moment: Moment) -> bool {
        let is_due = |at| at <= moment.lock_time && !mutant!(DeadlineWithoutTick);
        self.was_due && !mutant!(DeadlineWithoutTick)
            || self.machine.next_deadline().is_some_and(is_due)
    }

    /// Sends the replies and events of a durable batch.
    pub(super) fn publish(&mut self, mut batch: Batch, moment: Moment) {
        self.tell(&mut batch.effects.facts, moment.wall_ms);
        self.wake(batch.effects.wakeups.drain(..));
        // One clock read for all replies, because reading the clock is the most frequent call here.
        let now = Instant::now();
        for Answer { reply_to, content, op, sent_at } in batch.answers.drain(..) {
            self.metrics.ops.answered(op, content.is_success(), now.duration_since(sent_at));
            self.post(reply_to, Ok(content));
        }
        self.send();
        if batch.effects.changes.iter().any(is_of_session) {
            self.metrics.observe_sessions(|dialect| self.machine.n_sessions(dialect));
        }
        batch.effects.changes.clear();
        batch.n_bytes = 0;
        self.batch = batch;
        self.show_witness();
        let n_asked = self.shared.inbox.n_asked();
        self.metrics.observe(&self.machine.counts(), self.store.journal(), n_asked);
    }

    fn show_witness(&self) {
        if let Some(witness) = &self.options.witness {
            witness.see(self.store.journal().seq, &self.machine);
        }
    }

    /// Fails the requests of a batch that changed nothing and that the store could not confirm. The clients can safely
    /// repeat them, here or at another server.
    pub(super) fn unconfirmed(
        &mut self,
        batch: Batch,
        error: store::Error,
    ) -> Result<(), store::Error> {
        if matches!(error, store::Error::Busy) {
            self.note_silence(true);
            batch.tell_all(self.busy());
            return Ok(());
        }
        let is_overtaken = self.durability.is_overtaken(&error);
        batch.tell_all(if is_overtaken { Error::NotLeading } else { Error::Stopping });
        Err(error)
    }

    /// Handles a failed append. If the store can still settle it, the batch is held. Otherwise its requests fail with
    /// an unknown outcome.
    pub(super) fn not_committed(
        &mut self,
        batch: Batch,
        moment: Moment,
        error: store::Error,
    ) -> Result<(), store::Error> {
        let is_told_busy = match error {
            store::Error::Unsettled(_) => mutant!(UnsettledAsBusy),
            store::Error::Busy if mutant!(SettleByReading) => true,
            store::Error::Busy => mutant!(NoSpaceAsBusy),
            _ => false,
        };
        if is_told_busy {
            batch.tell_all(Error::Busy);
            return Ok(());
        }
        if matches!(error, store::Error::Unsettled(_)) {
            let (since, forsaken) = (self.clock.now(), Vec::new());
            self.held = Some(Held { batch, moment, since, forsaken });
            return Ok(());
        }
        let is_fenced = matches!(error, store::Error::Fenced(_));
        match () {
            () if mutant!(UnknownAsBusy) => batch.tell_all(Error::Busy),
            () if mutant!(LostBatchToldNotLeading) && is_fenced => {
                batch.tell_all(Error::NotLeading);
            }
            () => batch.tell_unknown(if is_fenced { Error::NotLeading } else { Error::Stopping }),
        }
        if mutant!(GoOnAfterUnknown) { Ok(()) } else { Err(error) }
    }

    /// Asks the store for the outcome of the held batch, and sends the replies once it is known.
    pub(super) fn settle(&mut self) -> Result<(), store::Error> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        match self.store.settle() {
            Ok(()) => {
                self.metrics.cluster.resolved(Resolved::Durable);
                let Held { mut batch, moment, forsaken, .. } = held;
                self.take_back_what_is_over(&mut batch);
                self.publish(batch, moment);
                // The clients were told that the outcome is unknown and might never repeat the request, so the leases
                // are released.
                forsaken.into_iter().for_each(|lease| drop(self.undelivered(lease)));
                self.note_confirmed(self.clock.now());
                // Settling can take long, so the next record must contain the current time.
                self.written_at = Timestamp::ZERO;
                Ok(())
            }
            Err(store::Error::Unsettled(why)) => {
                let is_long = self.clock.now().since(held.since) >= self.settle_max();
                if is_long && self.durability.stops_if_unsettled() {
                    held.batch.tell_unknown(Error::Stopping);
                    return Err(store::Error::Unknown(why));
                }
                if is_long {
                    let answers = std::mem::take(&mut held.batch.answers);
                    if !answers.is_empty() {
                        self.metrics.cluster.resolved(Resolved::Told);
                    }
                    let grants = answers.iter().filter_map(|answer| answer.content.new_grant());
                    held.forsaken.extend(grants);
                    tell_unknown(answers, Error::StoreSilent);
                }
                self.held = Some(held);
                Ok(())
            }
            Err(error) => {
                self.metrics.cluster.resolved(Resolved::Lost);
                self.not_committed(held.batch, held.moment, error)
            }
        }
    }

    /// Fails the requests whose lease expired before it was known to be durable.
    fn take_back_what_is_over(&self, batch: &mut Batch) {
        let is_over = |answer: &Answer| match &answer.content {
            Reply::Applied(Ok(Outcome::Acquire(Acquired::Granted(grant)))) => {
                self.is_over(&grant.lease)
            }
            Reply::Applied(Ok(Outcome::AcquireAll(AcquiredAll::Granted(grants)))) => {
                grants.iter().any(|grant| self.is_over(&grant.lease))
            }
            Reply::Applied(Ok(Outcome::Renew(lease))) => self.is_over(lease),
            Reply::Applied(Ok(Outcome::RenewAll(leases))) => {
                leases.iter().any(|lease| self.is_over(lease))
            }
            _ => false,
        };
        let answers = std::mem::take(&mut batch.answers);
        let (over, others) = answers.into_iter().partition(is_over);
        batch.answers = others;
        tell(over, Error::Unknown);
    }

    pub(super) fn is_over(&self, lease: &LeaseView) -> bool {
        lease.deadline.is_some_and(|at| at <= self.clock.now()) && !mutant!(ExpiredIsToldAsGranted)
    }
}

/// Returns whether the change opens or ends a session.
fn is_of_session(change: &Change) -> bool {
    matches!(
        change,
        Change::SessionOpened(_) | Change::SessionEnded { .. } | Change::SessionForgotten { .. }
    )
}
