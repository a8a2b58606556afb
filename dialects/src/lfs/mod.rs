//! The Git LFS dialect: `/lfs/{repository}`, with file locks and with objects in the basic transfer.
//!
//! The lock of a file is the lock `REPOSITORY/PATH`. An object is stored like the content of a file, and is published
//! only if its SHA-256 is its name.

mod batch;
pub(super) mod contract;
mod error;
mod list;
mod lock;
mod object;
mod repository;
mod target;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use leasehold_auth::{ANONYMOUS, Caller, basic_user};
use leasehold_core::{Owner, Span};
use serde::de::DeserializeOwned;

use super::{Listener, owner};
use crate::RequestFailure;
use crate::app::App;
use crate::content::Store;
use crate::http::body;
use crate::http::request::{Arrival, NOT_ALLOWED};
use crate::route::Route;
use crate::vital::Vital;
use error::Refusal;
use repository::Repository;
use target::Target;

pub use target::is_transfer;

/// The first segment of the paths that this dialect serves.
pub(super) const WORDS: &[&str] = &["lfs"];
pub(super) const LISTENER: Option<Listener> = None;
/// The operations that the request pipeline treats differently.
pub(super) const ROUTES: &[Route] =
    &[Route::new("POST", "/lfs/{*repository}/locks/{id}/unlock").vital(Vital::IfOwn)];

/// The settings of this dialect.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the locks.
    pub namespace: Arc<str>,
    /// Maximum size of an object, in bytes.
    pub object_bytes_max: u64,
    /// How long after a batch its transfers can start.
    pub transfer_ttl: Span,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "lfs".into(),
            object_bytes_max: 16 << 30,
            transfer_ttl: Span::from_secs(3600),
        }
    }
}

pub(super) fn routes(app: &App) -> Router<App> {
    let Some(store) = app.content.clone() else { return Router::new() };
    let lfs = Lfs { app: app.clone(), store };
    Router::new().route("/lfs/{*target}", any(serve)).with_state(lfs)
}

/// The state that the handlers of this dialect share.
#[derive(Clone)]
pub(super) struct Lfs {
    app: App,
    store: Store,
}

type Answer = Result<Response, Refusal>;

/// A request about a repository, with its caller.
struct Asked {
    repository: Repository,
    caller: Caller,
    parts: Parts,
    body: Body,
}

impl Asked {
    /// Returns the owner that the request acts for. Without authentication, it is the name that the client sends.
    fn owner(&self) -> Owner {
        owner_of(&self.caller, &self.parts.headers)
    }

    /// Parses the JSON body.
    async fn json<T: DeserializeOwned>(self, lfs: &Lfs) -> Result<T, Refusal> {
        let request = Request::from_parts(self.parts, self.body);
        let (bytes_max, timeout) = (lfs.app.http.body_bytes_max, lfs.app.http.body_timeout);
        Ok(body::json(request, bytes_max, timeout).await?)
    }
}

fn owner_of(caller: &Caller, headers: &HeaderMap) -> Owner {
    let name = match caller.is_asked() {
        true => caller.principal().name().to_string(),
        false => basic_user(headers).unwrap_or_else(|| ANONYMOUS.into()),
    };
    owner::of(caller, &name)
}

async fn serve(State(lfs): State<Lfs>, request: Request) -> Response {
    answer(&lfs, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(lfs: &Lfs, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let text = crate::content::decode(parts.uri.path());
    let text = text.ok_or_else(|| Refusal::invalid("the path is not percent-encoded UTF-8"))?;
    let (name, target) = target::parse(&text).ok_or_else(Refusal::no_path)?;
    let repository = Repository::new(&lfs.app, name)?;
    let caller = Arrival::of(&parts).caller.clone().of_files();
    let method = parts.method.clone();
    let asked = Asked { repository, caller, parts, body };
    match (method.as_str(), target) {
        ("GET" | "HEAD", Target::Locks) => list::list(lfs, asked).await,
        ("POST", Target::Locks) => lock::create(lfs, asked).await,
        ("POST", Target::Verify) => list::verify(lfs, asked).await,
        ("POST", Target::Unlock(id)) => lock::unlock(lfs, asked, &id).await,
        ("POST", Target::Batch) => batch::batch(lfs, asked).await,
        ("GET" | "HEAD" | "PUT", Target::Object(oid)) => {
            object::transfer(lfs, asked, &oid).await.map_err(Refusal::finally)
        }
        ("POST", Target::Stored(oid)) => {
            object::verify(lfs, asked, &oid).await.map_err(Refusal::finally)
        }
        (_, target) => {
            let allowed = match target {
                Target::Locks => "GET,HEAD,POST",
                Target::Object(_) => "GET,HEAD,PUT",
                Target::Verify | Target::Unlock(_) | Target::Batch | Target::Stored(_) => "POST",
            };
            let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, NOT_ALLOWED);
            Ok(([(header::ALLOW, allowed)], refusal).into_response())
        }
    }
}

/// Renders a failed request in this dialect's error format.
pub(super) fn render(_: &App, failure: RequestFailure) -> Response {
    Refusal::from(failure).into_response()
}
