//! Checks that the limits allow one more lease. Forgets unused data if that makes space for it.

use super::share::{self, Added, Who};
use crate::account::Account;
use crate::arena::Slot;
use crate::change::Change;
use crate::command::{Acquire, Quota};
use crate::footprint::{WAITER_BYTES, request_bytes};
use crate::lease::LeaseNumber;
use crate::limits::Limits;
use crate::lock::Lock;
use crate::mutant;
use crate::namespace::{self, Namespace};
use crate::outcome::{Exceeded, Limit, Rejection};
use crate::owner::{self, Known};
use crate::request::Request;
use crate::state::State;
use crate::transition::Transition;

/// How many idle locks, or lost leases, are checked to find some that can be forgotten.
const LOOK_MAX: usize = 1024;
/// How many of them one command forgets.
const FORGET_MAX: usize = 64;
/// The maximum number of bytes that the number of a lease adds to its owner's name.
pub(super) const NUMBER_BYTES_MAX: usize = 20;

/// A lease that is about to be added.
pub(crate) struct Need<'a> {
    pub(crate) acquire: &'a Acquire,
    pub(crate) request: Option<&'a Request>,
    /// Its lock, if it is known. That lock is not forgotten to make space.
    pub(crate) lock: Option<Slot<Lock>>,
    pub(crate) waits: bool,
}

/// Checks the limits for one more lease, and for its lock, namespace and owner if they are new.
pub(crate) fn check(t: &mut Transition<'_>, need: &Need<'_>) -> Result<(), Rejection> {
    let Acquire { lock, quota, namespace_quota, .. } = need.acquire;
    let who = Who::asks(t.state, need.acquire);
    let n_leases = who.account.map_or(0, |account| t.state.owners.accounts.get(account).n_leases);
    t.limits.within(Limit::PrincipalLeases, n_leases < t.limits.principal_leases_max)?;
    check_quota(*quota, Limit::Quota, n_leases as usize + 1)?;
    check_quota(*namespace_quota, Limit::NamespaceQuota, n_in_namespace(t, &lock.namespace) + 1)?;
    let (request, waits, n_names) = (need.request, need.waits, lock.name.len());
    let added = Added { first: need.acquire, request, waits, n: 1, n_names };
    let Who { known, .. } = share::check(t, who, &added)?;
    check_lease(t.state, t.limits, need)?;
    if need.lock.is_some() {
        return check_names(t, need, known, false);
    }
    let is_new = t.state.namespaces.find(&need.acquire.lock.namespace).is_none();
    check_names(t, need, known, is_new)?;
    if is_new {
        check_namespace(t, need)?;
    }
    if t.state.locks.len() >= t.limits.locks_max {
        // An unused lock is forgotten to make space for a new one.
        let idle = an_idle_lock(t, &[]).ok_or_else(|| t.limits.exceeded(Limit::Locks))?;
        super::sweep::forget_lock(t, idle);
    }
    Ok(())
}

/// Checks the limits for several leases of one owner in one namespace, all or none. None of the requested locks is
/// forgotten to make space for another.
pub(crate) fn check_all(
    t: &mut Transition<'_>,
    each: &[Acquire],
    request: Option<&Request>,
    waits: bool,
) -> Result<(), Rejection> {
    let (first, n) = (&each[0], each.len());
    let who = Who::asks(t.state, first);
    let n_leases = who.account.map_or(0, |account| t.state.owners.accounts.get(account).n_leases);
    let n_leases_max = t.limits.principal_leases_max as usize;
    t.limits.within(Limit::PrincipalLeases, n_leases as usize + n <= n_leases_max)?;
    check_quota(first.quota, Limit::Quota, n_leases as usize + n)?;
    let n_others = n_in_namespace(t, &first.lock.namespace);
    check_quota(first.namespace_quota, Limit::NamespaceQuota, n_others + n)?;
    let n_names = each.iter().map(|acquire| acquire.lock.name.len()).sum();
    share::check(t, who, &Added { first, request, waits, n, n_names })?;
    check_leases(t.state, t.limits, &Need { acquire: first, request, lock: None, waits }, n)?;
    let wanted: Vec<_> = each.iter().filter_map(|a| t.state.find_lock(&a.lock)).collect();
    let is_idle = |lock: &&Slot<Lock>| t.state.locks[**lock].busy().is_none();
    let n_idle = t.state.idle.len() - wanted.iter().filter(is_idle).count();
    let n_too_many = |t: &Transition<'_>| {
        (t.state.locks.len() + n - wanted.len()).saturating_sub(t.limits.locks_max)
    };
    t.limits.within(Limit::Locks, n_too_many(t) <= n_idle)?;
    let is_new = t.state.namespaces.find(&first.lock.namespace).is_none();
    check_all_names(t, each, &wanted, is_new)?;
    if is_new {
        check_namespace(t, &Need { acquire: first, request, lock: None, waits })?;
    }
    for _ in 0..n_too_many(t) {
        let idle = t.state.idle.iter(&t.state.locks).find(|idle| !wanted.contains(idle));
        let idle = idle.ok_or_else(|| t.limits.exceeded(Limit::Locks))?;
        super::sweep::forget_lock(t, idle);
    }
    Ok(())
}

/// Checks the quota of a principal or namespace.
pub(super) fn check_quota(quota: Option<Quota>, limit: Limit, n: usize) -> Result<(), Rejection> {
    match quota {
        Some(Quota { max, line }) if n > max as usize => {
            Err(Rejection::Limit(Exceeded { limit, allowed: max.into(), line: Some(line) }))
        }
        _ => Ok(()),
    }
}

/// Returns the number of waiting and active leases in a namespace, over all principals.
fn n_in_namespace(t: &Transition<'_>, namespace: &str) -> usize {
    let slot = t.state.namespaces.find(namespace).filter(|_| !mutant!(NamespaceQuotaIgnored));
    slot.map_or(0, |slot| t.state.namespaces.get(slot).n_leases as usize)
}

/// Checks the budget of names for several leases of one owner.
fn check_all_names(
    t: &mut Transition<'_>,
    each: &[Acquire],
    wanted: &[Slot<Lock>],
    is_new_namespace: bool,
) -> Result<(), Rejection> {
    let new = each.iter().filter(|acquire| t.state.find_lock(&acquire.lock).is_none());
    let names: usize = new.map(|acquire| acquire.lock.name.len()).sum();
    let namespace = if is_new_namespace { namespace::bytes(&each[0].lock.namespace) } else { 0 };
    for _ in 0..=FORGET_MAX {
        // The owner might be forgotten together with the last lock that refers to it.
        let is_new_owner = t.state.owners.find(&each[0].owner).is_none();
        let owner = if is_new_owner { owner::bytes(&each[0].owner) } else { 0 };
        let n_new = names + namespace + owner;
        if n_new == 0 || t.state.footprint().names + n_new <= t.limits.names_total_bytes_max {
            return Ok(());
        }
        let Some(idle) = an_idle_lock(t, wanted) else { break };
        super::sweep::forget_lock(t, idle);
    }
    Err(t.limits.exceeded(Limit::NamesTotal))
}

/// Checks the budgets for metadata, request ids and queues.
fn check_lease(state: &State, limits: &Limits, need: &Need<'_>) -> Result<(), Rejection> {
    check_leases(state, limits, need, 1)
}

/// Checks the limits of leases for a request that acquires `n` of them.
fn check_leases(
    state: &State,
    limits: &Limits,
    need: &Need<'_>,
    n: usize,
) -> Result<(), Rejection> {
    if let Some(metadata) = &need.acquire.metadata {
        let n_bytes = state.footprint.metadata + n * metadata.len();
        limits.within(Limit::MetadataTotal, n_bytes <= limits.metadata_total_bytes_max)?;
    }
    if let Some(request) = need.request {
        let n_bytes = state.footprint.requests + request_bytes(request);
        let is_room = n_bytes <= limits.requests_total_bytes_max;
        // Otherwise, ended leases that answer for request ids are forgotten afterwards.
        limits.within(Limit::RequestsTotal, is_room || !state.answered.is_empty())?;
    }
    if need.waits {
        let n_bytes = state.footprint.queues + n * WAITER_BYTES;
        limits.within(Limit::QueuesTotal, n_bytes <= limits.queues_total_bytes_max)?;
    }
    Ok(())
}

/// Checks the budget of names. Forgets idle locks if necessary, the longest idle first.
fn check_names(
    t: &mut Transition<'_>,
    need: &Need<'_>,
    mut known: Option<Slot<Known>>,
    is_new_namespace: bool,
) -> Result<(), Rejection> {
    for _ in 0..=FORGET_MAX {
        let n_new = new_names(need, known, is_new_namespace);
        if n_new == 0 || t.state.footprint().names + n_new <= t.limits.names_total_bytes_max {
            return Ok(());
        }
        let Some(idle) = an_idle_lock(t, need.lock.as_slice()) else { break };
        super::sweep::forget_lock(t, idle);
        // The owner might be forgotten together with the last lock that refers to it.
        known = t.state.owners.find(&need.acquire.owner);
    }
    Err(t.limits.exceeded(Limit::NamesTotal))
}

/// Returns the lock that has been idle longest and is not one of the `wanted` locks.
fn an_idle_lock(t: &mut Transition<'_>, wanted: &[Slot<Lock>]) -> Option<Slot<Lock>> {
    let find = |t: &Transition<'_>| {
        let mut idle = t.state.idle.iter(&t.state.locks);
        idle.find(|idle| !wanted.contains(idle))
    };
    find(t).or_else(|| {
        forget_lost(t, |_| true);
        find(t)
    })
}

/// Forgets lost leases without request ids, the oldest first. Their locks are in use only so that the former owners can
/// be told of the loss, and become idle.
fn forget_lost(t: &mut Transition<'_>, is_meant: impl Fn(&Namespace) -> bool) {
    let state = &*t.state;
    let is_it = |number: &LeaseNumber| {
        state.find_lease(*number).is_some_and(|slot| {
            let lease = &state.leases[slot];
            let namespace = state.locks[lease.lock].namespace;
            !lease.keep && lease.requests().is_empty() && is_meant(state.namespaces.get(namespace))
        })
    };
    let oldest = state.answered.iter().map(|(_, number)| *number).take(LOOK_MAX);
    let lost: Vec<_> = oldest.filter(is_it).take(FORGET_MAX).collect();
    for lease in lost {
        t.record(Change::LeaseForgotten { lease });
    }
}

/// Returns the bytes of the names that are not known yet.
fn new_names(need: &Need<'_>, known: Option<Slot<Known>>, is_new_namespace: bool) -> usize {
    let Acquire { lock, owner, owner_per_lease, .. } = need.acquire;
    let number_bytes = usize::from(*owner_per_lease) * NUMBER_BYTES_MAX;
    let is_new_owner = known.is_none() || *owner_per_lease;
    let owner = if is_new_owner { owner::bytes(owner) + number_bytes } else { 0 };
    let name = if need.lock.is_none() { lock.name.len() } else { 0 };
    let namespace = if is_new_namespace { namespace::bytes(&lock.namespace) } else { 0 };
    owner + name + namespace
}

/// Checks that the caller, and the store as a whole, may have one more namespace.
fn check_namespace(t: &mut Transition<'_>, need: &Need<'_>) -> Result<(), Rejection> {
    let Acquire { owner, peer, .. } = need.acquire;
    let account = |t: &Transition<'_>| {
        let known = t.state.owners.find(owner);
        t.state.owners.account(known, owner, *peer)
    };
    let has_room = |t: &Transition<'_>| {
        let n = account(t).map_or(0, |account| t.state.owners.accounts.get(account).n_namespaces);
        n < t.limits.principal_namespaces_max
    };
    if !has_room(t) {
        forget_namespace(t, account(t));
        t.limits.within(Limit::PrincipalNamespaces, has_room(t))?;
    }
    if t.state.namespaces.len() >= t.limits.namespaces_max {
        forget_namespace(t, None);
        let has_room = t.state.namespaces.len() < t.limits.namespaces_max;
        t.limits.within(Limit::Namespaces, has_room)?;
    }
    Ok(())
}

/// Forgets an unused namespace of one account, or of any account, together with its idle locks.
fn forget_namespace(t: &mut Transition<'_>, of: Option<Slot<Account>>) {
    let is_it = |namespace: &Namespace| of.is_none() || namespace.account == of;
    let state = &*t.state;
    let is_its = |slot: &Slot<Namespace>| is_it(state.namespaces.get(*slot));
    let empty = state.namespaces.empty().take(LOOK_MAX).find(is_its);
    if let Some(empty) = empty {
        return super::sweep::forget_namespace(t, empty);
    }
    let quiet = |t: &Transition<'_>| -> Vec<Slot<Lock>> {
        let is_quiet = |lock: &Slot<Lock>| {
            let namespace = t.state.namespaces.get(t.state.locks[*lock].namespace);
            namespace.is_quiet() && is_it(namespace)
        };
        let near = t.state.idle.iter(&t.state.locks).take(LOOK_MAX);
        near.filter(is_quiet).take(FORGET_MAX).collect()
    };
    let mut found = quiet(t);
    if found.is_empty() {
        forget_lost(t, is_it);
        found = quiet(t);
    }
    if found.is_empty() && of.is_none() {
        // The longest idle locks hide the others from this search, so they are forgotten. The next request will see
        // further.
        found = t.state.idle.iter(&t.state.locks).take(FORGET_MAX).collect();
    }
    for lock in found {
        let namespace = t.state.locks[lock].namespace;
        super::sweep::forget_lock(t, lock);
        if t.state.namespaces.get(namespace).n_locks == 0 {
            return super::sweep::forget_namespace(t, namespace);
        }
    }
}
