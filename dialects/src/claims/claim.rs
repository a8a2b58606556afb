//! Endpoints for one claim: create it, read it, and wait for it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::{Caller, Right};
use leasehold_core::{Acquire, LeaseNumber, Limits, LockKey, Phase, Secret, Span};
use leasehold_engine::{Enqueue, Enqueued, Granted, Interest, Next, ReadLease};
use tokio::time::Instant;

use super::error::Refusal;
use super::extract::{Base, Body, Id, Pairs};
use super::parameter::{NewClaim, to_span};
use super::wire::{self, Claim};
use crate::Dialect;
use crate::app::App;
use crate::counted::Counted;
use crate::http::request;

/// Maximum time that a read waits for a claim to leave the queue.
const WAIT_MAX: Span = Span::from_secs(300);

pub(super) type Answer = Result<Response, Refusal>;

pub(super) async fn create(
    State(app): State<App>,
    Base(base): Base,
    Counted(peer): Counted,
    caller: Caller,
    Body(parameters): Body,
) -> Result<request::Answer, Refusal> {
    let now = app.engine.now();
    let NewClaim { resource, timeout, metadata } = parameters.new_claim(&app.limits)?;
    let lock = LockKey { namespace: app.dialect.claims.namespace.clone(), name: resource.into() };
    let secret = Secret(leasehold_base::random::bytes());
    let acquire = Acquire {
        owner_per_lease: true,
        ttl: Some(timeout),
        keep: true,
        metadata: metadata.clone(),
        peer,
        ..Acquire::new(lock.clone(), wire::owner_of(&caller), Dialect::Claims.number(), secret)
    };
    let wait = app.dialect.claims.wait_max.min(app.limits.wait_max);
    let wait = caller.patience(wait, app.engine.clock());
    let (claim, undelivered) =
        match app.engine.ask(caller.permit(Enqueue { acquire, wait })?).await?? {
            Enqueued::Granted(Granted { grant, undelivered }) => {
                (Claim::of(lock, grant.lease), undelivered)
            }
            Enqueued::Queued(number) => {
                caller.waits_with(number);
                // The claim is in the queue now. Even if the read fails, the client must get its id.
                let read = read(&app, &caller, number).await;
                let of = (lock, wire::owner_of(&caller));
                let claim =
                    read.unwrap_or_else(|_| Claim::queued(number, of, now, timeout, metadata));
                (claim, None)
            }
        };
    // A claim can be promoted after it was queued and before it is read. The response then shows it as active.
    let is_active = claim.phase == Phase::Active;
    let status = if is_active { StatusCode::CREATED } else { StatusCode::ACCEPTED };
    let mut response = (status, Json(claim.show(&app, &base, now))).into_response();
    if let Ok(location) = HeaderValue::try_from(claim.url(&base)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(request::Answer::new(response, undelivered))
}

pub(super) async fn look(
    State(app): State<App>,
    Base(base): Base,
    Id(number): Id,
    caller: Caller,
    Pairs(pairs): Pairs,
) -> Answer {
    // A caller that cannot read the resource's lock does not learn whether the claim exists.
    let patience = patience(&pairs, wait_max(&app.limits))?;
    if caller.is_asked() {
        let lock = read(&app, &caller, number).await?.lock;
        caller.check(Right::Read, &lock).map_err(|_| Refusal::no_such_claim())?;
    }
    let claim = match patience {
        None => read(&app, &caller, number).await?,
        Some(patience) => wait(&app, &caller, number, patience).await?,
    };
    Ok(shown(&app, &base, &claim))
}

pub(super) fn shown(app: &App, base: &str, claim: &Claim) -> Response {
    Json(claim.show(app, base, app.engine.now())).into_response()
}

/// Reads the durable state of a claim.
pub(super) async fn read(
    app: &App,
    caller: &Caller,
    number: LeaseNumber,
) -> Result<Claim, Refusal> {
    let read = ReadLease::new(number, Dialect::Claims.number());
    let record = app.engine.ask(caller.own(read)).await?;
    record.map(|record| Claim::from(*record)).ok_or_else(Refusal::no_such_claim)
}

/// Returns the maximum time that a read waits on this server: no longer than a claim can wait in a queue.
pub(super) fn wait_max(limits: &Limits) -> Span {
    WAIT_MAX.min(limits.wait_max)
}

/// Parses `?wait=SECONDS`, the only valid parameter.
fn patience(pairs: &[(String, String)], max: Span) -> Result<Option<Duration>, Refusal> {
    let mut patience = None;
    for (name, value) in pairs {
        if name != "wait" {
            return Err(Refusal::parameter(name, "Unknown parameter"));
        }
        if patience.is_some() {
            return Err(Refusal::parameter(name, "Given twice"));
        }
        let seconds: f64 = value.parse().unwrap_or(f64::NAN);
        // A wait longer than the maximum is shortened to the maximum.
        let capped = if seconds.is_finite() { seconds.min(wire::seconds(max)) } else { seconds };
        let span = to_span(capped, max).map_err(|why| Refusal::parameter(name, why))?;
        patience = Some(Duration::from_nanos(span.as_nanos()));
    }
    Ok(patience)
}

/// Waits until the claim has left the queue or the time is over, and returns the claim.
async fn wait(
    app: &App,
    caller: &Caller,
    number: LeaseNumber,
    patience: Duration,
) -> Result<Claim, Refusal> {
    let over_at = Instant::now() + patience;
    let lock = read(app, caller, number).await?.lock;
    // Subscribes before the first read in the loop, so that no event is missed between the two.
    let mut events = app.engine.follow(caller.permit(Interest::Lock(lock))?, None);
    loop {
        let claim = read(app, caller, number).await?;
        // The wait might have ended because the caller is no longer authenticated.
        caller.still(app.engine.clock())?.check(Right::Read, &claim.lock)?;
        if !claim.phase.is_queued() || Instant::now() >= over_at {
            return Ok(claim);
        }
        let its_event = async {
            while let Next::Event(event) = events.next().await {
                if event.fact.lease == number {
                    return;
                }
            }
        };
        let denied = caller.denied(app.engine.clock(), |now| now.check(Right::Read, &claim.lock));
        tokio::select! {
            denied = denied => return Err(denied.into()),
            () = its_event => {}
            () = tokio::time::sleep_until(over_at) => {}
            () = app.engine.stopped() => {}
            // The read ends the wait with an error that can be retried, unless the store answers again.
            () = app.engine.unsure() => {}
        }
    }
}
