//! One lock: take or renew it, give it back, look at it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use leasehold_core::{
    Acquire, Command, Grant, GrantKind, Outcome, Proof, Rejection, Release, Secret, Span, Timestamp,
};

use super::error::Refusal;
use super::extract::{AcquireParams, LookParams, ReleaseParams};
use super::wire::{self, Acquired, Held, InGrace, Released};
use crate::app::App;
use crate::dialect::Dialect;
use crate::engine::{self, Read, Reply};

type Answer = Result<Response, Refusal>;

pub(super) async fn acquire(State(app): State<App>, params: AcquireParams) -> Answer {
    let now = app.engine.now();
    let job = params.lock.name.clone();
    match app.engine.apply(acquire_command(&app, params)).await? {
        Reply::Applied(Ok(Outcome::Granted(grant))) => Ok(acquired(&app, now, &job, &grant)),
        Reply::Applied(Err(rejection)) => not_acquired(&app, &job, rejection),
        other => Err(unexpected(&other)),
    }
}

fn acquire_command(app: &App, params: AcquireParams) -> Command {
    let secret = Secret(crate::random::bytes());
    Command::Acquire(Box::new(Acquire {
        ttl: Some(params.ttl),
        grace: app.dialect.grace,
        sticky: true,
        ..Acquire::new(params.lock, params.owner, Dialect::Sticky.number(), secret)
    }))
}

fn acquired(app: &App, now: Timestamp, job: &str, grant: &Grant) -> Response {
    let Grant { lease, kind, previous } = grant;
    let message = match (kind, previous) {
        (GrantKind::Renewed, _) => "renewed".into(),
        (GrantKind::New | GrantKind::Replayed, None) => "acquired".into(),
        (GrantKind::New | GrantKind::Replayed, Some(previous)) => {
            format!("acquired from {}", previous.instance)
        }
    };
    let body = Acquired {
        success: true,
        job,
        holder: &lease.owner.instance,
        message,
        expires_at: lease.deadline.map(|deadline| wire::shown(app, deadline)),
        expires_in_ms: lease.remaining(now).map(Span::as_millis),
        fencing_token: lease.token.get(),
    };
    wire::answer(StatusCode::OK, body)
}

fn not_acquired(app: &App, job: &str, rejection: Rejection) -> Answer {
    match rejection {
        Rejection::Held(holding) => {
            let body = Held {
                success: false,
                job,
                holder: holding.owner.as_ref().map_or("", |owner| &owner.instance),
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
                grace_until: wire::shown(app, grace_until),
            };
            Ok(wire::answer(StatusCode::CONFLICT, body))
        }
        other => Err(other.into()),
    }
}

pub(super) async fn release(State(app): State<App>, params: ReleaseParams) -> Answer {
    let ReleaseParams { lock, owner } = params;
    let job = lock.name.clone();
    let proof = Proof::Owner { lock, owner };
    let dialect = Dialect::Sticky.number();
    let command = Command::Release(Release { proof, dialect, request_id: None });
    match app.engine.apply(command).await? {
        Reply::Applied(Ok(Outcome::Released(_) | Outcome::Forgone)) => Ok(released(&job)),
        Reply::Applied(Err(rejection)) => Err(rejection.into()),
        other => Err(unexpected(&other)),
    }
}

fn released(job: &str) -> Response {
    let body = Released { success: true, job, holder: "", message: "lock released" };
    wire::answer(StatusCode::OK, body)
}

pub(super) async fn look(State(app): State<App>, params: LookParams) -> Answer {
    let now = app.engine.now();
    let key = params.lock;
    match app.engine.read(Read::Lock { key: key.clone(), n_queue_max: 0 }).await? {
        Reply::Lock(view) => {
            Ok(wire::answer(StatusCode::OK, wire::status(&app, &key.name, &view, now)))
        }
        Reply::Applied(Err(rejection)) => Err(rejection.into()),
        other => Err(unexpected(&other)),
    }
}

/// The engine answered another question than was asked: a bug, told as one.
pub(super) fn unexpected(reply: &Reply) -> Refusal {
    tracing::error!(?reply, "an answer nobody expected");
    engine::Error::Unknown.into()
}
