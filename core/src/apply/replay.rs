//! A request id seen before.

use crate::arena::Slot;
use crate::lease::{Ending, Lease, Phase};
use crate::outcome::Rejection;
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
    let lock = t.state.leases[slot].lock;
    t.settle(lock);
    // A wait that has just run out is forgotten with its request: asking again is asking anew.
    let Some((slot, _)) = t.state.find_request(scope) else { return Ok(None) };
    if t.state.is_queued(slot) && t.expire_if_due(slot) {
        return Ok(None);
    }
    Ok(Some(match t.phase(slot) {
        Phase::Active => Replay::Active(slot),
        Phase::Waiting | Phase::Parked => Replay::Queued(slot),
        Phase::Ended(how) => Replay::Ended(how),
    }))
}
