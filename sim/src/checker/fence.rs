//! Checks the protected resource: it rejects stale writers, and accepts writers that can rely on their lease.

use leasehold_core::Mode;

use super::Found;
use super::lease::{Lease, Leases};
use crate::history::{History, Write};

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    let mut latest: Vec<Option<&Lease>> = vec![None; history.plan.locks.len()];
    for write in &history.writes {
        let Some(lease) = leases.get(&write.claim) else { continue };
        if lease.acquire.mode != Mode::Exclusive {
            continue;
        }
        let latest = &mut latest[write.claim.lock];
        judge(write, lease, *latest, found);
        if write.is_accepted && latest.is_none_or(|other| other.first_sent_at < lease.first_sent_at)
        {
            *latest = Some(lease);
        }
    }
}

fn judge(write: &Write, lease: &Lease, latest: Option<&Lease>, found: &mut Found) {
    let Write { claim, at, is_accepted } = write;
    if *is_accepted && latest.is_some_and(|other| lease.first_told_at < other.first_sent_at) {
        let other = latest.map(|other| other.claim);
        found.add("a stale writer is refused", format!("{claim:?} at {at}, after {other:?}"));
    }
    if !is_accepted && lease.good_at(*at).is_some() {
        found.add("a good writer is not", format!("{claim:?} at {at}"));
    }
}
