//! A leader whose store has not confirmed it for the length of its lease. Another server might lead by now, so a client
//! that waits here might wait in vain.

use std::time::Duration;

use leasehold_core::{Leave, Timestamp};

use super::message::Error;
use super::writer::{Batch, Writer, nanos};
use crate::metrics::Op;

/// Has the store not confirmed a leader for the length of its lease?
fn has_lapsed(now: Timestamp, confirmed_at: Timestamp, lease: Option<Duration>) -> bool {
    lease.is_some_and(|lease| nanos(now.since(confirmed_at)) >= lease)
}

impl Writer {
    /// Ends every wait if this leader has lapsed. Clients repeat their requests, here or at another server, and their
    /// request ids keep their places.
    pub(super) fn end_waits_if_lapsed(&mut self) {
        // A round can take long even if the store answers.
        let is_unanswered = self.held.is_some() || self.was_silent;
        let lease = self.store.lease().filter(|_| is_unanswered);
        if !has_lapsed(self.clock.now(), self.confirmed_at, lease) {
            return;
        }
        self.note_silence(true);
        let waiting = self.waiters.drain_leases();
        if waiting.is_empty() {
            return;
        }
        tracing::warn!(
            n_waits = waiting.len(),
            "etcd has not confirmed this leader for the length of its lease; ending every wait"
        );
        for (lease, waiters) in waiting {
            self.forsaken.push(lease);
            for waiter in waiters {
                self.metrics.ops.answered(Some(Op::Acquire), Some(false), waiter.sent_at.elapsed());
                self.outbox.add(waiter.reply_to, Err(Error::Unknown));
            }
        }
        self.send();
    }

    /// Are there ended waits to record, and can the store record them?
    pub(super) fn has_forsaken(&self) -> bool {
        !self.forsaken.is_empty() && !self.was_silent
    }

    /// Parks the waiters whose waits ended and whose clients have not returned. Comes after the requests of a batch, so
    /// a client that has returned already has its place or its grant.
    pub(super) fn leave_forsaken(&mut self, batch: &mut Batch) {
        if !self.has_forsaken() {
            return;
        }
        for lease in std::mem::take(&mut self.forsaken) {
            if !self.waiters.has(lease) {
                let _ = self.apply(Leave(lease), batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_lapses_when_its_lease_has_passed_without_a_confirmation() {
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        let lease = Some(Duration::from_secs(2));
        assert!(!has_lapsed(at(2_999), at(1_000), lease));
        assert!(has_lapsed(at(3_000), at(1_000), lease));
        assert!(!has_lapsed(at(900), at(1_000), lease), "it was confirmed since");
        assert!(!has_lapsed(at(90_000), at(0), None), "no other server can take over");
    }
}
