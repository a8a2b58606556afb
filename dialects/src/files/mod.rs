//! The files dialect, a small file store with locks: `/auth/session`, `/admin/locks`, `/files/...`, and every path that
//! does not belong to another protocol.
//!
//! A client writes a file under the file's lock, in a session. The content is published durably while the lock is held,
//! or not at all.

mod admin;
pub(super) mod condition;
pub(super) mod contract;
mod error;
pub(super) mod folder;
mod hold;
mod lock;
mod range;
pub(super) mod read;
mod session;
pub(super) mod upload;
mod wire;
mod write;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete, get};
use leasehold_auth::{Caller, Permitted};
use leasehold_core::Span;
use leasehold_engine as engine;
use serde::Deserialize;
use tokio::sync::OwnedMutexGuard;

use super::{Listener, file_url};
use crate::RequestFailure;
use crate::app::{self, App};
use crate::content::{self, Content, FilePath, Found, NoPath, Store, ToRead};
use crate::http::client;
use crate::http::request::{self, Arrival};
use crate::route::Route;
use crate::vital::Vital;
use error::Refusal;
use leasehold_auth::shares::Client;
use lock::Operation;
use read::Unserved;
use session::Session;

/// The methods that the path of a file accepts.
const METHODS: &str = "GET,HEAD,PUT,DELETE,POST";
type Answer = Result<Response, Refusal>;

/// The first segments of the paths that belong to this dialect. Every other path is a file.
pub(super) const WORDS: &[&str] = &["auth", "admin", "files"];
pub(super) const LISTENER: Option<Listener> = None;
/// The operations that the request pipeline treats differently.
pub(super) const ROUTES: &[Route] = &[
    Route::new("DELETE", "/auth/session").vital(Vital::Always),
    Route::new("GET", "/{*file}").vital(Vital::Always).named(is_of_held_file),
    Route::new("POST", "/{*file}").vital(Vital::Always).named(is_of_held_file),
];

/// The settings of this dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the locks on files.
    pub namespace: Arc<str>,
    /// TTL of a lock on a file.
    pub lock_ttl: Span,
    /// TTL of a session.
    pub session_ttl: Span,
    /// Maximum size of a file, in bytes.
    pub bytes_max: u64,
    /// Whether clients can read files without a session.
    pub is_public: bool,
    /// Maximum size of all files together, in bytes.
    pub quota: u64,
    /// Bytes of disk space that uploads leave free; `None`: 5% of the disk, and at least 256 MiB.
    pub free_space_min: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "files".into(),
            lock_ttl: Span::from_secs(30 * 60),
            session_ttl: Span::from_secs(7 * 24 * 3600),
            bytes_max: 16 << 30,
            is_public: true,
            quota: 64 << 30,
            free_space_min: None,
        }
    }
}

/// Returns whether the request releases or renews a file's lock. Directories have no locks, and other paths of the
/// protocol take no `lock` parameter.
fn is_of_held_file(uri: &Uri) -> bool {
    let segments: Vec<_> = uri.path().split('/').skip(1).collect();
    let is_file = !matches!(segments[..], ["auth" | "admin", ..] | [.., ""]);
    let Some(query) = uri.query().filter(|query| is_file && query.contains("lock")) else {
        return false;
    };
    // With further parameters, the handler would refuse the request, or this is not such a request.
    let is_one = !query.contains('&');
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let operation = |(name, value): &(String, String)| {
        name == "lock" && matches!(value.as_str(), "release" | "refresh")
    };
    is_one && pairs.is_ok_and(|Query(pairs)| pairs.iter().all(operation))
}

pub(super) fn routes(app: &App) -> Router<App> {
    let Some(files) = Files::of(app) else { return Router::new() };
    Router::new()
        .route("/auth/session", get(session::look).post(session::open).delete(session::close))
        .route("/auth/sessions", get(session::list))
        .route("/admin/locks", get(admin::list))
        .route("/admin/locks/", delete(admin::revoke))
        .route("/admin/locks/{*path}", delete(admin::revoke))
        .method_not_allowed_fallback(wrong_method)
        .route("/files/{*path}", any(serve))
        .with_state(files)
}

/// Serves every path that belongs to no protocol. `None` if this dialect is off.
pub fn rest(app: &App) -> Option<MethodRouter> {
    Files::of(app).map(|files| any(serve).with_state(files))
}

/// The state that the handlers of this dialect share.
#[derive(Clone)]
pub(super) struct Files {
    app: App,
    store: Store,
}

impl Files {
    fn of(app: &App) -> Option<Self> {
        Some(Self { app: app.clone(), store: app.content.clone()? })
    }

    /// Runs blocking work on a thread that is allowed to block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Content) -> Result<T, content::Error> + Send + 'static,
    ) -> Result<T, Refusal> {
        Ok(self.store.blocking(work).await?)
    }

    async fn find(&self, path: &Permitted<ToRead>) -> Result<Option<Found>, Refusal> {
        let path = path.clone();
        self.blocking(move |content| content.find(&path)).await
    }

    /// Returns whether the path names a folder, by a trailing slash or because a folder exists there.
    async fn is_folder(&self, path: &Permitted<ToRead>) -> Result<bool, Refusal> {
        Ok(path.is_folder() || matches!(self.find(path).await?, Some(Found::Folder)))
    }

    /// Waits until no other request publishes at this path, and blocks others until the guard is dropped.
    async fn turn(&self, path: &FilePath) -> OwnedMutexGuard<()> {
        self.store.turn(path).await
    }
}

impl FromRequestParts<Files> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Files) -> Result<Self, Infallible> {
        Ok(Arrival::of(parts).caller.clone())
    }
}

/// The query parameters. Unknown ones are an error: a misspelled `lock` must not be treated as a read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    lock: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

/// Serves any path that can be a file.
async fn serve(State(files): State<Files>, request: Request) -> Response {
    let path = match file_url::of(request.uri()) {
        Ok(path) => path,
        // The path does not belong to this dialect, so neither does the error format.
        Err(NoPath::Reserved) => return app::nothing_here().await,
        Err(bad) => return Refusal::from(bad).into_response(),
    };
    answer(&files, path, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(files: &Files, path: FilePath, request: Request) -> Answer {
    let method = request.method().clone();
    let is_read = method == Method::GET || method == Method::HEAD;
    // Unsupported methods are rejected first, whatever else is wrong with the request.
    if !is_read && ![Method::PUT, Method::DELETE, Method::POST].contains(&method) {
        return Ok(([(header::ALLOW, METHODS)], wrong_method().await).into_response());
    }
    let Query(params) = Query::<Params>::try_from_uri(request.uri())
        .map_err(|error| Refusal::invalid(format!("the query: {}", error.body_text())))?;
    let (parts, body) = request.into_parts();
    let caller = Arrival::of(&parts).caller.clone().of_files();
    if !is_read && (params.limit.is_some() || params.cursor.is_some()) {
        return Err(Refusal::invalid("limit and cursor are for reading a folder"));
    }
    let session = Session::in_request(&parts, files, &caller).await?;
    let who = session.as_ref().map_or(&caller, |session| &session.caller);
    let client = client::of_caller(&files.app.http, who, &parts);
    let headers = parts.headers;
    if let Some(operation) = &params.lock {
        if method != Method::GET && method != Method::POST {
            return Err(Refusal::invalid("lock: only with GET or POST"));
        }
        let operation = Operation::parse(operation)?;
        let session = session.ok_or_else(Refusal::no_session)?;
        return lock::operate(files, &session, &path, operation).await;
    }
    if is_read {
        let path = (caller, path);
        let asked = (&headers, client, method == Method::HEAD);
        return read(files, session, path, params, asked).await;
    }
    let session = session.ok_or_else(Refusal::no_session)?;
    match method {
        Method::PUT => write::put(files, (&session, &client), path, headers, body).await,
        Method::DELETE => write::delete(files, &session, path, headers).await,
        _ if path.is_folder() => folder::make(files, &session, path).await,
        _ => Err(Refusal::invalid(
            "POST creates a folder, and then the path ends with /, or needs ?lock=",
        )),
    }
}

async fn read(
    files: &Files,
    session: Option<Session>,
    (caller, path): (Caller, FilePath),
    params: Params,
    (headers, client, is_head): (&HeaderMap, Client, bool),
) -> Answer {
    let caller = match session {
        Some(session) => {
            session.look(files).await?;
            session.caller
        }
        // With authentication, a caller reads by its own rights, with or without a session.
        None if caller.is_asked() || files.app.dialect.files.is_public => caller,
        None => return Err(Refusal::no_session()),
    };
    let limit = folder::page(params.limit.as_deref())?;
    let path = caller.permit(ToRead::new(&files.app, path))?;
    let sending = files.app.answers.download(&client)?;
    let found = files.find(&path).await?;
    if !matches!(found, Some(Found::Folder)) {
        path.check_file()?;
    }
    match found.ok_or_else(Refusal::missing)? {
        Found::Folder => folder::list(files, path, limit, params.cursor).await,
        Found::File(..) if path.is_folder() => Err(Refusal::missing()),
        Found::File(..) if params.limit.is_some() || params.cursor.is_some() => {
            Err(Refusal::invalid("limit and cursor are for reading a folder"))
        }
        Found::File(facts, content) => {
            Ok(sent(read::answer(headers, &facts, content, sending, is_head)))
        }
    }
}

fn sent(sent: Result<Response, Unserved>) -> Response {
    match sent {
        Ok(response) => response,
        Err(Unserved::Precondition) => Refusal::precondition().into_response(),
        Err(Unserved::Beyond(size)) => {
            (read::content_range(size), Refusal::beyond(size)).into_response()
        }
    }
}

async fn wrong_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed", request::NOT_ALLOWED)
}

/// Runs the work to its end even if the client disconnects, because a half-finished change would be worse.
async fn to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let unknown = |_| Err(engine::Error::Unknown.into());
    tokio::spawn(work).await.unwrap_or_else(unknown)
}

/// Renders a failed request in this dialect's error format.
pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    error::Refusal::from(failure).into_response()
}
