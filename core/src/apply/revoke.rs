//! End leases by force: no grace, no questions, but a reason.

use super::proof::prove;
use crate::arena::Slot;
use crate::command::{Revoke, Target};
use crate::lease::{Ending, Lease, Phase};
use crate::outcome::{Limit, Rejection};
use crate::transition::{End, Transition};
use crate::view::LeaseView;

pub(crate) fn revoke(t: &mut Transition<'_>, revoke: &Revoke) -> Result<Vec<LeaseView>, Rejection> {
    t.limits.within(Limit::Reason, revoke.reason.len() <= t.limits.reason_bytes_max)?;
    let (lock, leases) = match &revoke.target {
        Target::Lock(key) => {
            t.limits.check_key(key)?;
            let Some(lock) = t.state.find_lock(key) else { return Ok(vec![]) };
            t.settle(lock);
            (lock, t.state.holders(lock).collect::<Vec<_>>())
        }
        Target::Lease(proof, dialect) => {
            let slot = prove(t, proof, *dialect)?;
            if let Phase::Ended(how) = t.phase(slot) {
                return Err(Rejection::Ended(how));
            }
            (t.state.leases[slot].lock, vec![slot])
        }
    };
    let revoked = leases.into_iter().map(|slot| take_away(t, slot, revoke)).collect();
    t.promote(lock);
    Ok(revoked)
}

fn take_away(t: &mut Transition<'_>, slot: Slot<Lease>, revoke: &Revoke) -> LeaseView {
    let mut view = t.view(slot);
    let reason = Some(revoke.reason.clone());
    t.end(slot, End { reason, ..End::new(Ending::Revoked, t.now) });
    view.end(Ending::Revoked, t.now);
    view
}
