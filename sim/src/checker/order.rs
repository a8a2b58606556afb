//! First in, first out. Lease numbers say who came first, tokens who was served first.

use super::Found;
use super::lease::{Lease, Leases};
use crate::history::History;

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for passed in leases.iter().filter(|lease| stayed(history, lease)) {
        for passer in leases.iter() {
            let (first, second) = (passed.claim, passer.claim);
            if first.lock == second.lock
                && first.id.number < second.id.number
                && second.token < first.token
                && !goes_first(leases, passer)
            {
                found.add("first in, first out", format!("{second:?} passed {first:?}"));
            }
        }
    }
}

/// Was it in its place all the time? Whoever asked again, or lived through a restart, may have been parked.
fn stayed(history: &History, lease: &Lease) -> bool {
    lease.is_one_attempt && !history.was_away_within(lease.first_sent_at, lease.first_told_at)
}

/// In a grace period the last owner goes before the queue.
fn goes_first(leases: &Leases, passer: &Lease) -> bool {
    let mut before = leases.iter().filter(|lease| {
        lease.claim.lock == passer.claim.lock && lease.claim.token < passer.claim.token
    });
    before.any(|lease| lease.client == passer.client && lease.acquire.grace_ms > 0)
}
