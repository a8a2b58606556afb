//! Checks that there is one holder at any time, as seen by clients that count a lease's time from their request.

use leasehold_core::Mode;

use super::Found;
use super::lease::{Lease, Leases};
use crate::history::History;
use crate::time::Time;

/// A period in which an owner relies on its lease.
struct Stretch<'a> {
    from: Time,
    to: Time,
    lease: &'a Lease,
}

pub(super) fn check(history: &History, leases: &Leases, found: &mut Found) {
    for lock in 0..history.plan.locks.len() {
        let on_lock = leases.iter().filter(|lease| lease.claim.lock == lock);
        let mut stretches: Vec<_> = on_lock.flat_map(stretches).collect();
        stretches.sort_by_key(|stretch| (stretch.from, stretch.to));
        let mut open: Vec<&Stretch<'_>> = Vec::new();
        for stretch in &stretches {
            open.retain(|other| other.to > stretch.from);
            meet(stretch, &open, found);
            open.push(stretch);
        }
    }
}

fn stretches(lease: &Lease) -> impl Iterator<Item = Stretch<'_>> {
    let good = lease.good.iter().map(|(from, to)| (*from, (*to).min(lease.cut_at)));
    good.filter(|(from, to)| from < to).map(move |(from, to)| Stretch { from, to, lease })
}

fn meet(stretch: &Stretch<'_>, open: &[&Stretch<'_>], found: &mut Found) {
    let lease = stretch.lease;
    let mut others: Vec<_> = open.iter().map(|other| other.lease.claim).collect();
    others.retain(|claim| *claim != lease.claim);
    others.sort_by_key(|claim| claim.id.number);
    others.dedup();
    let modes = open.iter().map(|other| other.lease).filter(|other| other.claim != lease.claim);
    let n_allowed = modes.map(|other| match (lease.acquire.mode, other.acquire.mode) {
        (Mode::Shared, Mode::Shared) => usize::MAX,
        (Mode::Counted(limit), Mode::Counted(_)) => limit as usize - 1,
        _ => 0,
    });
    if others.len() > n_allowed.min().unwrap_or(usize::MAX) {
        found.add(
            "one holder",
            format!("{:?} from {} to {} beside {others:?}", lease.claim, stretch.from, stretch.to),
        );
    }
}
