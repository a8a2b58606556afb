//! Take a lock, or queue for it.

use super::replay::{self, Replay};
use super::room::{self, Need};
use crate::arena::Slot;
use crate::change::Change;
use crate::command::{Acquire, Wait};
use crate::lease::{Lease, LeaseRecord, Mode, Phase};
use crate::lock::Lock;
use crate::mutant;
use crate::name::Owner;
use crate::outcome::{Acquired, Grant, GrantKind, Holding, Rejection};
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
        match replay::find(t, &scope, request.fingerprint)? {
            Some(Replay::Active(lease)) => {
                // About connections, not about the lease: so it is no change, and a restart forgets it.
                t.state.leases[lease].extra().was_replayed = true;
                return Ok(granted(t, lease, GrantKind::Replayed, None));
            }
            Some(Replay::Queued(lease)) => return come_back(t, lease, acquire.wait),
            Some(Replay::Ended(how)) => return Err(Rejection::RequestSpent(how)),
            None => {}
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
    match lock.and_then(|lock| obstacle(t, lock, &acquire)) {
        None => take(t, acquire, request, session, lock),
        Some(obstacle) => queue(t, acquire, request, session, obstacle),
    }
}

/// The repeated request finds its place in the queue again.
fn come_back(
    t: &mut Transition<'_>,
    lease: Slot<Lease>,
    wait: Wait,
) -> Result<Acquired, Rejection> {
    let Lease { number, lock, .. } = t.state.leases[lease];
    if wait.span() == Span::ZERO {
        return Err(held(t, lock));
    }
    t.record(Change::Attached { lease: number, deadline: t.now + wait.span() });
    t.promote(lock);
    // It can be granted on the spot: the lock was free, but nobody was there to be given it.
    t.wakeups.retain(|woken| *woken != number);
    match t.state.find_lease(number) {
        Some(lease) if t.state.leases[lease].is_active() => {
            Ok(granted(t, lease, GrantKind::New, None))
        }
        _ => Ok(Acquired::Queued(number)),
    }
}

fn renew_instead(t: &mut Transition<'_>, held: Slot<Lease>, ttl: Option<Span>) -> Acquired {
    let deadline = ttl.map_or(Timestamp::NEVER, |ttl| t.now + ttl);
    let lease = t.state.leases[held].number;
    t.record(Change::Renewed { lease, at: t.now, deadline, request: None });
    granted(t, held, GrantKind::Renewed, None)
}

/// What keeps a settled lock from being taken right away.
fn obstacle(t: &Transition<'_>, slot: Slot<Lock>, acquire: &Acquire) -> Option<Rejection> {
    let lock = &t.state.locks[slot];
    if let Some(lapse) = lock.grace(t.now) {
        let owner = t.state.owner(lapse.owner);
        let is_last_owner = *owner == acquire.owner && lapse.dialect == acquire.dialect;
        // The last owner goes before the whole queue.
        return (!is_last_owner).then(|| Rejection::Grace {
            owner: owner.clone(),
            expired_at: lapse.expired_at,
            grace_until: lapse.grace_until,
        });
    }
    let others_first = lock.queue().is_some_and(|queue| queue.n_ready() > 0);
    (others_first || !t.state.admits(slot, acquire.mode, t.limits)).then(|| held(t, slot))
}

fn held(t: &Transition<'_>, slot: Slot<Lock>) -> Rejection {
    let holder = t.state.holders(slot).next().map(|holder| &t.state.leases[holder]);
    let deadline = holder.and_then(|lease| t.state.deadline(lease).finite());
    Rejection::Held(Box::new(Holding {
        owner: holder.map(|lease| t.state.owner(lease.owner).clone()),
        lease: holder.map(|lease| (lease.dialect, lease.number)),
        granted_at: holder.map_or(t.now, |lease| lease.granted_at),
        deadline,
        remaining: deadline.map(|deadline| deadline.since(t.now)),
        n_waiting: t.state.locks[slot].queue().map_or(0, |queue| queue.len()),
    }))
}

/// All counted holders and waiters of a lock agree on the count.
fn check_limit(t: &Transition<'_>, lock: Slot<Lock>, mode: Mode) -> Result<(), Rejection> {
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
    let fresh = Fresh { request, session, phase: Phase::Active, token, deadline };
    let lease = add(t, acquire, fresh);
    if let Some(lock) = lock {
        // In a grace period the last owner passes the queue; if it shares, others can follow it in.
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
    let n_waiting = lock.and_then(|lock| t.state.locks[lock].queue()).map_or(0, |q| q.len());
    if n_waiting >= t.limits.queue_max {
        return Err(Rejection::QueueFull);
    }
    let deadline = t.now + acquire.wait.span();
    let fresh = Fresh { request, session, phase: Phase::Waiting, token: Token::ZERO, deadline };
    let lease = add(t, acquire, fresh);
    Ok(Acquired::Queued(t.state.leases[lease].number))
}

/// What an acquire does not say itself.
struct Fresh {
    request: Option<Request>,
    session: Option<SessionNumber>,
    phase: Phase,
    token: Token,
    deadline: Timestamp,
}

fn add(t: &mut Transition<'_>, acquire: Acquire, fresh: Fresh) -> Slot<Lease> {
    let number = t.state.next_lease;
    let exclusive = acquire.mode == Mode::Exclusive;
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
        grace: if exclusive { whole_millis(acquire.grace) } else { Span::ZERO },
        group: None,
        metadata: acquire.metadata,
        requests: fresh.request.into_iter().collect(),
        reason: None,
        peer: acquire.peer,
    })));
    let Some(slot) = t.state.find_lease(number) else { panic!("a lease was just added") };
    slot
}

/// Grace periods are kept in milliseconds.
fn whole_millis(grace: Span) -> Span {
    Span::from_millis(grace.as_millis())
}

fn granted(
    t: &Transition<'_>,
    lease: Slot<Lease>,
    kind: GrantKind,
    previous: Option<Owner>,
) -> Acquired {
    let mut lease = t.view(lease);
    if mutant!(ReplayFirstRemaining) && kind == GrantKind::Replayed {
        lease.deadline = lease.ttl.map(|ttl| t.now + ttl);
    }
    Acquired::Granted(Box::new(Grant { lease, kind, previous }))
}

/// Who let the lock expire before, if that was somebody else.
fn previous(t: &Transition<'_>, lock: Slot<Lock>, owner: &Owner) -> Option<Owner> {
    let lapse = t.state.locks[lock].lapse.as_deref()?;
    Some(t.state.owner(lapse.owner)).filter(|last| *last != owner).cloned()
}

/// The session a lease is to belong to. The lease is counted with whoever the session is.
fn session(t: &Transition<'_>, acquire: &mut Acquire) -> Result<Option<SessionNumber>, Rejection> {
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
    let (mode, limit) = match acquire.mode {
        Mode::Exclusive => (0, 0),
        Mode::Shared => (1, 0),
        Mode::Counted(limit) => (2, limit),
    };
    let fingerprint = Fingerprint::new()
        .text(acquire.lock.name.as_bytes())
        .number(mode)
        .number(limit.into())
        .number(acquire.ttl.map_or(u64::MAX, Span::as_nanos))
        .number(acquire.grace.as_nanos())
        .text(acquire.session.as_ref().map_or(&[], |digest| &digest.0))
        .text(acquire.metadata.as_deref().unwrap_or_default());
    Some(Request { operation: Operation::Acquire, id, fingerprint: fingerprint.done() })
}
