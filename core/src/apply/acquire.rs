//! Acquires a lock, or queues for it.

use super::maintain;
use super::replay::{self, Replay};
use super::room::{self, Need};
use crate::arena::Slot;
use crate::change::Change;
use crate::command::{Acquire, Wait};
use crate::group::Group;
use crate::lease::{Lease, LeaseRecord, Mode, Phase};
use crate::lock::Lock;
use crate::mutant;
use crate::name::{Dialect, Owner};
use crate::outcome::{Acquired, AcquiredAll, Grant, GrantKind, Holding, Rejection};
use crate::queue::Queue;
use crate::request::{Fingerprint, Operation, Request};
use crate::session::SessionNumber;
use crate::state::Scope;
use crate::time::{Span, Timestamp};
use crate::token::Token;
use crate::transition::Transition;

pub(crate) fn acquire(t: &mut Transition<'_>, mut acquire: Acquire) -> Result<Acquired, Rejection> {
    t.limits.check_acquire(&acquire)?;
    let request = request(&acquire).filter(|_| !mutant!(RequestIdNotStored));
    if let Some(request) = &request {
        let scope = Scope {
            namespace: &acquire.lock.namespace,
            owner: &acquire.owner,
            dialect: acquire.dialect,
            operation: Operation::Acquire,
            id: &request.id,
        };
        if let Some(replay) = replay::find(t, &scope, request.fingerprint)? {
            return replayed(t, replay, acquire.wait).map(AcquiredAll::one);
        }
    }
    let session = session(t, &mut acquire)?;
    let lock = t.state.find_lock(&acquire.lock);
    if let Some(lock) = lock {
        t.settle(lock);
        if acquire.sticky
            && let Some(held) = t.held_by(lock, &acquire.owner, acquire.dialect)
        {
            return Ok(renew_instead(t, held, acquire.ttl));
        }
        check_limit(t, lock, acquire.mode)?;
    }
    maintain::check(t, std::slice::from_ref(&acquire))?;
    match lock.and_then(|lock| obstacle(t, lock, &acquire)) {
        None => take(t, acquire, request, session, lock),
        Some(obstacle) => queue(t, acquire, request, session, obstacle),
    }
}

/// Returns the answer to a request whose id is known.
pub(super) fn replayed(
    t: &mut Transition<'_>,
    replay: Replay,
    wait: Wait,
) -> Result<AcquiredAll, Rejection> {
    match replay {
        Replay::Active(lease) => {
            // A replay concerns connections, not the lease. So it is not a change, and a restart forgets it.
            t.state.leases[lease].extra().was_replayed = true;
            Ok(granted_together(t, lease, GrantKind::Replayed))
        }
        Replay::Queued(lease) => come_back(t, lease, wait),
        Replay::Ended(how) => Err(Rejection::RequestSpent(how)),
    }
}

/// Puts a repeated request back to its position in the queue, or the positions of its group.
fn come_back(
    t: &mut Transition<'_>,
    lease: Slot<Lease>,
    wait: Wait,
) -> Result<AcquiredAll, Rejection> {
    let number = t.state.leases[lease].number;
    let mut together = t.state.together(lease);
    if wait.span() == Span::ZERO {
        return Err(held_up(t, lease, &together));
    }
    if mutant!(GroupParkedInPart) {
        together.truncate(1);
    }
    for waiter in together {
        let Lease { number, lock, .. } = t.state.leases[waiter];
        t.record(Change::Attached { lease: number, deadline: t.now + wait.span() });
        t.stirred.push_back(lock);
    }
    t.promote_stirred();
    // It can be granted immediately: the lock was free, but the waiter was parked.
    t.wakeups.retain(|woken| *woken != number);
    match t.state.find_lease(number) {
        Some(lease) if t.state.leases[lease].is_active() => {
            Ok(granted_together(t, lease, GrantKind::New))
        }
        _ => Ok(AcquiredAll::Queued(number)),
    }
}

/// Returns what a waiter waits for. For a group, that is the first lock that blocks the grant.
fn held_up(t: &Transition<'_>, lease: Slot<Lease>, together: &[Slot<Lease>]) -> Rejection {
    let Some(group) = t.state.leases[lease].group() else {
        return held(t, t.state.leases[lease].lock);
    };
    let first = t.state.first_held_up(group, t.now, t.limits).unwrap_or(lease);
    let n = together.iter().position(|member| *member == first).unwrap_or_default();
    Rejection::Member { n, why: Box::new(held(t, t.state.leases[first].lock)) }
}

fn renew_instead(t: &mut Transition<'_>, held: Slot<Lease>, ttl: Option<Span>) -> Acquired {
    let deadline = ttl.map_or(Timestamp::NEVER, |ttl| t.now + ttl);
    let lease = t.state.leases[held].number;
    t.record(Change::Renewed { lease, at: t.now, deadline, request: None });
    granted(t, held, GrantKind::Renewed, None)
}

/// Returns what prevents an immediate grant of a settled lock.
pub(super) fn obstacle(
    t: &Transition<'_>,
    slot: Slot<Lock>,
    acquire: &Acquire,
) -> Option<Rejection> {
    let lock = &t.state.locks[slot];
    if let Some(lapse) = lock.grace(t.now) {
        let owner = t.state.owners.find(&acquire.owner);
        let is_last_owner = owner.is_some_and(|owner| lapse.is_of(owner, acquire.dialect));
        // The last owner goes before the whole queue.
        return (!is_last_owner).then(|| in_the_way(t, slot));
    }
    let others_first =
        lock.queue().is_some_and(|queue| queue.n_ready() > 0 && !is_passed(t, queue));
    let wanted = (acquire.mode, acquire.dialect);
    (others_first || !t.state.admits(slot, wanted, t.limits)).then(|| held(t, slot))
}

/// Returns whether an acquire may pass waiters that wait for other locks as well. Always false without the mutant.
fn is_passed(t: &Transition<'_>, queue: &Queue) -> bool {
    mutant!(GroupIsPassed)
        && queue.first().is_some_and(|waiter| t.state.leases[waiter].group().is_some())
}

/// Returns the rejection that names what blocks a lock: the grace period, or a holder.
pub(crate) fn in_the_way(t: &Transition<'_>, slot: Slot<Lock>) -> Rejection {
    match t.state.locks[slot].grace(t.now) {
        Some(lapse) => Rejection::Grace {
            owner: t.state.owner(lapse.owner).clone(),
            expired_at: lapse.expired_at,
            grace_until: lapse.grace_until,
        },
        None => held(t, slot),
    }
}

/// Returns a rejection if the queue of this lock is full.
pub(super) fn queue_full(t: &Transition<'_>, slot: Slot<Lock>) -> Option<Rejection> {
    let n_waiting = t.state.locks[slot].queue().map_or(0, |queue| queue.len());
    let queue_max = t.limits.queue_max;
    (n_waiting >= queue_max)
        .then(|| Rejection::QueueFull { queue_max, holding: Box::new(holding(t, slot)) })
}

fn held(t: &Transition<'_>, slot: Slot<Lock>) -> Rejection {
    Rejection::Held(Box::new(holding(t, slot)))
}

fn holding(t: &Transition<'_>, slot: Slot<Lock>) -> Holding {
    let holder = t.state.holders(slot).next().map(|holder| &t.state.leases[holder]);
    let deadline = holder.and_then(|lease| t.state.deadline(lease).finite());
    Holding {
        owner: holder.map(|lease| t.state.owner(lease.owner).clone()),
        lease: holder.map(|lease| (lease.dialect, lease.number)),
        granted_at: holder.map_or(t.now, |lease| lease.granted_at),
        deadline,
        remaining: deadline.map(|deadline| deadline.since(t.now)),
        n_waiting: t.state.locks[slot].queue().map_or(0, |queue| queue.len()),
        group: holder.and_then(|lease| lease.group()),
        metadata: holder.and_then(|lease| lease.extra.as_ref()?.metadata.clone()),
    }
}

/// Checks that an acquire has the same limit as all counted holders and waiters of the lock.
pub(super) fn check_limit(
    t: &Transition<'_>,
    lock: Slot<Lock>,
    mode: Mode,
) -> Result<(), Rejection> {
    match (mode, t.state.limit(lock)) {
        (Mode::Counted(wanted), Some(limit)) if wanted != limit => {
            Err(Rejection::LimitDiffers { limit })
        }
        _ => Ok(()),
    }
}

fn take(
    t: &mut Transition<'_>,
    acquire: Acquire,
    request: Option<Request>,
    session: Option<SessionNumber>,
    lock: Option<Slot<Lock>>,
) -> Result<Acquired, Rejection> {
    let (asked, waits) = (request.as_ref(), false);
    room::check(t, &Need { acquire: &acquire, request: asked, lock, waits })?;
    let token = t.state.next_token(lock, &acquire.lock.namespace);
    let token = token.ok_or(Rejection::TokensExhausted)?;
    let previous = lock.and_then(|lock| previous(t, lock, &acquire.owner));
    let deadline = acquire.ttl.map_or(Timestamp::NEVER, |ttl| t.now + ttl);
    let fresh = Fresh { request, session, group: None, phase: Phase::Active, token, deadline };
    let lease = add(t, acquire, fresh);
    if let Some(lock) = lock {
        // In a grace period the last owner passes the queue. If its lease is shared, waiters behind it might be
        // admitted.
        t.promote(lock);
    }
    Ok(granted(t, lease, GrantKind::New, previous))
}

fn queue(
    t: &mut Transition<'_>,
    acquire: Acquire,
    request: Option<Request>,
    session: Option<SessionNumber>,
    obstacle: Rejection,
) -> Result<Acquired, Rejection> {
    if acquire.wait.span() == Span::ZERO {
        return Err(obstacle);
    }
    let lock = t.state.find_lock(&acquire.lock);
    let (asked, waits) = (request.as_ref(), true);
    room::check(t, &Need { acquire: &acquire, request: asked, lock, waits })?;
    if let Some(full) = lock.and_then(|lock| queue_full(t, lock)) {
        return Err(full);
    }
    let deadline = t.now + acquire.wait.span();
    let (phase, token) = (Phase::Waiting, Token::ZERO);
    let fresh = Fresh { request, session, group: None, phase, token, deadline };
    let lease = add(t, acquire, fresh);
    Ok(Acquired::Queued(t.state.leases[lease].number))
}

/// The fields of a new lease that are not part of the acquire.
pub(super) struct Fresh {
    pub(super) request: Option<Request>,
    pub(super) session: Option<SessionNumber>,
    pub(super) group: Option<Group>,
    pub(super) phase: Phase,
    pub(super) token: Token,
    pub(super) deadline: Timestamp,
}

pub(super) fn add(t: &mut Transition<'_>, acquire: Acquire, fresh: Fresh) -> Slot<Lease> {
    let number = t.state.next_lease;
    let Owner { principal, instance } = acquire.owner;
    let instance =
        if acquire.owner_per_lease { format!("{instance}{}", number.0).into() } else { instance };
    t.record(Change::LeaseAdded(Box::new(LeaseRecord {
        number,
        secret: acquire.secret,
        lock: acquire.lock,
        owner: Owner { principal, instance },
        session: fresh.session,
        dialect: acquire.dialect,
        mode: acquire.mode,
        phase: fresh.phase,
        tethered: matches!(acquire.wait, Wait::Connected(_)),
        keep: acquire.keep,
        version: 1,
        token: fresh.token,
        created_at: t.now,
        granted_at: t.now,
        renewed_at: t.now,
        deadline: fresh.deadline,
        ttl: acquire.ttl,
        grace: if acquire.mode.has_grace() { whole_millis(acquire.grace) } else { Span::ZERO },
        group: fresh.group,
        metadata: acquire.metadata,
        requests: fresh.request.into_iter().collect(),
        reason: None,
        peer: acquire.peer,
    })));
    let Some(slot) = t.state.find_lease(number) else { panic!("a lease was just added") };
    slot
}

/// Rounds a grace period down to milliseconds, the unit in which leases store it.
fn whole_millis(grace: Span) -> Span {
    Span::from_millis(grace.as_millis())
}

/// Returns the grant of a lease, or of its whole group.
fn granted_together(t: &Transition<'_>, lease: Slot<Lease>, kind: GrantKind) -> AcquiredAll {
    let together = t.state.together(lease).into_iter();
    AcquiredAll::Granted(together.map(|member| grant(t, member, kind, None)).collect())
}

fn granted(
    t: &Transition<'_>,
    lease: Slot<Lease>,
    kind: GrantKind,
    previous: Option<(Dialect, Owner)>,
) -> Acquired {
    Acquired::Granted(Box::new(grant(t, lease, kind, previous)))
}

pub(super) fn grant(
    t: &Transition<'_>,
    lease: Slot<Lease>,
    kind: GrantKind,
    previous: Option<(Dialect, Owner)>,
) -> Grant {
    let mut lease = t.view(lease);
    if mutant!(ReplayFirstRemaining) && kind == GrantKind::Replayed {
        lease.deadline = lease.ttl.map(|ttl| t.now + ttl);
    }
    Grant { lease, kind, previous }
}

/// Returns the previous owner that let the lock expire, if it was another owner.
pub(super) fn previous(
    t: &Transition<'_>,
    lock: Slot<Lock>,
    owner: &Owner,
) -> Option<(Dialect, Owner)> {
    let lapse = t.state.locks[lock].lapse.as_deref()?;
    let last = Some(t.state.owner(lapse.owner)).filter(|last| *last != owner);
    last.map(|last| (lapse.dialect, last.clone()))
}

/// Returns the session that a lease is to belong to. The lease counts against the account of the session.
pub(super) fn session(
    t: &Transition<'_>,
    acquire: &mut Acquire,
) -> Result<Option<SessionNumber>, Rejection> {
    let Some(digest) = &acquire.session else { return Ok(None) };
    let slot = super::session::live(t, digest, acquire.dialect)?;
    let session = &t.state.sessions[slot];
    if *t.state.owner(session.owner) != acquire.owner {
        return Err(Rejection::NoSuchSession);
    }
    acquire.peer = t.state.owners.accounts.get(session.account).peer;
    Ok(Some(session.number))
}

fn request(acquire: &Acquire) -> Option<Request> {
    let id = acquire.request_id.clone()?;
    Some(Request { operation: Operation::Acquire, id, fingerprint: fingerprint(acquire).done() })
}

/// Hashes the whole request except the length of its wait.
pub(super) fn fingerprint(acquire: &Acquire) -> Fingerprint {
    let (mode, limit) = in_numbers(acquire.mode);
    Fingerprint::new()
        .text(acquire.lock.name.as_bytes())
        .number(mode)
        .number(limit)
        .number(acquire.ttl.map_or(u64::MAX, Span::as_nanos))
        .number(acquire.grace.as_nanos())
        .text(acquire.session.as_ref().map_or(&[], |digest| &digest.0))
        .text(acquire.metadata.as_deref().unwrap_or_default())
}

pub(super) fn in_numbers(mode: Mode) -> (u64, u64) {
    match mode {
        Mode::Exclusive => (0, 0),
        Mode::Shared => (1, 0),
        Mode::Counted(limit) => (2, limit.into()),
    }
}
