//! Checks an acquire against the shares and the quota of its principal. The principal's own ended leases make room.

use super::room::{NUMBER_BYTES_MAX, check_quota};
use crate::account::Account;
use crate::arena::Slot;
use crate::change::Change;
use crate::command::Acquire;
use crate::footprint::{Footprint, WAITER_BYTES, request_bytes};
use crate::lease::LeaseNumber;
use crate::limits::Limits;
use crate::mutant;
use crate::outcome::{Limit, Rejection};
use crate::owner::{self, Known};
use crate::request::Request;
use crate::state::State;
use crate::transition::Transition;

/// Maximum ended leases that one command forgets to make room.
const FORGET_MAX: usize = 64;

/// The leases that are about to be added for one owner.
pub(super) struct Added<'a> {
    pub(super) first: &'a Acquire,
    pub(super) request: Option<&'a Request>,
    pub(super) waits: bool,
    pub(super) n: usize,
    /// Bytes of the names of their locks.
    pub(super) n_names: usize,
}

/// The caller, as far as it is known.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) known: Option<Slot<Known>>,
    pub(super) account: Option<Slot<Account>>,
}

impl Who {
    pub(super) fn asks(state: &State, acquire: &Acquire) -> Self {
        let Acquire { owner, peer, .. } = acquire;
        let known = state.owners.find(owner);
        Self { known, account: state.owners.account(known, owner, *peer) }
    }
}

/// Checks that a principal stays within its share of each budget and within its quota of bytes. Returns the caller
/// again, because its last lease might have been forgotten.
pub(super) fn check(
    t: &mut Transition<'_>,
    mut who: Who,
    added: &Added<'_>,
) -> Result<Who, Rejection> {
    if mutant!(PrincipalShareIgnored) {
        return Ok(who);
    }
    for _ in 0..FORGET_MAX {
        let Err(exceeded) = fits(t.state, t.limits, who, added) else { return Ok(who) };
        let makes_room =
            matches!(limit(&exceeded), Some(Limit::PrincipalNames | Limit::BytesQuota));
        let account = who.account.filter(|_| makes_room);
        let oldest = account.and_then(|account| oldest(t.state, account));
        let Some(lease) = oldest else { return Err(exceeded) };
        t.record(Change::LeaseForgotten { lease });
        who = Who::asks(t.state, added.first);
    }
    fits(t.state, t.limits, who, added).map(|()| who)
}

/// Returns the least useful ended lease: first one that only answers repeated request ids, then a readable one.
fn oldest(state: &State, account: Slot<Account>) -> Option<LeaseNumber> {
    let Account { answered, kept, .. } = state.owners.accounts.get(account);
    answered.first().or(kept.first()).map(|slot| state.leases[slot].number)
}

fn limit(rejection: &Rejection) -> Option<Limit> {
    match rejection {
        Rejection::Limit(exceeded) => Some(exceeded.limit),
        _ => None,
    }
}

fn fits(state: &State, limits: &Limits, who: Who, added: &Added<'_>) -> Result<(), Rejection> {
    let of = who.account.map(|account| state.owners.accounts.get(account));
    let mut all = of.map_or(Footprint::default(), |of| of.footprint);
    all += footprint(state, who, added);
    let Footprint { metadata, names, requests, queues, ended } = all;
    // A budget to which this acquire adds nothing is not checked.
    let is_more = |limit, is_asked: bool, n: usize, n_max: usize| {
        limits.within(limit, !is_asked || n <= n_max)
    };
    let Acquire { metadata: asked, bytes_quota, .. } = added.first;
    let Limits { principal_metadata_bytes_max, principal_queues_bytes_max, .. } = *limits;
    is_more(Limit::PrincipalMetadata, asked.is_some(), metadata, principal_metadata_bytes_max)?;
    is_more(Limit::PrincipalQueues, added.waits, queues, principal_queues_bytes_max)?;
    limits.within(Limit::PrincipalNames, names <= limits.principal_names_bytes_max)?;
    // If there are ended leases to forget, the sweep forgets them afterwards.
    let has_answered = of.is_some_and(|of| of.answered.len() > 0);
    let is_request = added.request.is_some() && !has_answered;
    let Limits { principal_requests_bytes_max, .. } = *limits;
    is_more(Limit::PrincipalRequests, is_request, requests, principal_requests_bytes_max)?;
    check_quota(*bytes_quota, Limit::BytesQuota, metadata + names + requests + queues + ended)
}

/// Returns the bytes that the leases will take up.
fn footprint(state: &State, who: Who, added: &Added<'_>) -> Footprint {
    let Added { first, request, waits, n, n_names } = *added;
    let Acquire { owner, owner_per_lease, metadata, .. } = first;
    let known = who.known.map(|slot| state.owners.get(slot));
    let is_new_owner = *owner_per_lease || known.is_none_or(|known| known.n_leases == 0);
    let n_number = if *owner_per_lease { NUMBER_BYTES_MAX } else { 0 };
    let n_owner = if is_new_owner { owner::bytes(owner) + n_number } else { 0 };
    Footprint {
        metadata: n * metadata.as_ref().map_or(0, |metadata| metadata.len()),
        names: n_names + n_owner,
        requests: request.map_or(0, request_bytes),
        queues: if waits { n * WAITER_BYTES } else { 0 },
        ended: 0,
    }
}
