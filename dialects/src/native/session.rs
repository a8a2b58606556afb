//! Endpoints for sessions: open, read, keep alive and close.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_api::{KeptAlive, OpenSessionRequest, SessionOpened};
use leasehold_auth::Caller;
use leasehold_core::{CloseSession, KeepSession, OpenSession, Rejection, Span};
use leasehold_engine::{Expiry, ReadSession};

use super::error::Refusal;
use super::extract::{Body, NoParams, Received, SessionId};
use super::wire;
use crate::app::App;
use crate::audit::Kind;
use crate::counted::Counted;
use crate::{Dialect, owner};

type Answer = Result<Response, Refusal>;

pub(super) async fn open(
    State(app): State<App>,
    Received(now): Received,
    Counted(peer): Counted,
    caller: Caller,
    Body(request): Body<OpenSessionRequest>,
) -> Answer {
    if request.ttl_ms == 0 {
        return Err(Refusal::invalid("ttl_ms must be more than 0"));
    }
    let secret: [u8; 32] = leasehold_base::random::bytes();
    let session_id: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let open = OpenSession {
        digest: wire::session_digest(&session_id),
        owner: owner::of(&caller, &request.owner_id),
        dialect: Dialect::Native.number(),
        ttl: Span::from_millis(request.ttl_ms),
        peer,
        credential: None,
    };
    app.limits.check_session(&open)?;
    let opened = app.engine.ask(caller.permit(open)?).await??;
    let (number, deadline) = (opened.number.0, opened.deadline);
    app.note_of(Kind::Session, &caller, "open-session", |act| {
        act.detail("session", number).claimed("owner_id", Some(&request.owner_id))
    });
    let body = shown(session_id, request.owner_id, &app.engine.expiry(deadline, now));
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

pub(super) async fn look(
    State(app): State<App>,
    Received(now): Received,
    SessionId(id): SessionId,
    _: NoParams,
    caller: Caller,
) -> Answer {
    let digest = wire::session_digest(&id);
    let read = ReadSession { digest, dialect: Dialect::Native.number(), principal: None };
    let session = app.engine.ask(caller.own(read)).await?;
    let session = session.ok_or(Rejection::NoSuchSession)?;
    let owner_id = session.owner.instance.to_string();
    Ok(Json(shown(id, owner_id, &app.engine.expiry(session.deadline, now))).into_response())
}

fn shown(session_id: String, owner_id: String, expiry: &Expiry) -> SessionOpened {
    let Expiry { in_ms, after_send_ms } = *expiry;
    SessionOpened {
        session_id,
        owner_id,
        expires_in_ms: in_ms,
        expires_after_send_ms: after_send_ms,
    }
}

pub(super) async fn keep(
    State(app): State<App>,
    Received(now): Received,
    SessionId(id): SessionId,
    _: NoParams,
    caller: Caller,
) -> Answer {
    let session = wire::session_digest(&id);
    let keep = KeepSession { session, principal: None, dialect: Dialect::Native.number() };
    let deadline = app.engine.ask(caller.own(keep)).await??;
    let Expiry { in_ms, after_send_ms } = app.engine.expiry(deadline, now);
    let body = KeptAlive { expires_in_ms: in_ms, expires_after_send_ms: after_send_ms };
    Ok(Json(body).into_response())
}

pub(super) async fn close(
    State(app): State<App>,
    SessionId(id): SessionId,
    _: NoParams,
    caller: Caller,
) -> Answer {
    let session = wire::session_digest(&id);
    let close = CloseSession { session, principal: None, dialect: Dialect::Native.number() };
    let read = ReadSession { digest: session, dialect: close.dialect, principal: None };
    let record = app.engine.ask(caller.own(read)).await?;
    app.engine.ask(caller.own(close)).await??;
    app.note_of(Kind::Session, &caller, "close-session", |act| match record {
        Some(record) => act.detail("session", record.number.0),
        None => act,
    });
    Ok(StatusCode::NO_CONTENT.into_response())
}
