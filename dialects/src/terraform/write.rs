//! Writes states. Each write publishes a new version under the lock, atomically and durably.

use axum::Json;
use axum::body::HttpBody;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use leasehold_api::StateWritten;
use leasehold_auth::Caller;
use leasehold_engine as engine;
use serde::Deserialize;

use super::checksum::{Checksum, Watching};
use super::error::Refusal;
use super::hold::Hold;
use super::lock::holder;
use super::state::State;
use super::version::{find, kept, missing, number};
use super::{Answer, Asked, States};
use crate::audit::Kind;
use crate::content::{self, Upload};
use crate::counted::Counted;
use crate::http::client;
use crate::query;

/// The query parameters. Others are ignored: they are for other software, and Terraform sends the query of its
/// configured address unchanged.
#[derive(Deserialize)]
struct Params {
    #[serde(rename = "ID")]
    id: Option<String>,
}

/// Handles `POST /terraform/{state}?ID=`: the body becomes the new state.
pub(super) async fn write(states: &States, asked: Asked) -> Answer {
    let bytes_max = states.app.dialect.terraform.state_bytes_max;
    let n_bytes = asked.body.size_hint().lower();
    if n_bytes > bytes_max {
        return Err(Refusal::too_large(bytes_max));
    }
    let Asked { state, caller, parts, body, .. } = asked;
    // A request that would be rejected anyway is rejected before the upload.
    caller.permit(state.to_write(0))?;
    states.store.blocking(move |content| content.check_room(n_bytes)).await?;
    let hold = admit(states, &caller, &state, &parts).await?;
    let timeout = states.app.http.body_timeout;
    let (body, watching) = match Checksum::of(&parts.headers)? {
        Some(said) => {
            let (body, watching) = said.watch(body);
            (body, Some(watching))
        }
        None => (body, None),
    };
    let client = client::of_caller(&states.app.http, &caller, &parts);
    let upload = content::receive(&states.store, &client, body, None, bytes_max, timeout).await?;
    watching.map_or(Ok(()), Watching::check)?;
    if upload.size == 0 {
        return Err(Refusal::invalid("the body is empty; a state cannot be empty"));
    }
    let counted = Counted::of(&states.app, &parts);
    published(states, caller, state, (hold, counted), ("write-state", upload)).await
}

/// Handles `POST /terraform/{state}/versions/{n}/restore?ID=`: an earlier version becomes the state again.
pub(super) async fn restore(states: &States, asked: Asked) -> Answer {
    let Asked { state, caller, parts, version, .. } = asked;
    caller.permit(state.to_write(0))?;
    let version = number(version)?;
    let hold = admit(states, &caller, &state, &parts).await?;
    let found = find(states, &caller, &parts, &state, version).await?.ok_or_else(missing)?;
    let body = found.body();
    let timeout = states.app.http.body_timeout;
    let client = client::of_caller(&states.app.http, &caller, &parts);
    let upload = content::receive(&states.store, &client, body, None, u64::MAX, timeout).await?;
    let counted = Counted::of(&states.app, &parts);
    published(states, caller, state, (hold, counted), ("restore-state", upload)).await
}

fn id(parts: &Parts) -> Result<Option<String>, Refusal> {
    let params: Params = query::parse(&parts.uri).map_err(Refusal::invalid)?;
    Ok(params.id.filter(|id| !id.is_empty()))
}

/// Returns the lock that the writer names by its id. While the state is locked, only the holder can write, so a writer
/// without an id is rejected.
async fn admit(
    states: &States,
    caller: &Caller,
    state: &State,
    parts: &Parts,
) -> Result<Option<Hold>, Refusal> {
    match id(parts)? {
        Some(id) => Hold::of(states, caller, state, &id).await.map(Some),
        None => match holder(states, caller, state).await? {
            Some(info) => Err(Refusal::Locked(StatusCode::LOCKED, Box::new(info))),
            None => Ok(None),
        },
    }
}

/// Publishes to the end even if the client disconnects, because a half-finished write would be worse.
async fn published(
    states: &States,
    caller: Caller,
    state: State,
    (hold, counted): (Option<Hold>, Counted),
    (act, upload): (&'static str, Upload),
) -> Answer {
    let states = states.clone();
    let publishing = tokio::spawn(async move {
        let hold = match hold {
            Some(hold) => hold,
            None => Hold::take(&states, &caller, counted, &state).await?,
        };
        publish(&states, &caller, &state, &hold, (act, upload)).await
    });
    publishing.await.unwrap_or_else(|_| Err(engine::Error::Unknown.into()))
}

async fn publish(
    states: &States,
    caller: &Caller,
    state: &State,
    hold: &Hold,
    (act, upload): (&'static str, Upload),
) -> Answer {
    // The next holder of the lock must not publish before this write does, and a rename can take any time.
    let _turn = states.store.turn(&state.place()).await;
    let deadline = hold.secure().await?.deadline;
    let before = kept(states, caller, state).await?;
    let version = before.last().map_or(1, |latest| latest.version + 1);
    let path = caller.permit(state.to_write(version))?;
    let engine = states.app.engine.clone();
    // The lock lasts for a while, but this thread might be suspended for longer.
    let is_safe = move || deadline.is_none_or(|deadline| engine.now() < deadline);
    let Upload { draft, size, .. } = upload;
    let done = states.store.blocking(move |_| is_safe().then(|| draft.publish(&path)).transpose());
    if done.await?.is_none() {
        return Err(hold.lost().await);
    }
    states.app.note_of(Kind::Content, caller, act, |act| {
        act.on(&state.lock).detail("version", version).detail("bytes", size)
    });
    forget(states, caller, state, before.iter().map(|before| before.version)).await;
    Ok(written(version))
}

fn written(version: u64) -> Response {
    (StatusCode::OK, Json(StateWritten { version })).into_response()
}

/// Removes the versions that exceed the maximum number, which includes the new version.
async fn forget(
    states: &States,
    caller: &Caller,
    state: &State,
    before: impl DoubleEndedIterator<Item = u64>,
) {
    let n_kept = states.app.dialect.terraform.versions.saturating_sub(1);
    for version in before.rev().skip(n_kept) {
        let Ok(path) = caller.permit(state.to_write(version)) else { return };
        // A version that cannot be removed now is removed after a later write.
        if let Err(error) = states.store.blocking(move |content| content.remove(&path)).await {
            tracing::warn!(%error, "cannot remove an old version of a state");
        }
    }
}
