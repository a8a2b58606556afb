//! Endpoints for one lease: acquire, renew and release.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_auth::{Caller, Right};
use leasehold_core::{
    Acquire, Extend, LeaseNumber, Operation, Proof, Rejection, Release, Renew, Secret,
};
use leasehold_engine::metrics::Op;
use leasehold_engine::{Granted, ReadLease, Take};

use super::error::Refusal;
use super::extract::{Body, Claimed, Lease};
use super::wire::{self, AcquireRequest, Origin, ReleaseRequest, RenewRequest};
use crate::app::App;
use crate::counted::Counted;
use crate::http::request;
use crate::{Dialect, lease_id, mismatch, owner};

pub(super) type Answer = Result<Response, Refusal>;

pub(super) async fn acquire(
    State(app): State<App>,
    claimed: Claimed,
    caller: Caller,
    Counted(peer): Counted,
    Body(request): Body<AcquireRequest>,
) -> Result<request::Answer, Refusal> {
    let key = wire::key(&app, &request.tenant_id, &request.lock_key)?;
    wire::check_owner(&app, &request.owner_id, &request.request_id)?;
    let ttl = wire::ttl(&app, &request.ttl_seconds)?;
    claimed.must_be(&request.owner_id)?;
    let (owner, secret) =
        (owner::of(&caller, &request.owner_id), Secret(leasehold_base::random::bytes()));
    let take = Take(Acquire {
        ttl: Some(ttl),
        // Requests for an ended lease get a 409, so the lease must stay known for a while.
        keep: true,
        request_id: Some(request.request_id.as_str().into()),
        peer,
        ..Acquire::new(key.clone(), owner, Dialect::Leases.number(), secret)
    });
    let Granted { grant, undelivered } =
        app.engine.ask(caller.permit(take)?).await?.map_err(Refusal::of_acquire)?;
    let origin = Origin { key, idempotency_key: Some(request.request_id) };
    let body = wire::lease(&app, &caller, origin, &grant.lease);
    let response = (StatusCode::CREATED, Json(body)).into_response();
    Ok(request::Answer::new(response, undelivered))
}

pub(super) async fn renew(
    State(app): State<App>,
    Lease(id): Lease,
    claimed: Claimed,
    caller: Caller,
    Body(request): Body<RenewRequest>,
) -> Answer {
    wire::check_owner(&app, &request.owner_id, &request.request_id)?;
    let ttl = wire::ttl(&app, &request.ttl_seconds)?;
    claimed.must_be_holder(&request.owner_id)?;
    let (proof, origin) = proof(&app, &caller, (Op::Renew, &id), &request.owner_id).await?;
    let renew = Renew {
        proof,
        dialect: Dialect::Leases.number(),
        extend: Extend::Exactly(ttl),
        request_id: Some(request.request_id.into()),
    };
    let lease = app.engine.ask(caller.permit_on(Right::Acquire, [&origin.key], renew)?).await??;
    Ok(Json(wire::lease(&app, &caller, origin, &lease)).into_response())
}

pub(super) async fn release(
    State(app): State<App>,
    Lease(id): Lease,
    claimed: Claimed,
    caller: Caller,
    Body(request): Body<ReleaseRequest>,
) -> Answer {
    wire::check_owner(&app, &request.owner_id, &request.request_id)?;
    claimed.must_be_holder(&request.owner_id)?;
    let (proof, origin) = proof(&app, &caller, (Op::Release, &id), &request.owner_id).await?;
    let release = Release {
        proof,
        dialect: Dialect::Leases.number(),
        request_id: Some(request.request_id.into()),
    };
    let lease = app.engine.ask(caller.own(release)).await??;
    Ok(Json(wire::lease(&app, &caller, origin, &lease)).into_response())
}

/// Returns the proof that a request contains, and the origin of the lease, which the response needs. The origin is read
/// before the operation: if the read failed afterwards, a successful operation would be reported as an error.
async fn proof(
    app: &App,
    caller: &Caller,
    (op, id): (Op, &str),
    owner_id: &str,
) -> Result<(Proof, Origin), Refusal> {
    // A malformed id never reaches the engine, so the failed operation is counted here.
    let missing = || {
        app.metrics.engine.ops.failed(Some(op));
        Rejection::NoSuchLease
    };
    let id = lease_id::parse(id).ok_or_else(missing)?;
    let Some(origin) = origin(app, caller, id.number).await? else {
        mismatch::of_lease(app, caller, op.name(), (id.number, Dialect::Leases)).await;
        return Err(missing().into());
    };
    let owner = owner::of(caller, owner_id);
    Ok((Proof::Id { id, owner, token: None, lock: None }, origin))
}

/// Returns the origin of a lease of this dialect, if the lease is still known.
pub(super) async fn origin(
    app: &App,
    caller: &Caller,
    number: LeaseNumber,
) -> Result<Option<Origin>, Refusal> {
    let read = ReadLease::new(number, Dialect::Leases.number());
    let record = app.engine.ask(caller.own(read)).await?;
    Ok(record.map(|record| {
        let is_acquire = |operation| operation == Operation::Acquire;
        let mut requests = record.requests.into_iter();
        let acquire = requests.find(|request| is_acquire(request.operation));
        Origin { key: record.lock, idempotency_key: acquire.map(|request| request.id.into()) }
    }))
}
