//! The Terraform `http` backend: `/terraform/{state}`, with a lock and earlier versions of each state.
//!
//! A state is stored like the content of a file. While it is locked, only the holder of the lock can write it. This is
//! checked again when the new version is published.

mod checksum;
pub(super) mod contract;
mod error;
mod hold;
mod info;
mod lock;
mod state;
mod version;
mod write;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State as Given};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use leasehold_auth::Caller;
use leasehold_core::Span;

use super::{Listener, path};
use crate::RequestFailure;
use crate::app::{self, App};
use crate::content::Store;
use crate::http::body;
use crate::http::request::{Arrival, NOT_ALLOWED};
use crate::route::Route;
use crate::vital::Vital;
use checksum::Checksum;
use error::Refusal;
pub(super) use info::{shown, who};
use leasehold_api::Code;
use state::State;

/// The first segment of the paths that this dialect serves.
pub(super) const WORDS: &[&str] = &["terraform"];
pub(super) const LISTENER: Option<Listener> = None;
/// The operations that the request pipeline treats differently.
pub(super) const ROUTES: &[Route] = &[
    Route::new("UNLOCK", "/terraform/{state}").vital(Vital::IfOwn),
    Route::new("UNLOCK", "/terraform/{state}/lock").vital(Vital::IfOwn),
    Route::new("DELETE", "/terraform/{state}/lock").vital(Vital::IfOwn),
];

/// The settings of this dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the locks on states.
    pub namespace: Arc<str>,
    /// TTL of a lock, which writes renew; `None`: a lock lasts until it is released.
    pub lock_ttl: Option<Span>,
    /// Maximum versions of a state that are kept.
    pub versions: usize,
    /// Maximum size of a state, in bytes.
    pub state_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "terraform".into(),
            lock_ttl: None,
            versions: 20,
            state_bytes_max: 256 << 20,
        }
    }
}

pub(super) fn routes(app: &App) -> Router<App> {
    let Some(store) = app.content.clone() else { return Router::new() };
    let states = States { app: app.clone(), store };
    Router::new()
        .route("/terraform", get(version::states))
        .route("/terraform/{state}", any(serve))
        .route("/terraform/{state}/lock", any(serve_lock))
        .route("/terraform/{state}/versions", get(version::list))
        .route("/terraform/{state}/versions/{version}", get(version::read))
        .route("/terraform/{state}/versions/{version}/restore", any(serve_restore))
        .with_state(states)
}

/// The state that the handlers of this dialect share.
#[derive(Clone)]
pub(super) struct States {
    app: App,
    store: Store,
}

type Answer = Result<Response, Refusal>;

impl Asked {
    /// Reads the whole body, up to the maximum size, and checks its checksum.
    async fn bytes(body: Body, headers: &HeaderMap, app: &App) -> Result<Bytes, Refusal> {
        let said = Checksum::of(headers)?;
        let bytes = body::read(body, app.http.body_bytes_max, app.http.body_timeout).await?;
        said.map_or(Ok(()), |said| said.check(&bytes))?;
        Ok(bytes)
    }
}

/// A request about a state, with its caller.
struct Asked {
    state: State,
    caller: Caller,
    parts: Parts,
    body: Body,
    /// The version in the path, if there is one.
    version: Option<String>,
}

impl Asked {
    async fn of(states: &States, request: Request) -> Result<Self, Refusal> {
        let (mut parts, body) = request.into_parts();
        let mut names = path::names(&mut parts, &states.app).await.map_err(Refusal::invalid)?;
        let state = State::new(&states.app, names.remove("state").unwrap_or_default())?;
        let caller = Arrival::of(&parts).caller.clone().of_files();
        Ok(Self { state, caller, parts, body, version: names.remove("version") })
    }
}

async fn serve(Given(states): Given<States>, request: Request) -> Response {
    let answer = async {
        let asked = Asked::of(&states, request).await?;
        match asked.parts.method.as_str() {
            "GET" | "HEAD" => version::latest(&states, asked).await,
            "POST" | "PUT" => write::write(&states, asked).await,
            "LOCK" => lock::lock(&states, asked).await,
            "UNLOCK" => lock::unlock(&states, asked).await,
            _ => Ok(not_allowed("GET,HEAD,POST,PUT,LOCK,UNLOCK")),
        }
    };
    answer.await.unwrap_or_else(IntoResponse::into_response)
}

/// Serves the lock of a state, for clients that are configured to use other methods than `LOCK` and `UNLOCK`.
async fn serve_lock(Given(states): Given<States>, request: Request) -> Response {
    let answer = async {
        let asked = Asked::of(&states, request).await?;
        match asked.parts.method.as_str() {
            "POST" | "PUT" | "LOCK" => lock::lock(&states, asked).await,
            "DELETE" | "UNLOCK" => lock::unlock(&states, asked).await,
            _ => Ok(not_allowed("POST,PUT,LOCK,DELETE,UNLOCK")),
        }
    };
    answer.await.unwrap_or_else(IntoResponse::into_response)
}

async fn serve_restore(Given(states): Given<States>, request: Request) -> Response {
    let answer = async {
        let asked = Asked::of(&states, request).await?;
        match asked.parts.method.as_str() {
            "POST" => write::restore(&states, asked).await,
            _ => Ok(not_allowed("POST")),
        }
    };
    answer.await.unwrap_or_else(IntoResponse::into_response)
}

fn not_allowed(allowed: &'static str) -> Response {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    let refusal = app::failure(status, Code::MethodNotAllowed, NOT_ALLOWED);
    ([(header::ALLOW, allowed)], refusal).into_response()
}

/// Renders a failed request in this dialect's error format.
pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    Refusal::from(failure).into_response()
}
