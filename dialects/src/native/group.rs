//! Endpoints for several locks, all or none: acquire, renew and release. Also cancels waits, for one lock or several.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use leasehold_api::{
    AcquireAllRequest, AcquiredAll, CancelRequest, Cancelled, GrantedLease, HeldLease,
    NotRenewedAll, Reason, ReleaseAllRequest, ReleasedAll, ReleasedLease, RenewAllRequest, Renewed,
    WantedLock,
};
use leasehold_auth::{Caller, Right};
use leasehold_base::clock::Instant;
use leasehold_core::{
    Acquire, AcquireAll, Cancel, Ending, Extend, Grant, LockKey, Mode, Other, Proof, Rejection,
    ReleaseAll, RenewAll, Secret, Span, Wait,
};
use leasehold_engine::metrics::Op;
use leasehold_engine::{self as engine, WaitForAll, WaitedAll};

use super::error::Refusal;
use super::extract::{Body, Lock, Namespace, Received};
use super::lock;
use super::waiting::Waiting;
use super::wire;
use crate::app::App;
use crate::counted::Counted;
use crate::http::json;
use crate::http::request;
use crate::{Dialect, lease_id, owner};

type Answer = Result<Response, Refusal>;
type Answered = Result<Result<WaitedAll, Rejection>, engine::Error>;

pub(super) async fn acquire(
    State(app): State<App>,
    Received(now): Received,
    Namespace(namespace): Namespace,
    counted: Counted,
    caller: Caller,
    Body(request): Body<AcquireAllRequest>,
) -> Result<request::Answer, Refusal> {
    let mut acquire = to_acquire(&app, &namespace, counted, &caller, &request)?;
    let wait = Span::from_millis(request.wait_ms.unwrap_or(0));
    // `n` is the index of a lock in the request.
    let key = |n: usize| LockKey::new(namespace.clone(), request.locks[n].lock_name.as_str());
    if caller.is_asked() {
        // An invalid request is reported as invalid before the caller's rights are checked.
        acquire.first.wait = Wait::Connected(wait);
        app.limits.check_acquire(&acquire.first)?;
        (1..request.locks.len()).try_for_each(|n| app.limits.check_key(&key(n)))?;
    }
    let waiting = Waiting::by(&acquire.first);
    // A wait above the limit is not shortened, so that the engine rejects it.
    let patience = match wait <= app.limits.wait_max {
        true => caller.patience(app.engine.left_of(wait, now), app.engine.clock()),
        false => wait,
    };
    let call = app.engine.ask(caller.permit(WaitForAll { acquire, wait: patience })?);
    let may = |now: &Caller| {
        (0..request.locks.len()).try_for_each(|n| now.check(Right::Acquire, &key(n)))
    };
    let is_over = |answer: &Answered| matches!(answer, Ok(Ok(WaitedAll::Over { .. })));
    let answer = waiting.answer(&app, &caller, call, is_over, may).await?;
    match answer {
        Ok(Ok(WaitedAll::Granted { grants, undelivered })) => {
            Ok(request::Answer::new(acquired(&app, now, &request, &grants), undelivered))
        }
        Ok(Ok(WaitedAll::Over { n, view })) => {
            Ok(lock::wait_over(&app, key(n), (now, wait), &view).into())
        }
        Ok(Err(Rejection::Member { n, why })) => {
            let refused = lock::not_acquired(&app, key(n), *why);
            Ok(refused.map_err(|refusal| refusal.of_member(n))?.into())
        }
        // If the request names a single lock, the rejection does not name a member of a group.
        Ok(Err(rejection)) if request.locks.len() == 1 => {
            Ok(lock::not_acquired(&app, key(0), rejection)?.into())
        }
        Ok(Err(rejection)) => Err(rejection.into()),
        Err(engine::Error::Busy) => Ok(lock::busy(&app, key(0)).into()),
        Err(error) => Err(error.into()),
    }
}

fn to_acquire(
    app: &App,
    namespace: &Arc<str>,
    Counted(peer): Counted,
    caller: &Caller,
    request: &AcquireAllRequest,
) -> Result<AcquireAll, Refusal> {
    let [first, others @ ..] = request.locks.as_slice() else {
        return Err(Refusal::invalid("locks: must name at least one lock"));
    };
    let (n, n_max) = (request.locks.len(), app.limits.group_max);
    if n > n_max {
        return Err(Refusal::invalid(format!("locks: must be 1 to {n_max} (group-max), got {n}")));
    }
    let modes: Vec<_> = request.locks.iter().enumerate().map(mode).collect::<Result<_, _>>()?;
    let (lock, owner) = (
        LockKey::new(namespace.clone(), first.lock_name.as_str()),
        owner::of(caller, &request.owner_id),
    );
    let first = Acquire {
        mode: modes[0],
        ttl: wire::ttl(request.ttl_ms, request.session_id.is_some())?,
        grace: wire::grace(request.grace_ms, &modes)?,
        session: request.session_id.as_deref().map(wire::session_digest),
        metadata: wire::metadata(app, request.metadata.as_ref())?,
        request_id: request.request_id.as_deref().map(Into::into),
        peer,
        ..Acquire::new(lock, owner, Dialect::Native.number(), secret())
    };
    let others = others.iter().zip(&modes[1..]).map(|(other, mode)| Other {
        name: other.lock_name.as_str().into(),
        mode: *mode,
        secret: secret(),
    });
    Ok(AcquireAll { first, others: others.collect() })
}

fn secret() -> Secret {
    Secret(leasehold_base::random::bytes())
}

fn mode((n, wanted): (usize, &WantedLock)) -> Result<Mode, Refusal> {
    wire::mode(wanted.mode, wanted.limit)
        .map_err(|why| Refusal::invalid(format!("locks[{n}].{why}")))
}

fn acquired(app: &App, now: Instant, request: &AcquireAllRequest, grants: &[Grant]) -> Response {
    let lease = |(grant, wanted): (&Grant, &WantedLock)| GrantedLease {
        lock_name: wanted.lock_name.clone(),
        lease_id: lease_id::render(grant.lease.id),
        fencing_token: grant.lease.token.get(),
    };
    // The leases might have been renewed separately since their grant, so the response has the earliest deadline.
    let deadline = grants.iter().filter_map(|grant| grant.lease.deadline).min();
    let expiry = deadline.map(|deadline| app.engine.expiry(deadline, now));
    let body = AcquiredAll {
        acquired: true,
        owner_id: request.owner_id.clone(),
        leases: grants.iter().zip(&request.locks).map(lease).collect(),
        lease_expiry_ms: wire::expiry_ms(app, deadline),
        expires_in_ms: expiry.map(|expiry| expiry.in_ms),
        expires_after_send_ms: expiry.map(|expiry| expiry.after_send_ms),
    };
    json(StatusCode::OK, &body)
}

pub(super) async fn renew(
    State(app): State<App>,
    Received(now): Received,
    Namespace(namespace): Namespace,
    caller: Caller,
    Body(request): Body<RenewAllRequest>,
) -> Answer {
    if request.extend_by_ms == 0 {
        return Err(Refusal::invalid("extend_by_ms must be more than 0"));
    }
    let proofs = proofs(&app, &caller, &namespace, &request.owner_id, &request.leases)?;
    // Rights are checked before proofs: a caller without the right gets the same response for every proof.
    for lease in request.leases.iter().filter(|_| caller.is_asked()) {
        let key = LockKey::new(namespace.clone(), lease.lock_name.as_str());
        app.limits.check_key(&key)?;
        caller.check(Right::Acquire, &key)?;
    }
    if let Some(n) = proofs.iter().position(Option::is_none) {
        app.metrics.engine.ops.failed(Some(Op::Renew));
        return Ok(not_renewed(&request.leases[n]));
    }
    let renew = RenewAll {
        proofs: proofs.into_iter().flatten().collect(),
        dialect: Dialect::Native.number(),
        extend: Extend::AtLeast(Span::from_millis(request.extend_by_ms)),
    };
    match app.engine.ask(caller.permit(renew)?).await? {
        Ok(leases) => {
            let deadline = leases.iter().filter_map(|lease| lease.deadline).min();
            let expiry = deadline.map(|deadline| app.engine.expiry(deadline, now));
            let body = Renewed {
                renewed: true,
                lease_expiry_ms: wire::expiry_ms(&app, deadline),
                expires_in_ms: expiry.map(|expiry| expiry.in_ms),
                expires_after_send_ms: expiry.map(|expiry| expiry.after_send_ms),
            };
            Ok(json(StatusCode::OK, &body))
        }
        Err(Rejection::Member { n, why }) if lock::is_not_theirs(&why) => {
            Ok(not_renewed(&request.leases[n]))
        }
        Err(rejection) => Err(Refusal::of_renewal(rejection)),
    }
}

fn not_renewed(lost: &HeldLease) -> Response {
    let HeldLease { lock_name, lease_id, .. } = lost.clone();
    let error = format!(
        "lease on lock {lock_name:?} not found, expired, or owned by another client; no lease was renewed"
    );
    let reason = Reason::NotOwnerOrExpired;
    let refusal = NotRenewedAll { renewed: false, lock_name, lease_id, reason, error };
    json(StatusCode::CONFLICT, &refusal)
}

/// Returns a proof for each lease of the request; `None` for a lease whose fields are malformed.
fn proofs(
    app: &App,
    caller: &Caller,
    namespace: &Arc<str>,
    owner_id: &str,
    leases: &[HeldLease],
) -> Result<Vec<Option<Proof>>, Refusal> {
    let (n, n_max) = (leases.len(), app.limits.group_max);
    if !(1..=n_max).contains(&n) {
        return Err(Refusal::invalid(format!("leases: must be 1 to {n_max} (group-max), got {n}")));
    }
    let proof = |lease: &HeldLease| {
        let key = LockKey::new(namespace.clone(), lease.lock_name.as_str());
        lock::proof(caller, key, owner_id, &lease.lease_id, lease.fencing_token)
    };
    Ok(leases.iter().map(proof).collect())
}

pub(super) async fn release(
    State(app): State<App>,
    Namespace(namespace): Namespace,
    caller: Caller,
    Body(request): Body<ReleaseAllRequest>,
) -> Answer {
    let proofs = proofs(&app, &caller, &namespace, &request.owner_id, &request.leases)?;
    let is_sent: Vec<_> = proofs.iter().map(Option::is_some).collect();
    let proofs: Vec<_> = proofs.into_iter().flatten().collect();
    let dialect = Dialect::Native.number();
    let mut results = if proofs.is_empty() {
        app.metrics.engine.ops.failed(Some(Op::Release));
        Vec::new().into_iter()
    } else {
        app.engine.ask(caller.own(ReleaseAll { proofs, dialect })).await??.into_iter()
    };
    let leases = request.leases.into_iter().zip(is_sent).map(|(lease, is_sent)| {
        let result = is_sent.then(|| results.next()).flatten();
        let reason = match result {
            Some(Ok(_)) => None,
            Some(Err(Rejection::Ended(Ending::Expired))) => Some(Reason::Expired),
            Some(Err(_)) | None => Some(Reason::NotOwner),
        };
        ReleasedLease { lock_name: lease.lock_name, released: reason.is_none(), reason }
    });
    let leases: Vec<_> = leases.collect();
    let released = leases.iter().any(|lease| lease.released);
    let status = if released { StatusCode::OK } else { StatusCode::CONFLICT };
    let error = (!released).then(|| "none of these leases is active; nothing was released".into());
    Ok(json(status, &ReleasedAll { released, leases, error }))
}

pub(super) async fn cancel_one(
    State(app): State<App>,
    Lock(LockKey { namespace, name }): Lock,
    caller: Caller,
    Body(request): Body<CancelRequest>,
) -> Answer {
    cancel(app, caller, namespace, Some(name), request).await
}

pub(super) async fn cancel_any(
    State(app): State<App>,
    Namespace(namespace): Namespace,
    caller: Caller,
    Body(request): Body<CancelRequest>,
) -> Answer {
    cancel(app, caller, namespace, None, request).await
}

async fn cancel(
    app: App,
    caller: Caller,
    namespace: Arc<str>,
    lock: Option<Box<str>>,
    request: CancelRequest,
) -> Answer {
    let cancel = Cancel {
        owner: owner::of(&caller, &request.owner_id),
        namespace,
        lock,
        dialect: Dialect::Native.number(),
        request_id: request.request_id.into(),
    };
    let cancelled = app.engine.ask(caller.own(cancel)).await??;
    Ok(json(StatusCode::OK, &Cancelled { cancelled }))
}
