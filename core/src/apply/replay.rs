//! Finds the effect of an earlier request with the same id.

use crate::arena::Slot;
use crate::group::Group;
use crate::lease::{Ending, Lease, Phase};
use crate::mutant;
use crate::outcome::Rejection;
use crate::request::Operation;
use crate::state::Scope;
use crate::transition::Transition;

/// The current state of the lease that an earlier request affected.
pub(crate) enum Replay {
    Active(Slot<Lease>),
    Queued(Slot<Lease>),
    Ended(Ending),
}

/// Returns the lease that an earlier request with this id affected, in its current state. Returns an error if that
/// request was a different one.
pub(crate) fn find(
    t: &mut Transition<'_>,
    scope: &Scope<'_>,
    fingerprint: u64,
) -> Result<Option<Replay>, Rejection> {
    let Some((slot, request)) = t.state.find_request(scope) else { return Ok(None) };
    if request.fingerprint != fingerprint {
        return Err(Rejection::RequestConflict);
    }
    let Some(slot) = settled(t, slot, scope) else { return Ok(None) };
    Ok(Some(match t.phase(slot) {
        Phase::Active if scope.operation == Operation::Acquire => of_all(t, slot),
        Phase::Active => Replay::Active(slot),
        Phase::Waiting | Phase::Parked => Replay::Queued(slot),
        Phase::Ended(how) => Replay::Ended(how),
    }))
}

/// Returns the lease of an earlier request in its current state. If its wait has just ended, the lease and its request
/// are forgotten, so the repeated request counts as a new one.
pub(crate) fn settled(
    t: &mut Transition<'_>,
    slot: Slot<Lease>,
    scope: &Scope<'_>,
) -> Option<Slot<Lease>> {
    settle(t, slot, scope.operation);
    let (slot, _) = t.state.find_request(scope)?;
    if t.state.is_queued(slot) && t.expire_if_due(slot) {
        t.promote_stirred();
        return None;
    }
    Some(slot)
}

/// Settles the lock of a lease. If an acquire is repeated, settles all locks of its group.
fn settle(t: &mut Transition<'_>, slot: Slot<Lease>, operation: Operation) {
    let lease = &t.state.leases[slot];
    match lease.group() {
        Some(group) if operation == Operation::Acquire => {
            let locks: Vec<_> =
                t.state.members(group).map(|member| t.state.leases[member].lock).collect();
            t.settle_all(locks);
        }
        _ => t.settle(lease.lock),
    }
}

/// Returns the state of a group. It counts as active only while all of its leases are active.
fn of_all(t: &Transition<'_>, slot: Slot<Lease>) -> Replay {
    let group = t.state.leases[slot].group().filter(|_| !mutant!(GroupReplayedInPart));
    let mut numbers = group.into_iter().flat_map(Group::numbers);
    let ended = numbers.find_map(|number| match t.state.find_lease(number) {
        Some(member) if t.state.leases[member].is_active() => None,
        Some(member) => match t.phase(member) {
            Phase::Ended(how) => Some(how),
            _ => None,
        },
        // A lease that is no longer remembered was released.
        None => Some(Ending::Released),
    });
    ended.map_or(Replay::Active(slot), Replay::Ended)
}
