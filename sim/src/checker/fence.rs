//! Checks the protected resource: it rejects stale writers, and accepts writers that can rely on their lease.

use leasehold_core::Mode;
use leasehold_judge::{Fence, Writer};

use super::Found;
use super::lease::Leases;
use crate::history::{History, Write};

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    let mut fences = vec![Fence::default(); history.plan.locks.len()];
    for Write { claim, at, is_accepted } in &history.writes {
        let Some(lease) = leases.get(claim) else { continue };
        if lease.acquire.mode != Mode::Exclusive {
            continue;
        }
        if !is_accepted && lease.good_at(*at).is_some() {
            found.add("a good writer is not", format!("{claim:?} at {at}"));
        }
        if !is_accepted {
            continue;
        }
        // By time: the tokens are in question themselves.
        let (earliest, latest) = (lease.first_sent_at, lease.first_told_at);
        if let Some(other) = fences[claim.lock].accepted(Writer { id: *claim, earliest, latest }) {
            found.add("a stale writer is refused", format!("{claim:?} at {at}, after {other:?}"));
        }
    }
}
