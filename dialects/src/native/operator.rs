//! Endpoints for operators: revoke leases, maintenance mode, sessions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_api::{
    Code, Maintenance, MaintenanceRequest, RevokeAllRequest, RevokedAll, RevokedFrom, SessionList,
    SessionState,
};
use leasehold_auth::Caller;
use leasehold_core::{LeaseRecord, Maintain, SessionNumber, Whose};
use leasehold_engine::{ListSessions, ReadMaintenance};
use schemars::JsonSchema;
use serde::Deserialize;

use super::error::Refusal;
use super::extract::{Body, NoParams, Number, Params};
use super::wire;
use crate::app::App;
use crate::http::json;
use crate::operator;

/// Maximum number of leases in the response to a revocation.
const SHOWN_MAX: usize = 1000;
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

type Answer = Result<Response, Refusal>;

pub(super) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    Body(request): Body<RevokeAllRequest>,
) -> Answer {
    let whose = whose(&request)?;
    if request.reason.is_empty() {
        return Err(Refusal::invalid("reason must not be empty"));
    }
    let (n_bytes, n_max) = (request.reason.len(), app.limits.reason_bytes_max);
    if n_bytes > n_max {
        let why =
            format!("reason must have at most {n_max} bytes (reason-bytes-max), got {n_bytes}");
        return Err(Refusal::invalid(why));
    }
    let mut revoked = Vec::new();
    let each = |lease: &LeaseRecord| {
        if revoked.len() < SHOWN_MAX {
            revoked.push(shown(lease));
        }
    };
    let (reason, is_dry) = (&*request.reason, request.dry_run);
    let all = operator::revoke_all::<Refusal>(&app, &caller, &whose, reason, is_dry, each);
    let n_revoked = all.await?;
    if !is_dry {
        operator::tell_all(&app, &caller, &whose, reason, n_revoked);
    }
    // The leases were found in an order that depends on the leases of other owners.
    revoked.sort_by(|a, b| place(a).cmp(&place(b)));
    Ok(json(StatusCode::OK, &RevokedAll { dry_run: request.dry_run, n_revoked, revoked }))
}

fn whose(request: &RevokeAllRequest) -> Result<Whose, Refusal> {
    match (&request.owner, request.session, &request.principal) {
        (Some(owner), None, None) => Ok(Whose::Owner(owner.as_str().into())),
        (None, Some(number), None) => Ok(Whose::Session(SessionNumber(number))),
        (None, None, Some(principal)) => Ok(Whose::Principal(principal.as_str().into())),
        _ => Err(Refusal::invalid("exactly one of owner, session and principal is required")),
    }
}

fn place(lease: &RevokedFrom) -> (&str, &str, u64, &str) {
    (&lease.namespace, &lease.lock_name, lease.fencing_token, &lease.owner_id)
}

fn shown(lease: &LeaseRecord) -> RevokedFrom {
    RevokedFrom {
        namespace: lease.lock.namespace.to_string(),
        lock_name: lease.lock.name.to_string(),
        owner_id: crate::shown(lease.dialect, &lease.owner).into(),
        principal: wire::principal(&lease.owner),
        fencing_token: lease.token.get(),
        waiting: lease.phase.is_queued(),
    }
}

pub(super) async fn maintenance(State(app): State<App>, _: NoParams, caller: Caller) -> Answer {
    let on = app.engine.ask(caller.permit(ReadMaintenance)?).await?;
    Ok(json(StatusCode::OK, &Maintenance { on }))
}

pub(super) async fn set_maintenance(
    State(app): State<App>,
    caller: Caller,
    Body(MaintenanceRequest { on }): Body<MaintenanceRequest>,
) -> Answer {
    app.engine.ask(caller.permit(Maintain { on })?).await??;
    tracing::warn!(on, "maintenance");
    app.note(&caller, "maintenance", |act| act.detail("on", on));
    Ok(json(StatusCode::OK, &Maintenance { on }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionParams {
    /// Maximum number of sessions.
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    #[schemars(regex(pattern = "^[0-9]{1,19}$"))]
    cursor: Option<String>,
}

pub(super) async fn sessions(
    State(app): State<App>,
    caller: Caller,
    Params(params): Params<SessionParams>,
) -> Answer {
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Refusal::invalid(format!("limit must be 1 to {LIMIT_MAX}, got {limit}")));
    }
    let from = match params.cursor.as_deref().map(str::parse) {
        None => 0,
        Some(Ok(from)) => from,
        Some(Err(_)) => return Err(Refusal::invalid("cursor: not a cursor of this server")),
    };
    let ask = ListSessions { from: SessionNumber(from), n_max: limit + 1 };
    let mut found = app.engine.ask(caller.permit(ask)?).await?;
    let now = app.engine.now();
    let next = found.get(limit).map(|(session, _)| session.number.0.to_string());
    found.truncate(limit);
    let shown = found.into_iter().map(|(session, n_leases)| SessionState {
        number: session.number.0,
        dialect: crate::name_of(session.dialect),
        owner_id: session.owner.instance.to_string(),
        principal: session.owner.principal.to_string(),
        ttl_ms: session.ttl.as_millis(),
        expires_in_ms: session.deadline.since(now).as_millis(),
        n_leases,
    });
    let body = SessionList { sessions: shown.collect(), next_cursor: next };
    Ok(json(StatusCode::OK, &body))
}

pub(super) async fn end_session(
    State(app): State<App>,
    Number(number): Number,
    _: NoParams,
    caller: Caller,
) -> Answer {
    let not_found = || {
        let why = "no session has this number, or it has ended";
        Refusal::new(StatusCode::NOT_FOUND, Code::NoSuchSession, why)
    };
    let number = SessionNumber(number.ok_or_else(not_found)?);
    let found = operator::find_session::<Refusal>(&app, &caller, number).await?;
    let found = found.ok_or_else(not_found)?;
    operator::end_session::<Refusal>(&app, &caller, &found, None).await?.ok_or_else(not_found)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
