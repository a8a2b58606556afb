//! Read endpoints: the latest version of a state, an earlier one, the list of versions and the list of states.

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State as Given};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{StateVersion, StateVersions, TerraformState, TerraformStates};
use leasehold_auth::{Caller, Permitted, Right};

use super::error::Refusal;
use super::lock::holder;
use super::state::State;
use super::{Answer, Asked, States};
use crate::content::{self, Folders, Found, ToRead};
use crate::http::answers::Sending;
use crate::http::client;
use crate::http::request::Arrival;

/// Maximum attempts to read the latest version, which can be removed after it was found.
const TRIES: usize = 3;
/// The maximum number of a version, as in the OpenAPI document.
const VERSION_MAX: u64 = i64::MAX as u64;
/// The server does not parse states, so it does not know whether they are JSON.
const KIND: &str = "application/octet-stream";

/// Returns the versions that are kept, oldest first.
pub(super) async fn kept(
    states: &States,
    caller: &Caller,
    state: &State,
) -> Result<Vec<StateVersion>, Refusal> {
    let entries = listed(states, caller.permit(state.versions())?).await?;
    let shown = |entry: content::Entry| {
        let size = entry.facts.as_ref()?.size;
        let version = entry.name.parse().ok()?;
        Some(StateVersion { version, size, modified_ms: entry.modified_ms })
    };
    Ok(entries.into_iter().filter_map(shown).collect())
}

/// Sends the latest version of a state.
pub(super) async fn latest(states: &States, asked: Asked) -> Answer {
    let Asked { state, caller, parts, .. } = asked;
    for _ in 0..TRIES {
        let Some(latest) = kept(states, &caller, &state).await?.pop() else { break };
        if let Some(found) = find(states, &caller, &parts, &state, latest.version).await? {
            return Ok(answer(latest.version, found, parts.method == Method::HEAD));
        }
    }
    Err(Refusal::missing("there is no such state yet"))
}

/// Sends an earlier version of a state.
pub(super) async fn read(Given(states): Given<States>, request: Request) -> Response {
    let answer = async {
        let Asked { state, caller, parts, version, .. } = Asked::of(&states, request).await?;
        let version = number(version)?;
        let found = find(&states, &caller, &parts, &state, version).await?.ok_or_else(missing)?;
        Ok::<_, Refusal>(answer(version, found, parts.method == Method::HEAD))
    };
    answer.await.unwrap_or_else(IntoResponse::into_response)
}

pub(super) fn number(version: Option<String>) -> Result<u64, Refusal> {
    let version = version.as_deref().unwrap_or_default();
    let number = version.parse().ok().filter(|number| (1..=VERSION_MAX).contains(number));
    number.ok_or_else(|| Refusal::invalid("the version must be a number, from 1"))
}

pub(super) fn missing() -> Refusal {
    Refusal::missing("there is no such version of this state, or it is no longer stored")
}

/// A version that is ready to be sent.
pub(super) struct Version {
    pub(super) size: u64,
    content: Box<dyn content::Readable>,
    sending: Sending,
}

impl Version {
    pub(super) fn body(self) -> Body {
        crate::http::stream(self.content, 0, self.size, self.sending)
    }
}

/// Opens a version of a state. Returns `None` if it does not exist.
pub(super) async fn find(
    states: &States,
    caller: &Caller,
    parts: &Parts,
    state: &State,
    version: u64,
) -> Result<Option<Version>, Refusal> {
    let path = caller.permit(state.to_read(version))?;
    let sending = states.app.answers.download(&client::of_request(&states.app.http, parts))?;
    match states.store.blocking(move |content| content.find(&path)).await {
        Ok(Some(Found::File(facts, content))) => {
            Ok(Some(Version { size: facts.size, content, sending }))
        }
        Ok(_) | Err(content::Error::Missing) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn answer(version: u64, found: Version, is_head: bool) -> Response {
    let size = found.size;
    let body = if is_head { Body::empty() } else { found.body() };
    let headers = [
        (header::CONTENT_TYPE, KIND.to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::ETAG, format!("\"{version}\"")),
    ];
    (StatusCode::OK, headers, body).into_response()
}

/// Lists the versions of a state, latest first.
pub(super) async fn list(Given(states): Given<States>, request: Request) -> Response {
    let answer = async {
        let Asked { state, caller, .. } = Asked::of(&states, request).await?;
        let mut versions = kept(&states, &caller, &state).await?;
        if versions.is_empty() {
            return Err(Refusal::missing("there is no such state yet"));
        }
        versions.reverse();
        Ok(shown(&StateVersions { state: state.lock.name.to_string(), versions }))
    };
    answer.await.unwrap_or_else(IntoResponse::into_response)
}

fn shown(body: &impl serde::Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// Lists the states that the caller can see.
pub(super) async fn states(Given(states): Given<States>, request: Request) -> Response {
    let answer = async {
        let (parts, _) = request.into_parts();
        let caller = Arrival::of(&parts).caller.clone().of_files();
        let mut all = Vec::new();
        let mut folders = vec![Vec::new()];
        while let Some(folder) = folders.pop() {
            for entry in
                listed(&states, caller.permit(State::all_in(&states.app, &folder))?).await?
            {
                let inner = [&folder[..], &[entry.name]].concat();
                if inner.last().is_some_and(|name| Folders::goes_on(name)) {
                    folders.push(inner);
                } else if let Some(state) = State::of_folders(&states.app, &inner) {
                    all.extend(shown_state(&states, &caller, &state).await?);
                }
            }
        }
        all.sort_by(|one, other| one.state.cmp(&other.state));
        Ok::<_, Refusal>(shown(&TerraformStates { states: all }))
    };
    answer.await.unwrap_or_else(IntoResponse::into_response)
}

async fn shown_state(
    states: &States,
    caller: &Caller,
    state: &State,
) -> Result<Option<TerraformState>, Refusal> {
    if caller.check(Right::FilesRead, &state.lock).is_err() {
        return Ok(None);
    }
    let Some(latest) = kept(states, caller, state).await?.pop() else { return Ok(None) };
    let locked_by = holder(states, caller, state).await?.map(|info| info.who);
    Ok(Some(TerraformState { state: state.lock.name.to_string(), latest, locked_by }))
}

/// Returns the entries of a folder; none if the folder does not exist.
async fn listed(
    states: &States,
    folder: Permitted<ToRead>,
) -> Result<Vec<content::Entry>, Refusal> {
    let listed = states.store.blocking(move |content| content.list(&folder, None, usize::MAX));
    match listed.await {
        Err(content::Error::Missing) => Ok(Vec::new()),
        listed => Ok(listed?.entries),
    }
}
