//! A leader whose store has not confirmed it for the length of its lease. Another server might lead by now, so a client
//! that waits here might wait in vain.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_core::{LeaseNumber, Leave, StepAside, Timestamp, mutant};

use super::ask::Question;
use super::batch::Batch;
use super::error::Error;
use super::message::Asked;
use super::metrics::Op;
use super::writer::{Writer, nanos};

/// Returns whether the store has not confirmed a leader for the length of its lease.
fn has_lapsed(now: Timestamp, confirmed_at: Timestamp, lease: Option<Duration>) -> bool {
    lease.is_some_and(|lease| nanos(now.since(confirmed_at)) >= lease)
}

/// Leases whose clients were told that the outcome of their requests is unknown.
#[derive(Default)]
pub(super) struct Forsaken {
    /// Waiters that have yet to be parked.
    waiting: VecDeque<LeaseNumber>,
    /// Leases that were granted after their clients' waits had ended, with the time at which they are released if no
    /// client has repeated the request.
    granted: VecDeque<(Timestamp, LeaseNumber)>,
}

impl Writer {
    /// Returns whether the store has neither confirmed this leader for the length of its lease nor answered since.
    pub(super) fn has_lapsed(&self) -> bool {
        // A round can take long even if the store answers.
        let is_unanswered = self.held.is_some() || self.was_silent;
        let lease = self.store.lease().filter(|_| is_unanswered);
        has_lapsed(self.clock.now(), self.confirmed_at, lease)
    }

    /// If this leader has lapsed, ends every wait and refuses new requests without effect. Clients can repeat their
    /// requests at any server; their request ids keep their places in the queues.
    pub(super) fn end_waits_if_lapsed(&mut self) {
        if !self.has_lapsed() {
            return;
        }
        self.note_silence(true);
        self.shared.is_unsure(true);
        if !mutant!(HeldWhileLapsed) {
            self.refuse_all();
        }
        let waiting = self.waiters.drain_leases();
        if waiting.is_empty() {
            return;
        }
        tracing::warn!(
            n_waits = waiting.len(),
            "the store has not confirmed this leader for the duration of its lease; ending all waits"
        );
        for (lease, waiters) in waiting {
            self.forsaken.waiting.push_back(lease);
            for waiter in waiters {
                self.metrics.ops.answered(Some(Op::Acquire), Some(false), waiter.sent_at.elapsed());
                self.outbox.add(waiter.reply_to, Err(Error::Unknown));
            }
        }
        self.send();
    }

    /// Returns whether there are waiters to park, and the store can record it.
    pub(super) fn has_forsaken(&self) -> bool {
        !self.forsaken.waiting.is_empty() && !self.was_silent
    }

    /// Returns whether it is time to release leases that no client has claimed.
    pub(super) fn has_unclaimed(&self, now: Timestamp) -> bool {
        self.forsaken.granted.front().is_some_and(|(at, _)| *at <= now) && !self.was_silent
    }

    /// Returns whether waiters must be parked in this round. A round that changes nothing can wait until the store
    /// answers.
    pub(super) fn must_step_aside(&self, changes: bool, asks: &[Asked]) -> bool {
        let is_change = |asked: &Asked| matches!(asked.question, Question::Apply(_));
        let changes = || changes || asks.iter().any(is_change);
        !self.forsaken.waiting.is_empty() && (!self.was_silent || changes())
    }

    /// Parks the waiters whose waits ended and whose clients have not returned. This happens first in a batch.
    /// Otherwise a lock that becomes free would be granted to one absent client after another. Returns whether all of
    /// them fit into the record.
    pub(super) fn step_aside(
        &mut self,
        now: Timestamp,
        n_bytes_max: usize,
        batch: &mut Batch,
    ) -> bool {
        while batch.n_bytes < n_bytes_max {
            let Some(lease) = self.forsaken.waiting.pop_front() else { break };
            if self.waiters.has(lease) {
                continue;
            }
            if mutant!(ForsakenGivenBack) {
                let _ = self.apply(Leave(lease), batch);
            } else if self.apply(StepAside(lease), batch) == Ok(true) {
                let at = now + self.machine.limits().resume_park_max;
                self.forsaken.granted.push_back((at, lease));
            }
        }
        self.forsaken.waiting.is_empty()
    }

    /// Releases the leases of clients that have not repeated their requests.
    pub(super) fn leave_unclaimed(
        &mut self,
        now: Timestamp,
        n_bytes_max: usize,
        batch: &mut Batch,
    ) {
        while self.has_unclaimed(now)
            && batch.n_bytes < n_bytes_max
            && let Some((_, lease)) = self.forsaken.granted.pop_front()
        {
            let _ = self.apply(Leave(lease), batch);
        }
    }
}

#[cfg(test)]
mod tests;
