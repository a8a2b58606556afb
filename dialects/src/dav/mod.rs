//! WebDAV, classes 1 and 2: `/dav/PATH` is the same file or folder as `/files/PATH` in the dialect `files`, under the
//! same locks.
//!
//! A request that changes a file or folder needs its lock. It either shows the token of a lock that the client acquired
//! with `LOCK`, or it acquires a lock for its own duration. In both cases the lock is checked again when the change is
//! made.

mod active;
mod condition;
pub(super) mod contract;
mod error;
mod find;
mod hold;
mod lock;
mod patch;
mod place;
mod property;
mod scan;
mod tree;
mod write;
mod xml;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use leasehold_auth::{Caller, Permitted};
use leasehold_core::Span;
use leasehold_engine as engine;

use super::Listener;
use super::counted::Counted;
use super::files::read::{self, Unserved};
use super::query;
use crate::RequestFailure;
use crate::app::App;
use crate::content::{FilePath, Found, Store, ToRead};
use crate::http::body;
use crate::http::client;
use crate::http::request::{Arrival, NOT_ALLOWED};
use crate::route::Route;
use crate::vital::Vital;
use error::Refusal;

/// First path segment of this dialect.
pub(super) const WORDS: &[&str] = &["dav"];
pub(super) const LISTENER: Option<Listener> = None;
/// The operations that the request pipeline treats differently.
pub(super) const ROUTES: &[Route] = &[
    // A `LOCK` without a body refreshes a lock.
    Route::new("LOCK", "/dav").vital(Vital::Always).without_body(),
    Route::new("UNLOCK", "/dav").vital(Vital::Always),
    Route::new("LOCK", "/dav/{*path}").vital(Vital::Always).without_body(),
    Route::new("UNLOCK", "/dav/{*path}").vital(Vital::Always),
];

/// The methods that this dialect supports.
const METHODS: &str = "OPTIONS,GET,HEAD,PUT,DELETE,PROPFIND,PROPPATCH,MKCOL,COPY,MOVE,LOCK,UNLOCK";
const XML: &str = "application/xml; charset=utf-8";

/// Options of this dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Minimum TTL of a lock. Some clients refresh a lock with a short TTL every second.
    pub lock_ttl_min: Span,
    /// Maximum number of files and folders that one request copies or checks.
    pub tree_max: usize,
    /// Maximum size of the properties of one file or folder, in bytes.
    pub properties_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lock_ttl_min: Span::from_secs(60),
            tree_max: 100_000,
            properties_bytes_max: 32 * 1024,
        }
    }
}

pub(super) fn routes(app: &App) -> Router<App> {
    let Some(store) = app.content.clone() else { return Router::new() };
    let dav = Dav { app: app.clone(), store };
    Router::new()
        .route("/dav", any(serve))
        .route("/dav/", any(serve))
        .route("/dav/{*path}", any(serve))
        .with_state(dav)
}

/// State of the request handlers of this dialect.
#[derive(Clone)]
struct Dav {
    app: App,
    store: Store,
}

type Answer = Result<Response, Refusal>;

impl Dav {
    async fn find(&self, path: &Permitted<ToRead>) -> Result<Option<Found>, Refusal> {
        let path = path.clone();
        Ok(self.store.blocking(move |content| content.find(&path)).await?)
    }

    /// Reads a complete request body. Only methods whose body is XML use it.
    async fn read(&self, body: Body) -> Result<Bytes, Refusal> {
        let http = &self.app.http;
        Ok(body::read(body, http.body_bytes_max, http.body_timeout).await?)
    }

    /// Checks that the parent folder of the request's path exists.
    async fn check_parent(&self, asked: &Asked) -> Result<(), Refusal> {
        self.check_parent_of(&asked.caller, &asked.path).await
    }

    async fn check_parent_of(&self, caller: &Caller, path: &FilePath) -> Result<(), Refusal> {
        let Some(parent) = path.parent() else { return Ok(()) };
        // A caller that can write to a path can also see whether its parent exists.
        let parent = caller.find_folder(ToRead::new(&self.app, parent));
        match self.find(&parent).await? {
            Some(Found::Folder) => Ok(()),
            Some(Found::File(..)) | None => Err(Refusal::no_parent()),
        }
    }
}

/// A request and its caller.
struct Asked {
    /// The requested path, without a slash at its end.
    path: FilePath,
    /// `true` if the requested path ended with a slash, so that it can only be a folder.
    says_folder: bool,
    caller: Caller,
    counted: Counted,
    parts: Parts,
}

impl Asked {
    fn of(dav: &Dav, parts: Parts) -> Result<Self, Refusal> {
        let path = place::parse(parts.uri.path())?;
        let caller = Arrival::of(&parts).caller.clone().of_files();
        let counted = Counted::of(&dav.app, &parts);
        let says_folder = place::says_folder(parts.uri.path());
        Ok(Self { path, says_folder, caller, counted, parts })
    }

    /// Rejects a path that ends with a slash if it is the path of a file.
    fn check_kind(&self, found: &Found) -> Result<(), Refusal> {
        match found {
            Found::File(..) if self.says_folder => Err(Refusal::missing()),
            Found::File(..) | Found::Folder => Ok(()),
        }
    }
}

/// The header `Depth`: the folder alone, its entries, or everything in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Depth {
    Zero,
    One,
    Infinity,
}

impl Depth {
    fn of(headers: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let Some(value) = headers.get("depth") else { return Ok(None) };
        match value.as_bytes() {
            b"0" => Ok(Some(Depth::Zero)),
            b"1" => Ok(Some(Depth::One)),
            word if word.eq_ignore_ascii_case(b"infinity") => Ok(Some(Depth::Infinity)),
            _ => Err(Refusal::invalid("Depth must be 0, 1 or infinity")),
        }
    }
}

async fn serve(State(dav): State<Dav>, request: Request) -> Response {
    let answer = async {
        let (parts, body) = request.into_parts();
        let asked = Asked::of(&dav, parts)?;
        if let Some(expected) = asked.parts.headers.get(header::EXPECT)
            && !expected.as_bytes().eq_ignore_ascii_case(b"100-continue")
        {
            return Err(Refusal::new(
                StatusCode::EXPECTATION_FAILED,
                "Expect must be 100-continue",
            ));
        }
        let is_read =
            matches!(asked.parts.method.as_str(), "OPTIONS" | "GET" | "HEAD" | "PROPFIND");
        // The meaning of a query is unknown, so the request is rejected before it changes anything.
        if !is_read {
            query::none(&asked.parts.uri).map_err(Refusal::invalid)?;
        }
        match asked.parts.method.as_str() {
            "OPTIONS" => Ok(options()),
            "GET" | "HEAD" => get(&dav, asked).await,
            "PUT" => write::put(&dav, asked, body).await,
            "MKCOL" => write::make_folder(&dav, asked, body).await,
            "DELETE" => tree::delete(&dav, asked).await,
            "COPY" => tree::copy(&dav, asked).await,
            "MOVE" => tree::rename(&dav, asked).await,
            "PROPFIND" => find::find(&dav, asked, body).await,
            "PROPPATCH" => patch::patch(&dav, asked, body).await,
            "LOCK" => lock::lock(&dav, asked, body).await,
            "UNLOCK" => lock::unlock(&dav, asked).await,
            _ => Ok(not_allowed()),
        }
    };
    answer.await.unwrap_or_else(IntoResponse::into_response)
}

fn not_allowed() -> Response {
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, NOT_ALLOWED);
    ([(header::ALLOW, METHODS)], refusal).into_response()
}

/// Answers `OPTIONS`. Some clients send it to the root of the server before they use the configured URL.
pub fn options() -> Response {
    let headers = [
        (HeaderName::from_static("dav"), "1, 2"),
        (HeaderName::from_static("ms-author-via"), "DAV"),
        (header::ALLOW, METHODS),
    ];
    (StatusCode::OK, headers).into_response()
}

async fn get(dav: &Dav, asked: Asked) -> Answer {
    let path = asked.caller.permit(ToRead::new(&dav.app, asked.path))?;
    let sending = dav.app.answers.download(&client::of_request(&dav.app.http, &asked.parts))?;
    let found = dav.find(&path).await?;
    if !matches!(found, Some(Found::Folder)) {
        path.check_file()?;
    }
    match found.ok_or_else(Refusal::missing)? {
        Found::Folder => {
            let kind = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
            Ok((kind, "This is a folder: PROPFIND with Depth: 1 lists its content.\n")
                .into_response())
        }
        Found::File(facts, content) => {
            let is_head = asked.parts.method == Method::HEAD;
            match read::answer(&asked.parts.headers, &facts, content, sending, is_head) {
                Ok(response) => Ok(response),
                Err(Unserved::Precondition) => {
                    Err(Refusal::precondition("a condition of the request does not hold"))
                }
                Err(Unserved::Beyond(size)) => {
                    let why = format!("the file has {size} bytes");
                    let refusal = Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, why);
                    Ok((read::content_range(size), refusal).into_response())
                }
            }
        }
    }
}

/// Runs `work` to the end even if the client disconnects, so that no change is half done.
async fn to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<T, Refusal> {
    let unknown = |_| Err(engine::Error::Unknown.into());
    tokio::spawn(work).await.unwrap_or_else(unknown)
}

/// Renders a request that was denied as an error response of this dialect.
pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    Refusal::from(failure).into_response()
}
