//! Checks that there is one holder at any time, as seen by clients that count a lease's time from their request.

use leasehold_core::Mode;
use leasehold_judge::{Conflict, Exclusion, Mode as Judged};

use super::Found;
use super::lease::{Lease, Leases};
use crate::history::History;
use crate::message::Claim;
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
        let mut holders = Exclusion::default();
        for Stretch { from, to, lease } in stretches {
            report(holders.begin(lease.claim, mode(lease), from), found);
            report(holders.end(lease.claim, to), found);
        }
    }
}

fn stretches(lease: &Lease) -> impl Iterator<Item = Stretch<'_>> {
    let good = lease.good.iter().map(|(from, to)| (*from, (*to).min(lease.cut_at)));
    good.filter(|(from, to)| from < to).map(move |(from, to)| Stretch { from, to, lease })
}

fn mode(lease: &Lease) -> Judged {
    match lease.acquire.mode {
        Mode::Exclusive => Judged::Exclusive,
        Mode::Shared => Judged::Shared,
        Mode::Counted(limit) => Judged::Counted(limit),
    }
}

fn report(conflicts: impl IntoIterator<Item = Conflict<Claim, Time>>, found: &mut Found) {
    for Conflict { id, from, others } in conflicts {
        found.add("one holder", format!("{id:?} at {from} beside {others:?}"));
    }
}
