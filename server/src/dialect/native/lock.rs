//! One lock: acquire, renew, release, look, revoke.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use leasehold_api::{
    AcquireRequest, Acquired, NotAcquired, NotReleased, NotRenewed, Reason, ReleaseRequest,
    Released, RenewRequest, Renewed, RevokeRequest, Revoked, RevokedLease,
};
use leasehold_core::{
    Acquire, Ending, Extend, Grant, Holding, LockKey, LockView, Proof, Rejection, Release, Renew,
    Revoke, Secret, Span, Target, Timestamp, Token,
};

use super::error::Refusal;
use super::extract::{Body, Lock, Received};
use super::wire;
use crate::app::App;
use crate::dialect::counted::Counted;
use crate::dialect::{Dialect, lease_id, owner};
use crate::engine::{self, ReadLock, WaitFor, Waited};
use crate::http::json;

/// How much of a queue is shown.
const QUEUE_SHOWN: usize = 100;
/// When to come back if another process held the database.
const BUSY_RETRY_MS: u64 = 50;

type Answer = Result<Response, Refusal>;

pub(super) async fn acquire(
    State(app): State<App>,
    Received(now): Received,
    Lock(key): Lock,
    counted: Counted,
    Body(request): Body<AcquireRequest>,
) -> Answer {
    let acquire = to_acquire(&app, &key, counted, &request)?;
    let wait = Span::from_millis(request.wait_ms.unwrap_or(0));
    match app.engine.ask(WaitFor { acquire, wait }).await {
        Ok(Ok(Waited::Granted(grant))) => Ok(acquired(&app, now, key, *grant)),
        Ok(Ok(Waited::Over(view))) => Ok(wait_over(&app, key, &view)),
        Ok(Err(rejection)) => not_acquired(&app, key, rejection),
        Err(engine::Error::Busy) => Ok(refuse(&app, key, Reason::BusyRetry, None, BUSY_RETRY_MS)),
        Err(error) => Err(error.into()),
    }
}

fn to_acquire(
    app: &App,
    key: &LockKey,
    Counted(peer): Counted,
    request: &AcquireRequest,
) -> Result<Acquire, Refusal> {
    let mode = wire::mode(request)?;
    if request.grace_ms.is_some() && mode != leasehold_core::Mode::Exclusive {
        return Err(Refusal::invalid("grace_ms: is for exclusive leases only"));
    }
    let owner = owner::anonymous(&request.owner_id);
    let secret = Secret(crate::random::bytes());
    Ok(Acquire {
        mode,
        ttl: wire::ttl(request)?,
        grace: Span::from_millis(request.grace_ms.unwrap_or(0)),
        session: request.session_id.as_deref().map(wire::session_digest),
        metadata: wire::metadata(app, request)?,
        request_id: request.request_id.as_deref().map(Into::into),
        peer,
        ..Acquire::new(key.clone(), owner, Dialect::Native.number(), secret)
    })
}

fn acquired(app: &App, now: Timestamp, key: LockKey, grant: Grant) -> Response {
    let lease = grant.lease;
    let answer = Acquired {
        acquired: true,
        lock_name: key.name.into(),
        owner_id: lease.owner.instance.to_string(),
        lease_id: lease_id::render(lease.id),
        fencing_token: lease.token.get(),
        lease_expiry_ms: wire::expiry_ms(app, lease.deadline),
        expires_in_ms: lease.remaining(now).map(Span::as_millis),
    };
    json(StatusCode::OK, &answer)
}

fn not_acquired(app: &App, key: LockKey, rejection: Rejection) -> Answer {
    match rejection {
        Rejection::Held(holding) => {
            let Holding { owner, deadline, remaining, n_waiting, .. } = *holding;
            let retry = app.retry.after(remaining, n_waiting).as_millis();
            let current = owner.map(|owner| (owner.instance, deadline));
            Ok(refuse(app, key, Reason::Held, current, retry))
        }
        Rejection::Grace { owner, grace_until, .. } => {
            let remaining = grace_until.since(app.engine.now());
            let retry = app.retry.after(Some(remaining), 0).as_millis();
            Ok(refuse(app, key, Reason::Grace, Some((owner.instance, Some(grace_until))), retry))
        }
        Rejection::QueueFull => {
            let retry = app.retry.max.as_millis();
            Ok(refuse(app, key, Reason::QueueFull, None, retry))
        }
        other => Err(other.into()),
    }
}

fn wait_over(app: &App, key: LockKey, view: &LockView) -> Response {
    let holder = view.holders.first();
    let remaining = holder.and_then(|holder| holder.remaining(app.engine.now()));
    let retry = app.retry.after(remaining, view.n_waiting).as_millis();
    let current = holder.map(|holder| (holder.owner.instance.clone(), holder.deadline));
    refuse(app, key, Reason::WaitTimeout, current, retry)
}

fn refuse(
    app: &App,
    key: LockKey,
    reason: Reason,
    current: Option<(std::sync::Arc<str>, Option<Timestamp>)>,
    recommended_retry_ms: u64,
) -> Response {
    let error = match reason {
        Reason::Grace => "the lock is reserved for its last owner",
        Reason::QueueFull => "too many wait for this lock",
        Reason::WaitTimeout => "the lock did not become free within wait_ms",
        Reason::BusyRetry => "another process holds the database; nothing was done",
        _ => "the lock is held",
    };
    let (owner, deadline) = current.unzip();
    let body = NotAcquired {
        acquired: false,
        lock_name: key.name.into(),
        current_owner_id: owner.map(|owner| owner.to_string()),
        current_expiry_ms: wire::expiry_ms(app, deadline.flatten()),
        recommended_retry_ms,
        reason,
        error: error.into(),
    };
    json(StatusCode::CONFLICT, &body)
}

pub(super) async fn renew(
    State(app): State<App>,
    Received(now): Received,
    Lock(key): Lock,
    Body(request): Body<RenewRequest>,
) -> Answer {
    if request.extend_by_ms == 0 {
        return Err(Refusal::invalid("extend_by_ms: must be more than 0"));
    }
    let proof = proof(key, &request.owner_id, &request.lease_id, request.fencing_token);
    let Some(proof) = proof else { return Ok(not_renewed()) };
    let renew = Renew {
        proof,
        dialect: Dialect::Native.number(),
        extend: Extend::AtLeast(Span::from_millis(request.extend_by_ms)),
        request_id: request.request_id.map(Into::into),
    };
    match app.engine.ask(renew).await? {
        Ok(lease) => {
            let answer = Renewed {
                renewed: true,
                lease_expiry_ms: wire::expiry_ms(&app, lease.deadline),
                expires_in_ms: lease.remaining(now).map(Span::as_millis),
            };
            Ok(json(StatusCode::OK, &answer))
        }
        Err(rejection) if is_not_theirs(&rejection) => Ok(not_renewed()),
        Err(rejection) => Err(rejection.into()),
    }
}

fn not_renewed() -> Response {
    let error = "the lease is not yours, or has ended".into();
    let body = NotRenewed { renewed: false, reason: Reason::NotOwnerOrExpired, error };
    json(StatusCode::CONFLICT, &body)
}

pub(super) async fn release(
    State(app): State<App>,
    Lock(key): Lock,
    Body(request): Body<ReleaseRequest>,
) -> Answer {
    let proof = proof(key, &request.owner_id, &request.lease_id, request.fencing_token);
    let Some(proof) = proof else { return Ok(not_released(Reason::NotOwner)) };
    let release = Release {
        proof,
        dialect: Dialect::Native.number(),
        request_id: request.request_id.map(Into::into),
    };
    match app.engine.ask(release).await? {
        Ok(_) => Ok(json(StatusCode::OK, &Released { released: true })),
        Err(Rejection::Ended(Ending::Expired)) => Ok(not_released(Reason::Expired)),
        Err(rejection) if is_not_theirs(&rejection) => Ok(not_released(Reason::NotOwner)),
        Err(rejection) => Err(rejection.into()),
    }
}

fn not_released(reason: Reason) -> Response {
    let error = match reason {
        Reason::Expired => "the lease has expired",
        _ => "the lease is not yours, or is yours no more",
    };
    let body = NotReleased { released: false, reason, error: error.into() };
    json(StatusCode::CONFLICT, &body)
}

fn is_not_theirs(rejection: &Rejection) -> bool {
    matches!(
        rejection,
        Rejection::NoSuchLease
            | Rejection::NotOwner
            | Rejection::Ended(_)
            | Rejection::StillWaiting
    )
}

/// `None` if what was sent cannot be any lease's.
fn proof(key: LockKey, owner_id: &str, lease_id: &str, token: u64) -> Option<Proof> {
    Some(Proof::Id {
        id: lease_id::parse(lease_id)?,
        owner: owner::anonymous(owner_id),
        token: Some(Token::new(token)?),
        lock: Some(key),
    })
}

pub(super) async fn look(
    State(app): State<App>,
    Received(now): Received,
    Lock(key): Lock,
) -> Answer {
    let read = ReadLock { key: key.clone(), n_queue_max: QUEUE_SHOWN };
    let view = app.engine.ask(read).await??;
    Ok(json(StatusCode::OK, &wire::lock_state(&app, &key, &view, now)))
}

pub(super) async fn revoke(
    State(app): State<App>,
    Lock(key): Lock,
    Body(request): Body<RevokeRequest>,
) -> Answer {
    if request.reason.is_empty() {
        return Err(Refusal::invalid("reason: must say why"));
    }
    let reason = request.reason.as_str().into();
    let leases = app.engine.ask(Revoke { target: Target::Lock(key.clone()), reason }).await??;
    tracing::warn!(lock = ?key, by = "anonymous", reason = ?request.reason, n = leases.len(), "revoked");
    let revoked = leases.iter().map(|lease| RevokedLease {
        owner_id: lease.owner.instance.to_string(),
        fencing_token: lease.token.get(),
    });
    let body = Revoked { lock_name: key.name.into(), revoked: revoked.collect() };
    Ok(json(StatusCode::OK, &body))
}
