//! A request id seen before.

use crate::arena::Slot;
use crate::group::Group;
use crate::lease::{Ending, Lease, Phase};
use crate::mutant;
use crate::outcome::Rejection;
use crate::request::Operation;
use crate::state::Scope;
use crate::transition::Transition;

/// What became of the lease of an earlier request.
pub(crate) enum Replay {
    Active(Slot<Lease>),
    Queued(Slot<Lease>),
    Ended(Ending),
}

/// The lease an earlier request with this id had its effect on, as it is now. An error if that request
/// asked for something else: nobody gets an answer to a question they did not ask.
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

/// The lease of an earlier request as it is now. A wait that has just run out is forgotten with its request: asking
/// again is asking anew.
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

/// An acquire is repeated for all that was asked for together; anything else is about one lease.
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

/// Leases that were asked for together are told together, and only while all of them are active.
fn of_all(t: &Transition<'_>, slot: Slot<Lease>) -> Replay {
    let group = t.state.leases[slot].group().filter(|_| !mutant!(GroupReplayedInPart));
    let mut numbers = group.into_iter().flat_map(Group::numbers);
    let ended = numbers.find_map(|number| match t.state.find_lease(number) {
        Some(member) if t.state.leases[member].is_active() => None,
        Some(member) => match t.phase(member) {
            Phase::Ended(how) => Some(how),
            _ => None,
        },
        // What is forgotten at once was given back.
        None => Some(Ending::Released),
    });
    ended.map_or(Replay::Active(slot), Replay::Ended)
}
