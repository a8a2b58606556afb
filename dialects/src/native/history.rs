//! The history of locks: past events, newest first, from memory and then from disk.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use leasehold_api::{History, PastEvent};
use leasehold_auth::Caller;
use leasehold_core::LockKey;
use leasehold_engine::{PastEvents, ReadHistory};
use leasehold_store::{Cursor, EventId};
use schemars::JsonSchema;
use serde::Deserialize;

use super::error::Refusal;
use super::event::{parse_id, wire};
use super::extract::{Lock, Namespace, Params};
use crate::app::App;
use leasehold_store::history::Query;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryParams {
    /// Only events of this owner's leases.
    owner: Option<String>,
    /// Only events at or after this time, in epoch milliseconds.
    since: Option<i64>,
    /// Maximum number of events.
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
}

pub(super) async fn of_lock(
    State(app): State<App>,
    Lock(key): Lock,
    caller: Caller,
    Params(params): Params<HistoryParams>,
) -> Result<Response, Refusal> {
    app.limits.check_key(&key)?;
    answer(app, caller, key.namespace.to_string(), Some(key.name.to_string()), params).await
}

pub(super) async fn of_namespace(
    State(app): State<App>,
    Namespace(namespace): Namespace,
    caller: Caller,
    Params(params): Params<HistoryParams>,
) -> Result<Response, Refusal> {
    answer(app, caller, namespace.to_string(), None, params).await
}

async fn answer(
    app: App,
    caller: Caller,
    namespace: String,
    lock: Option<String>,
    params: HistoryParams,
) -> Result<Response, Refusal> {
    let limit = params.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        let why = format!("limit: must be from 1 to {LIMIT_MAX}, got {limit}");
        return Err(Refusal::invalid(why));
    }
    let cursor = params.cursor.as_deref().map(|cursor| parse_id("cursor", cursor)).transpose()?;
    let generation = app.engine.generation();
    if cursor.is_some_and(|cursor| cursor.generation != generation) {
        return Err(Refusal::invalid(
            "cursor: issued before this server was restored from a backup; begin without one",
        ));
    }
    if let Some(cursor) = cursor {
        app.engine.catch_up_to(cursor).await;
    } else if let Some(following) = &app.following {
        following.catch_up(&app.engine).await;
    }
    let query =
        Query { namespace: Some(namespace), lock, owner: params.owner, since_ms: params.since };
    let asked = caller.permit(ReadHistory { query, ..ReadHistory::default() })?;
    let (view, before) = (asked.view.clone(), cursor.map(|cursor| cursor.id));
    let found = app.archive.find(&app.engine, asked, before, limit).await;
    let PastEvents { events, before, gaps } = found.map_err(Refusal::failed)?;
    let name = |id: EventId| Cursor { generation, id }.to_string();
    let shows = |lock: &LockKey| view.shows(lock);
    let events =
        events.iter().map(|event| PastEvent { id: name(event.id), event: wire(event, shows) });
    let history = History { events: events.collect(), next_cursor: before.map(name) };
    let mut response = Json(history).into_response();
    if !gaps.is_empty() {
        let gaps: Vec<_> = gaps.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        if let Ok(value) = HeaderValue::try_from(gaps.join(", ")) {
            response.headers_mut().insert(GAPS, value);
        }
    }
    Ok(response)
}

/// Response header that names ranges of records whose events are missing from the history: this server was down when
/// they were written, and they were gone from the store when it came back.
const GAPS: HeaderName = HeaderName::from_static("leasehold-history-gaps");
