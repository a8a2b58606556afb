//! Endpoints for one lock: acquire or renew it, release it, and read it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use leasehold_auth::Caller;
use leasehold_base::clock::Instant;
use leasehold_core::{Acquire, GiveUp, Grant, GrantKind, Rejection, Secret};
use leasehold_engine::{Granted, ReadLock, Take};

use super::error::Refusal;
use super::extract::{AcquireParams, LookParams, ReleaseParams};
use super::wire::{self, Acquired, Held, InGrace, Released};
use crate::app::App;
use crate::counted::Counted;
use crate::http::request;
use crate::{Dialect, owner};

type Answer = Result<Response, Refusal>;

pub(super) async fn acquire(
    State(app): State<App>,
    counted: Counted,
    caller: Caller,
    params: AcquireParams,
) -> Result<request::Answer, Refusal> {
    let now = app.engine.instant();
    let job = params.lock.name.clone();
    let take = take(&app, counted, params);
    // Invalid requests are rejected before the caller's rights are checked.
    app.limits.check_acquire(&take.0)?;
    match app.engine.ask(caller.permit(take)?).await? {
        Ok(Granted { grant, undelivered }) => {
            Ok(request::Answer::new(acquired(&app, now, &job, &grant), undelivered))
        }
        Err(rejection) => Ok(not_acquired(&app, &job, rejection)?.into()),
    }
}

fn take(app: &App, Counted(peer): Counted, params: AcquireParams) -> Take {
    let secret = Secret(leasehold_base::random::bytes());
    Take(Acquire {
        ttl: Some(params.ttl),
        grace: app.dialect.sticky.grace,
        sticky: true,
        peer,
        ..Acquire::new(params.lock, params.owner, Dialect::Sticky.number(), secret)
    })
}

fn acquired(app: &App, now: Instant, job: &str, grant: &Grant) -> Response {
    let Grant { lease, kind, previous } = grant;
    let expiry = lease.deadline.map(|deadline| app.engine.expiry(deadline, now));
    let message = match (kind, previous) {
        (GrantKind::Renewed, _) => "renewed".into(),
        (GrantKind::New | GrantKind::Replayed, None) => "acquired".into(),
        (GrantKind::New | GrantKind::Replayed, Some((dialect, previous))) => {
            format!("acquired from {}", owner::shown(*dialect, previous))
        }
    };
    let body = Acquired {
        success: true,
        job,
        holder: &lease.owner.instance,
        message,
        expires_at: lease.deadline.map(|deadline| wire::shown(app, deadline)),
        expires_in_ms: expiry.as_ref().map(|expiry| expiry.in_ms),
        expires_after_send_ms: expiry.map(|expiry| expiry.after_send_ms),
        fencing_token: lease.token.get(),
    };
    wire::answer(StatusCode::OK, body)
}

fn not_acquired(app: &App, job: &str, rejection: Rejection) -> Answer {
    match rejection {
        Rejection::Held(holding) => {
            let (by, lease) = (holding.owner.as_ref(), holding.lease);
            let dialect = lease.map_or(Dialect::Sticky.number(), |(dialect, _)| dialect);
            let holder = by.map_or("".into(), |by| owner::shown(dialect, by));
            let body = Held {
                success: false,
                job,
                holder: &holder,
                principal: holding.owner.as_ref().and_then(owner::vouched),
                message: "held by another client",
                expires_at: holding.deadline.map(|deadline| wire::shown(app, deadline)),
            };
            Ok(wire::answer(StatusCode::CONFLICT, body))
        }
        Rejection::Grace { owner, grace_until, .. } => {
            let body = InGrace {
                error: "grace period active",
                message: "grace period active",
                success: false,
                job,
                holder: &owner.instance,
                principal: owner::vouched(&owner),
                grace_until: wire::shown(app, grace_until),
            };
            Ok(wire::answer(StatusCode::CONFLICT, body))
        }
        other => Err(other.into()),
    }
}

pub(super) async fn release(
    State(app): State<App>,
    caller: Caller,
    params: ReleaseParams,
) -> Answer {
    let ReleaseParams { lock, owner } = params;
    let job = lock.name.clone();
    let give_up = GiveUp { lock, owner, dialect: Dialect::Sticky.number() };
    app.engine.ask(caller.own(give_up)).await??;
    let body = Released { success: true, job: &job, holder: "", message: "lock released" };
    Ok(wire::answer(StatusCode::OK, body))
}

pub(super) async fn look(State(app): State<App>, caller: Caller, params: LookParams) -> Answer {
    let now = app.engine.now();
    let key = params.lock;
    app.limits.check_key(&key)?;
    let read = caller.permit(ReadLock { key: key.clone(), n_queue_max: 0 })?;
    let view = app.engine.ask(read).await??;
    Ok(wire::answer(StatusCode::OK, wire::status(&app, &key.name, &view, now)))
}
