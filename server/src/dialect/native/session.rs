//! Sessions.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_api::{KeptAlive, OpenSessionRequest, SessionOpened};
use leasehold_core::{CloseSession, Command, KeepSession, OpenSession, Outcome, Span};

use super::error::Refusal;
use super::extract::{Body, Received, SessionId};
use super::lock::unexpected;
use super::wire;
use crate::app::App;
use crate::dialect::{Dialect, owner};
use crate::engine::{Read, Reply};

type Answer = Result<Response, Refusal>;

pub(super) async fn open(
    State(app): State<App>,
    Body(request): Body<OpenSessionRequest>,
) -> Answer {
    let secret: [u8; 32] = crate::random::bytes();
    let session_id: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let command = Command::OpenSession(OpenSession {
        digest: wire::session_digest(&session_id),
        owner: owner::anonymous(&request.owner_id),
        dialect: Dialect::Native.number(),
        ttl: Span::from_millis(request.ttl_ms),
    });
    match app.engine.apply(command).await? {
        Reply::Applied(Ok(Outcome::SessionOpened(_))) => {
            let owner_id = request.owner_id;
            let body = SessionOpened { session_id, owner_id, expires_in_ms: request.ttl_ms };
            Ok((StatusCode::CREATED, Json(body)).into_response())
        }
        Reply::Applied(Err(rejection)) => Err(rejection.into()),
        other => Err(unexpected(&other)),
    }
}

pub(super) async fn look(
    State(app): State<App>,
    Received(now): Received,
    SessionId(id): SessionId,
) -> Answer {
    let read = Read::Session(wire::session_digest(&id), Dialect::Native.number());
    match app.engine.read(read).await? {
        Reply::Session(Some(session)) => {
            let expires_in_ms = session.deadline.since(now).as_millis();
            let owner_id = session.owner.instance.to_string();
            Ok(Json(SessionOpened { session_id: id, owner_id, expires_in_ms }).into_response())
        }
        Reply::Session(None) => Err(leasehold_core::Rejection::NoSuchSession.into()),
        other => Err(unexpected(&other)),
    }
}

pub(super) async fn keep(
    State(app): State<App>,
    Received(now): Received,
    SessionId(id): SessionId,
) -> Answer {
    let session = wire::session_digest(&id);
    let command = Command::KeepSession(KeepSession { session, dialect: Dialect::Native.number() });
    match app.engine.apply(command).await? {
        Reply::Applied(Ok(Outcome::SessionKept { deadline })) => {
            let expires_in_ms = deadline.since(now).as_millis();
            Ok(Json(KeptAlive { expires_in_ms }).into_response())
        }
        Reply::Applied(Err(rejection)) => Err(rejection.into()),
        other => Err(unexpected(&other)),
    }
}

pub(super) async fn close(State(app): State<App>, SessionId(id): SessionId) -> Answer {
    let session = wire::session_digest(&id);
    let command =
        Command::CloseSession(CloseSession { session, dialect: Dialect::Native.number() });
    match app.engine.apply(command).await? {
        Reply::Applied(Ok(Outcome::SessionClosed)) => Ok(StatusCode::NO_CONTENT.into_response()),
        Reply::Applied(Err(rejection)) => Err(rejection.into()),
        other => Err(unexpected(&other)),
    }
}
