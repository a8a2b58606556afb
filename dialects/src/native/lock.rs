//! Endpoints for one lock: acquire, renew, release, read and revoke.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use leasehold_api::{
    AcquireRequest, Acquired, NotAcquired, NotReleased, NotRenewed, Reason, ReleaseRequest,
    Released, RenewRequest, Renewed, RevokeRequest, Revoked, RevokedLease,
};
use leasehold_auth::{Caller, Right};
use leasehold_base::clock::Instant;
use leasehold_base::duration;
use leasehold_core::{
    Acquire, Ending, Extend, Grant, Holding, LeaseNumber, LockKey, LockView, Owner, Proof,
    Rejection, Release, Renew, Secret, Span, Target, Timestamp, Token, Wait,
};
use leasehold_engine::metrics::Op;
use leasehold_engine::{self as engine, Granted, ReadLease, ReadLock, WaitFor, Waited};

use super::error::Refusal;
use super::extract::{Body, Lock, NoParams, Received};
use super::waiting::Waiting;
use super::wire;
use crate::app::App;
use crate::counted::Counted;
use crate::http::json;
use crate::http::request;
use crate::operator;
use crate::{Dialect, grip, lease_id, owner};

/// Maximum number of waiters in the state of a lock.
const QUEUE_SHOWN: usize = 100;
/// Recommended retry delay if another process holds the database.
const BUSY_RETRY_MS: u64 = 50;

type Answer = Result<Response, Refusal>;
type Answered = Result<Result<Waited, Rejection>, engine::Error>;

pub(super) async fn acquire(
    State(app): State<App>,
    Received(now): Received,
    Lock(key): Lock,
    counted: Counted,
    caller: Caller,
    Body(request): Body<AcquireRequest>,
) -> Result<request::Answer, Refusal> {
    let wait = Span::from_millis(request.wait_ms.unwrap_or(0));
    let mut acquire = to_acquire(&app, &key, counted, &caller, &request)?;
    if caller.check(Right::Acquire, &key).is_err() {
        // An invalid request is reported as invalid, not as forbidden. For allowed callers, the engine checks this.
        acquire.wait = Wait::Connected(wait);
        app.limits.check_acquire(&acquire)?;
    }
    let is_watched = caller.is_asked() && wait > Span::ZERO;
    let waiting = is_watched.then(|| Waiting::by(&acquire));
    // A wait above the limit is not shortened, so that the engine rejects it.
    let patience = match wait <= app.limits.wait_max {
        true => caller.patience(app.engine.left_of(wait, now), app.engine.clock()),
        false => wait,
    };
    let call = app.engine.ask(caller.permit(WaitFor { acquire, wait: patience })?);
    let answer = match waiting {
        Some(waiting) => {
            let may = |now: &Caller| now.check(Right::Acquire, &key);
            let is_over = |answer: &Answered| matches!(answer, Ok(Ok(Waited::Over(_))));
            waiting.answer(&app, &caller, call, is_over, may).await?
        }
        None => call.await,
    };
    match answer {
        Ok(Ok(Waited::Granted(Granted { grant, undelivered }))) => {
            Ok(request::Answer::new(acquired(&app, now, key, *grant), undelivered))
        }
        Ok(Ok(Waited::Over(view))) => Ok(wait_over(&app, key, (now, wait), &view).into()),
        Ok(Err(rejection)) => Ok(not_acquired(&app, key, rejection)?.into()),
        Err(engine::Error::Busy) => Ok(busy(&app, key).into()),
        Err(error) => Err(error.into()),
    }
}

fn to_acquire(
    app: &App,
    key: &LockKey,
    Counted(peer): Counted,
    caller: &Caller,
    request: &AcquireRequest,
) -> Result<Acquire, Refusal> {
    let mode = wire::mode(request.mode, request.limit).map_err(Refusal::invalid)?;
    let owner = owner::of(caller, &request.owner_id);
    let secret = Secret(leasehold_base::random::bytes());
    Ok(Acquire {
        mode,
        ttl: wire::ttl(request.ttl_ms, request.session_id.is_some())?,
        grace: wire::grace(request.grace_ms, &[mode])?,
        session: request.session_id.as_deref().map(wire::session_digest),
        metadata: wire::metadata(app, request.metadata.as_ref())?,
        request_id: request.request_id.as_deref().map(Into::into),
        peer,
        ..Acquire::new(key.clone(), owner, Dialect::Native.number(), secret)
    })
}

fn acquired(app: &App, now: Instant, key: LockKey, grant: Grant) -> Response {
    let lease = grant.lease;
    let expiry = lease.deadline.map(|deadline| app.engine.expiry(deadline, now));
    let answer = Acquired {
        acquired: true,
        lock_name: key.name.into(),
        owner_id: lease.owner.instance.to_string(),
        lease_id: lease_id::render(lease.id),
        fencing_token: lease.token.get(),
        lease_expiry_ms: wire::expiry_ms(app, lease.deadline),
        expires_in_ms: expiry.as_ref().map(|expiry| expiry.in_ms),
        expires_after_send_ms: expiry.map(|expiry| expiry.after_send_ms),
    };
    json(StatusCode::OK, &answer)
}

pub(super) fn not_acquired(app: &App, key: LockKey, rejection: Rejection) -> Answer {
    match rejection {
        Rejection::Held(holding) => {
            let retry = app.retry.after(holding.remaining, holding.n_waiting).as_millis();
            let current = Obstructor::of(*holding);
            let why = match current {
                Some(_) => "the lock is held",
                None => "the lock is free, but other clients wait for it",
            };
            Ok(refuse(app, key, Reason::Held, why, current, retry))
        }
        Rejection::Grace { owner, grace_until, .. } => {
            let remaining = grace_until.since(app.engine.now());
            let retry = app.retry.after(Some(remaining), 0).as_millis();
            let deadline = Some(grace_until);
            let current = Obstructor { owner, dialect: None, deadline, metadata: None };
            let why = "the lock is reserved for its last owner";
            Ok(refuse(app, key, Reason::Grace, why, Some(current), retry))
        }
        Rejection::QueueFull { queue_max, holding } => {
            let retry = app.retry.max.as_millis();
            let why = format!("the queue of this lock is full; limit: {queue_max} (queue-max)");
            Ok(refuse(app, key, Reason::QueueFull, why, Obstructor::of(*holding), retry))
        }
        other => Err(other.into()),
    }
}

/// Returns the response for a request that had no effect because another process holds the database.
pub(super) fn busy(app: &App, key: LockKey) -> Response {
    let why = "another process holds the database; the request had no effect";
    refuse(app, key, Reason::BusyRetry, why, None, BUSY_RETRY_MS)
}

/// Returns the response for a wait that ended without a grant. `began` is its start and `wait` the requested duration.
pub(super) fn wait_over(
    app: &App,
    key: LockKey,
    (began, wait): (Instant, Span),
    view: &LockView,
) -> Response {
    let holder = view.holders.first();
    let remaining = holder.and_then(|holder| holder.remaining(app.engine.now()));
    let retry = app.retry.after(remaining, view.n_waiting).as_millis();
    let current = holder.map(|holder| Obstructor {
        owner: holder.owner.clone(),
        dialect: Some(holder.dialect),
        deadline: holder.deadline,
        metadata: holder.metadata.clone(),
    });
    let length = duration::shown(Duration::from_millis(wait.as_millis()));
    let why = match holder {
        _ if app.engine.now().since(app.engine.at(began)) < wait => {
            format!("the wait was cancelled or revoked before its {length} ended")
        }
        Some(_) => format!("the lock was not free within {length}"),
        None if view.n_waiting > 0 => {
            format!(
                "the lock was not granted within {length}; it is free, but other clients wait for it"
            )
        }
        None => format!("the lock was not granted within {length}"),
    };
    refuse(app, key, Reason::WaitTimeout, why, current, retry)
}

/// The owner whose lease or grace period prevents the grant.
struct Obstructor {
    owner: Owner,
    /// The dialect of the lease; `None` stands for the native dialect.
    dialect: Option<leasehold_core::Dialect>,
    deadline: Option<Timestamp>,
    metadata: Option<Arc<[u8]>>,
}

impl Obstructor {
    fn of(holding: Holding) -> Option<Self> {
        let Holding { owner, lease, deadline, metadata, .. } = holding;
        let dialect = lease.map(|(dialect, _)| dialect);
        Some(Self { owner: owner?, dialect, deadline, metadata })
    }

    fn dialect(&self) -> leasehold_core::Dialect {
        self.dialect.unwrap_or(Dialect::Native.number())
    }
}

fn refuse(
    app: &App,
    key: LockKey,
    reason: Reason,
    why: impl Into<String>,
    current: Option<Obstructor>,
    recommended_retry_ms: u64,
) -> Response {
    let body = NotAcquired {
        acquired: false,
        lock_name: key.name.into(),
        current_owner_id: current.as_ref().map(|c| owner::shown(c.dialect(), &c.owner).into()),
        current_principal: current.as_ref().and_then(|c| wire::principal(&c.owner)),
        current_expiry_ms: current.as_ref().and_then(|c| wire::expiry_ms(app, c.deadline)),
        current_metadata: current.and_then(|c| wire::shown(c.dialect(), c.metadata.as_deref())),
        recommended_retry_ms,
        reason,
        error: why.into(),
    };
    json(StatusCode::CONFLICT, &body)
}

pub(super) async fn renew(
    State(app): State<App>,
    Received(now): Received,
    Lock(key): Lock,
    caller: Caller,
    Body(request): Body<RenewRequest>,
) -> Answer {
    if request.extend_by_ms == 0 {
        return Err(Refusal::invalid("extend_by_ms must be more than 0"));
    }
    app.limits.check_key(&key)?;
    // The right is checked before the proof: a caller without it gets the same response for every proof.
    caller.check(Right::Acquire, &key)?;
    let proof = proof(&caller, key, &request.owner_id, &request.lease_id, request.fencing_token);
    let Some(proof) = proof else {
        app.metrics.engine.ops.failed(Some(Op::Renew));
        return Ok(not_renewed());
    };
    let renew = Renew {
        proof,
        dialect: Dialect::Native.number(),
        extend: Extend::AtLeast(Span::from_millis(request.extend_by_ms)),
        request_id: request.request_id.map(Into::into),
    };
    match app.engine.ask(caller.permit(renew)?).await? {
        Ok(lease) => {
            let expiry = lease.deadline.map(|deadline| app.engine.expiry(deadline, now));
            let answer = Renewed {
                renewed: true,
                lease_expiry_ms: wire::expiry_ms(&app, lease.deadline),
                expires_in_ms: expiry.as_ref().map(|expiry| expiry.in_ms),
                expires_after_send_ms: expiry.map(|expiry| expiry.after_send_ms),
            };
            Ok(json(StatusCode::OK, &answer))
        }
        Err(rejection) if is_not_theirs(&rejection) => Ok(not_renewed()),
        Err(rejection) => Err(Refusal::of_renewal(rejection)),
    }
}

fn not_renewed() -> Response {
    let error = "lease not found, expired, or owned by another client".into();
    let body = NotRenewed { renewed: false, reason: Reason::NotOwnerOrExpired, error };
    json(StatusCode::CONFLICT, &body)
}

pub(super) async fn release(
    State(app): State<App>,
    Lock(key): Lock,
    caller: Caller,
    Body(request): Body<ReleaseRequest>,
) -> Answer {
    let proof = proof(&caller, key, &request.owner_id, &request.lease_id, request.fencing_token);
    let Some(proof) = proof else {
        app.metrics.engine.ops.failed(Some(Op::Release));
        return Ok(not_released(Reason::NotOwner));
    };
    let number = lease_id::parse(&request.lease_id).map(|id| id.number);
    let release = Release {
        proof,
        dialect: Dialect::Native.number(),
        request_id: request.request_id.map(Into::into),
    };
    match app.engine.ask(caller.own(release)).await? {
        Ok(_) => Ok(json(StatusCode::OK, &Released { released: true })),
        Err(Rejection::Ended(Ending::Expired)) if !is_anothers(&app, &caller, number).await? => {
            Ok(not_released(Reason::Expired))
        }
        Err(rejection) if is_not_theirs(&rejection) => Ok(not_released(Reason::NotOwner)),
        Err(rejection) => Err(rejection.into()),
    }
}

/// Returns whether the lock of an ended lease is held again, if the caller is allowed to read that lock.
async fn is_anothers(
    app: &App,
    caller: &Caller,
    number: Option<LeaseNumber>,
) -> Result<bool, Refusal> {
    let Some(number) = number else { return Ok(false) };
    let read = ReadLease::new(number, Dialect::Native.number());
    let lease = app.engine.ask(caller.own(read)).await?;
    let Some(lease) = lease else { return Ok(false) };
    // A caller without the right to read the lock must not learn that it is held.
    let Ok(read) = caller.permit(ReadLock { key: lease.lock, n_queue_max: 0 }) else {
        return Ok(false);
    };
    let lock = app.engine.ask(read).await??;
    Ok(!lock.holders.is_empty())
}

fn not_released(reason: Reason) -> Response {
    let error = match reason {
        Reason::Expired => "the lease has expired",
        _ => "lease not found, released, revoked, or owned by another client",
    };
    let body = NotReleased { released: false, reason, error: error.into() };
    json(StatusCode::CONFLICT, &body)
}

pub(super) fn is_not_theirs(rejection: &Rejection) -> bool {
    matches!(
        rejection,
        Rejection::NoSuchLease
            | Rejection::NotOwner
            | Rejection::Ended(_)
            | Rejection::StillWaiting
    )
}

/// Builds the proof from the fields of a request; `None` if they are malformed and cannot belong to any lease.
pub(super) fn proof(
    caller: &Caller,
    key: LockKey,
    owner_id: &str,
    lease_id: &str,
    token: u64,
) -> Option<Proof> {
    Some(Proof::Id {
        id: lease_id::parse(lease_id)?,
        owner: owner::of(caller, owner_id),
        token: Some(Token::new(token)?),
        lock: Some(key),
    })
}

pub(super) async fn look(
    State(app): State<App>,
    Lock(key): Lock,
    _: NoParams,
    caller: Caller,
) -> Answer {
    app.limits.check_key(&key)?;
    let read = ReadLock { key: key.clone(), n_queue_max: QUEUE_SHOWN };
    let view = app.engine.ask(caller.permit(read)?).await??;
    Ok(json(StatusCode::OK, &wire::lock_state(&app, &key, &view, app.engine.now())))
}

pub(super) async fn revoke(
    State(app): State<App>,
    Lock(key): Lock,
    caller: Caller,
    Body(request): Body<RevokeRequest>,
) -> Answer {
    if request.reason.is_empty() {
        return Err(Refusal::invalid("reason must not be empty"));
    }
    app.limits.check_key(&key)?;
    app.limits.check_reason(&request.reason)?;
    grip::check_revocable(&app, &key).map_err(Refusal::invalid)?;
    let target = Target::Lock(key.clone());
    let revoked = operator::revoke::<Refusal>(&app, &caller, &key, target, &request.reason);
    let leases = revoked.await?;
    let revoked = leases.iter().map(|lease| RevokedLease {
        owner_id: owner::shown(lease.dialect, &lease.owner).into(),
        principal: wire::principal(&lease.owner),
        fencing_token: lease.token.get(),
    });
    let body = Revoked { lock_name: key.name.into(), revoked: revoked.collect() };
    Ok(json(StatusCode::OK, &body))
}
