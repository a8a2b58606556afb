//! Checks first in, first out: lease numbers give the order of arrival, and tokens the order of grants.

use super::Found;
use super::lease::{Lease, Leases};
use crate::history::History;
use crate::message::Request;

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for passed in leases.iter().filter(|lease| stayed(history, lease)) {
        for passer in leases.iter() {
            let (first, second) = (passed.claim, passer.claim);
            if first.lock == second.lock
                && first.id.number < second.id.number
                && second.token < first.token
                && !goes_first(history, passer)
            {
                found.add("first in, first out", format!("{second:?} passed {first:?}"));
            }
        }
    }
}

/// Returns whether a client kept its place in the queue all the time. A client that repeated its request, or whose
/// server restarted, might have been parked.
fn stayed(history: &History, lease: &Lease) -> bool {
    lease.is_one_attempt && !history.was_away_within(lease.first_sent_at, lease.first_told_at)
}

/// Returns whether the client might have passed the queue as the last owner in a grace period. That is possible for
/// every client that requested a grace period before, even if it got no response.
fn goes_first(history: &History, passer: &Lease) -> bool {
    let mut asked = history.operations.iter().filter(|op| op.client == passer.client);
    asked.any(|operation| match &operation.request {
        Request::Acquire(acquire) => {
            acquire.asks_for(passer.claim.lock)
                && acquire.grace_ms > 0
                && operation.sent_at < passer.first_told_at
        }
        _ => false,
    })
}
