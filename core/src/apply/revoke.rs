//! Ends leases by force, without a grace period and with a reason.

use super::proof::prove;
use crate::change::Change;
use crate::command::{Revoke, Target};
use crate::lease::{Ending, LeaseNumber, Phase};
use crate::outcome::Rejection;
use crate::transition::{End, Transition};
use crate::view::LeaseView;

pub(crate) fn revoke(t: &mut Transition<'_>, revoke: &Revoke) -> Result<Vec<LeaseView>, Rejection> {
    t.limits.check_reason(&revoke.reason)?;
    let leases = match &revoke.target {
        Target::Lock(key) => {
            t.limits.check_key(key)?;
            let Some(lock) = t.state.find_lock(key) else { return Ok(vec![]) };
            t.settle(lock);
            t.state.holders(lock).map(|holder| t.state.leases[holder].number).collect()
        }
        Target::Lease(proof, dialect) => {
            let slot = prove(t, proof, *dialect)?;
            if let Phase::Ended(how) = t.phase(slot) {
                return Err(Rejection::Ended(how));
            }
            vec![t.state.leases[slot].number]
        }
        Target::Leases(numbers) => numbers.clone(),
    };
    let revoked = leases.into_iter().flat_map(|number| take_away(t, number, revoke)).collect();
    if let Target::Lock(key) = &revoke.target
        && let Some(lock) = t.state.find_lock(key)
        && t.state.locks[lock].lapse.is_some()
    {
        // The lock does not stay reserved for the owner that let it expire.
        t.record(Change::GraceForgone { lock: key.clone() });
        t.stirred.push_back(lock);
    }
    t.promote_stirred();
    Ok(revoked)
}

/// Ends a lease that has not ended yet. If it waits, its whole group ends.
fn take_away(t: &mut Transition<'_>, number: LeaseNumber, revoke: &Revoke) -> Vec<LeaseView> {
    let Some(slot) = t.state.find_lease(number) else { return vec![] };
    let is_queued = t.state.is_queued(slot);
    t.stirred.push_back(t.state.leases[slot].lock);
    if matches!(t.phase(slot), Phase::Ended(_)) || t.expire_if_due(slot) {
        return vec![];
    }
    let taken = if is_queued { t.state.together(slot) } else { vec![slot] };
    let mut views: Vec<_> = taken.into_iter().map(|slot| t.view(slot)).collect();
    let reason = Some(revoke.reason.clone());
    t.end(slot, End { reason, ..End::new(Ending::Revoked, t.now) });
    views.iter_mut().for_each(|view| view.end(Ending::Revoked, t.now));
    views
}
