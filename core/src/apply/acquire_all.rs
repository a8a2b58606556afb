//! Acquires several locks or none, or queues for all of them.

use super::acquire::{self, Fresh};
use super::{maintain, replay, room};
use crate::arena::Slot;
use crate::command::{Acquire, AcquireAll};
use crate::group::Group;
use crate::lease::{Lease, Phase};
use crate::lock::Lock;
use crate::mutant;
use crate::outcome::{AcquiredAll, GrantKind, Rejection};
use crate::request::{Operation, Request};
use crate::session::SessionNumber;
use crate::state::Scope;
use crate::time::{Span, Timestamp};
use crate::token::Token;
use crate::transition::Transition;

pub(crate) fn acquire_all(
    t: &mut Transition<'_>,
    all: AcquireAll,
) -> Result<AcquiredAll, Rejection> {
    t.limits.check_group(1 + all.others.len())?;
    if all.others.is_empty() {
        return acquire::acquire(t, all.first).map(Into::into);
    }
    let mut each = all.each();
    check(t, &each)?;
    let request = request(&each).filter(|_| !mutant!(RequestIdNotStored));
    if let Some(request) = &request {
        let scope = Scope {
            namespace: &each[0].lock.namespace,
            owner: &each[0].owner,
            dialect: each[0].dialect,
            operation: Operation::Acquire,
            id: &request.id,
        };
        if let Some(replay) = replay::find(t, &scope, request.fingerprint)? {
            return acquire::replayed(t, replay, each[0].wait);
        }
    }
    let session = acquire::session(t, &mut each[0])?;
    let peer = each[0].peer;
    each.iter_mut().for_each(|acquire| acquire.peer = peer);
    maintain::check(t, &each)?;
    settle(t, &each);
    let obstacle = judge(t, &each)?;
    match obstacle {
        None => take(t, each, request, session),
        Some(obstacle) if each[0].wait.span() == Span::ZERO => Err(obstacle),
        Some(_) => queue(t, each, request, session),
    }
}

/// Checks each acquire like a single one, and that no lock is named twice.
fn check(t: &Transition<'_>, each: &[Acquire]) -> Result<(), Rejection> {
    t.limits.check_acquire(&each[0])?;
    let mut names = std::collections::BTreeSet::new();
    for (n, acquire) in each.iter().enumerate() {
        t.limits.check_key(&acquire.lock).map_err(|why| member(n, why))?;
        t.limits.check_mode(acquire.mode).map_err(|why| member(n, why))?;
        if !names.insert(&acquire.lock.name) {
            return Err(Rejection::Repeated { n });
        }
    }
    Ok(())
}

/// Settles the locks, except those whose holders the new lease would simply join. Checking ten thousand readers is not
/// worthwhile, because it makes no difference to one more reader which of them are overdue.
fn settle(t: &mut Transition<'_>, each: &[Acquire]) {
    let locks = each.iter().filter_map(|acquire| {
        let lock = t.state.find_lock(&acquire.lock)?;
        (!joins(t, lock, acquire)).then_some(lock)
    });
    let locks: Vec<_> = locks.collect();
    t.settle_all(locks);
}

fn joins(t: &Transition<'_>, lock: Slot<Lock>, Acquire { mode, dialect, .. }: &Acquire) -> bool {
    let holder = t.state.holders(lock).next();
    holder.is_some_and(|holder| t.state.leases[holder].mode.get() == *mode)
        && t.state.locks[lock].queue().is_none()
        && t.state.admits(lock, (*mode, *dialect), t.limits)
}

/// Returns the first lock that blocks the grant, in the order of the request. Returns an error if waiting cannot help.
fn judge(t: &Transition<'_>, each: &[Acquire]) -> Result<Option<Rejection>, Rejection> {
    let mut first = None;
    for (n, acquire) in each.iter().enumerate() {
        let Some(lock) = t.state.find_lock(&acquire.lock) else { continue };
        acquire::check_limit(t, lock, acquire.mode).map_err(|why| member(n, why))?;
        if first.is_none() {
            first = acquire::obstacle(t, lock, acquire).map(|why| member(n, why));
        }
    }
    Ok(first)
}

fn take(
    t: &mut Transition<'_>,
    each: Vec<Acquire>,
    request: Option<Request>,
    session: Option<SessionNumber>,
) -> Result<AcquiredAll, Rejection> {
    let token = |acquire: &Acquire| {
        let lock = t.state.find_lock(&acquire.lock);
        t.state.next_token(lock, &acquire.lock.namespace)
    };
    let tokens: Option<Vec<_>> = each.iter().map(token).collect();
    let tokens = tokens.ok_or(Rejection::TokensExhausted)?;
    room::check_all(t, &each, request.as_ref(), false)?;
    let deadline = each[0].ttl.map_or(Timestamp::NEVER, |ttl| t.now + ttl);
    let (mut fresh, mut grants) = (fresh(t, &each, request, session, deadline), Vec::new());
    fresh.phase = Phase::Active;
    for (acquire, token) in each.into_iter().zip(tokens) {
        let lock = t.state.find_lock(&acquire.lock);
        let previous = lock.and_then(|lock| acquire::previous(t, lock, &acquire.owner));
        fresh.token = token;
        grants.push((acquire::add(t, acquire, fresh.next()), previous));
        // In a grace period the last owner passes the queue. If its lease is shared, waiters behind it might be
        // admitted.
        t.stirred.extend(lock);
    }
    t.promote_stirred();
    let grants = grants.into_iter();
    let grants = grants.map(|(lease, previous)| acquire::grant(t, lease, GrantKind::New, previous));
    Ok(AcquiredAll::Granted(grants.collect()))
}

fn queue(
    t: &mut Transition<'_>,
    each: Vec<Acquire>,
    request: Option<Request>,
    session: Option<SessionNumber>,
) -> Result<AcquiredAll, Rejection> {
    for (n, acquire) in each.iter().enumerate() {
        let lock = t.state.find_lock(&acquire.lock);
        if let Some(full) = lock.and_then(|lock| acquire::queue_full(t, lock)) {
            return Err(member(n, full));
        }
    }
    room::check_all(t, &each, request.as_ref(), true)?;
    let deadline = t.now + each[0].wait.span();
    let mut fresh = fresh(t, &each, request, session, deadline);
    let first = t.state.next_lease;
    for acquire in each {
        let _: Slot<Lease> = acquire::add(t, acquire, fresh.next());
    }
    Ok(AcquiredAll::Queued(first))
}

/// Returns the fields that the leases of a group have in common. The request id stays with the first lease.
fn fresh(
    t: &Transition<'_>,
    each: &[Acquire],
    request: Option<Request>,
    session: Option<SessionNumber>,
    deadline: Timestamp,
) -> Fresh {
    let group = Some(Group { first: t.state.next_lease, size: each.len() as u32 });
    Fresh { request, session, group, phase: Phase::Waiting, token: Token::ZERO, deadline }
}

impl Fresh {
    /// Returns the fields for the next lease of the group.
    fn next(&mut self) -> Self {
        Self { request: self.request.take(), ..*self }
    }
}

fn request(each: &[Acquire]) -> Option<Request> {
    let id = each[0].request_id.clone()?;
    let fingerprint =
        each[1..].iter().fold(acquire::fingerprint(&each[0]), |fingerprint, other| {
            let (mode, limit) = acquire::in_numbers(other.mode);
            fingerprint.text(other.lock.name.as_bytes()).number(mode).number(limit)
        });
    Some(Request { operation: Operation::Acquire, id, fingerprint: fingerprint.done() })
}

fn member(n: usize, why: Rejection) -> Rejection {
    Rejection::Member { n, why: Box::new(why) }
}
