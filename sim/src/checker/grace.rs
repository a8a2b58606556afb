//! Checks grace periods: after an expiry, only the last owner gets the lock for that time.

use leasehold_core::Mode;

use super::Found;
use super::lease::{Lease, Leases};
use crate::history::History;
use crate::plan::DRIFT_MAX_PPM;
use crate::time::{MS, Time};

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for last in leases.iter().filter(|lease| lease.acquire.grace_ms > 0) {
        if last.acquire.mode != Mode::Exclusive {
            continue;
        }
        // A closed session has no grace period, and whether a session expired or was closed is not always known.
        if last.cut_at < Time::MAX || last.acquire.session.is_some() {
            continue;
        }
        let Some(until) = last.good.iter().map(|(_, until)| *until).max() else { continue };
        let drift = 1_000_000 - DRIFT_MAX_PPM as u64;
        let reserved_until = until + last.acquire.grace_ms * MS / 1_000_000 * drift;
        for next in leases.iter().filter(|lease| follows(last, lease)) {
            if next.first_told_at < reserved_until
                && next.client != last.client
                && !history.was_restored_within(last.first_sent_at, next.first_told_at)
            {
                found.add(
                    "grace is kept",
                    format!("{:?} before {reserved_until}, after {:?}", next.claim, last.claim),
                );
            }
        }
    }
}

/// Returns whether `next` is the grant of the same lock right after `last`.
fn follows(last: &Lease, next: &Lease) -> bool {
    last.claim.lock == next.claim.lock && next.claim.token.get() == last.claim.token.get() + 1
}
