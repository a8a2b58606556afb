//! The web console: HTML pages that show locks, holders and waiters, and that can revoke locks.
//!
//! The console sends the same requests to the engine as any client, with the rights of the user: [`Visit`] knows who
//! the user is, and a page shows only data that the user could request directly. The console adds no rules. It stores
//! only [`samples`](sample) for charts and [notices](notice) that are shown once.

mod chart;
mod cluster;
mod cursor;
mod files;
mod form;
mod live;
mod lock;
mod locks;
mod notice;
mod reason;
mod revoke;
pub(crate) mod sample;
mod sessions;
mod sign_in;
mod snippet;
mod take;
mod timeline;
mod visit;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{any, get};
use leasehold_auth::Denied;
use maud::html;

use crate::app::App;
use crate::host::Host;
use crate::http::media::wants_page;
use crate::http::page::{self, Page, Viewer};
use crate::http::request::Arrival;
pub(crate) use notice::Notices;
pub(crate) use sample::Samples;
use sign_in::HOME;
use visit::{Trouble, Visit};

/// Seconds after which the browser reloads a page that could not be shown because the cluster has no leader.
const UNLED_REFRESH_S: u32 = 3;

pub(crate) fn routes() -> Router<Host> {
    Router::new()
        .route("/console", get(locks::show))
        .route("/console/lock", get(lock::show))
        .route("/console/lock/revoke", get(revoke::back).post(revoke::revoke))
        .route("/console/sessions", get(sessions::show))
        .route("/console/sessions/end", get(sessions::ask).post(sessions::end))
        .route("/console/files", get(files::show))
        .route("/console/cluster", get(cluster::show))
        .route("/console/take", get(take::show))
        .route("/console/live", get(live::follow))
        .route("/console/", get(async || sign_in::see_other(HOME, &[])))
        .route("/console/{*rest}", any(lost))
        .merge(sign_in::routes())
        .merge(page::routes())
}

/// Returns whether a browser has requested `/`, rather than a program that uses an API.
pub(crate) fn is_visit(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    path == "/" && wants_page(method, headers)
}

/// Returns whether a path is an HTML page outside the console.
fn is_page(path: &str) -> bool {
    matches!(path, "/docs" | "/lock/page")
}

/// Returns the page for a browser whose user has no right to view an HTML page. Returns `None` for programs and for
/// other paths.
pub(crate) fn refused<B>(
    app: &Host,
    arrival: &Arrival,
    request: &axum::http::Request<B>,
    denied: &Denied,
) -> Option<Response> {
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    if !wants_page(method, headers) {
        return None;
    }
    let visit = || Visit::of(app.clone(), arrival, method, uri, headers);
    match uri.path() {
        path if is_page(path) => Some(visit().answer(Err(denied.clone().into()))),
        path if path == "/" || path.starts_with("/console") => Some(visit().turn_away(denied)),
        _ => None,
    }
}

/// Renders a page of a dialect for the user who requests it, or the reason why it cannot be shown.
pub(crate) fn shown(app: &App, parts: &Parts, page: Result<Page, Denied>) -> Response {
    let visit = Visit::new(Host::from(app.clone()), parts);
    visit.answer(page.map_err(Trouble::from))
}

/// Handles unknown paths below `/console`.
async fn lost(State(app): State<Host>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    if !wants_page(&parts.method, &parts.headers) {
        return crate::app::nothing_here().await;
    }
    let missing = Trouble::Missing("there is no such page in the console".into());
    Visit::new(app, &parts).answer(Err(missing))
}

/// Returns the page for browsers while the cluster has no leader, so that no server can answer the request.
pub(crate) fn unled(uri: &Uri) -> Response {
    let here = uri.path_and_query().map_or("/console", PathAndQuery::as_str);
    let body = html! {
        p.note.bad role="alert" { "This server is part of a cluster and cannot reach the leader." }
        p {
            "Usually another server takes over within 3 seconds. Until then, no lock is granted and no lease expires. \
             This page tries again every " (UNLED_REFRESH_S) " seconds."
        }
        p { "If this continues, run " code { "leasehold cluster status" } " on a host that can reach etcd." }
    };
    let page = Page::narrow("The cluster has no leader", body).refresh(UNLED_REFRESH_S, here);
    let mut answer = page.status(StatusCode::SERVICE_UNAVAILABLE).answer(&Viewer::default());
    answer.headers_mut().insert(header::RETRY_AFTER, UNLED_REFRESH_S.into());
    answer
}

/// Handles `/`: shows the list of locks.
pub(crate) async fn front(app: Host, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    locks::show(Visit::new(app, &parts)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_known_by_what_they_take() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json;q=0.1, TEXT/HTML;q=0.1", true),
            ("application/json, text/html;q=0.1", false),
            ("*/*, text/html;q=0.9", false),
            ("text/html;level=1;q=0.4", true),
            ("*/*", false),
            ("application/json", false),
            ("text/html;q=0", false),
            ("text/html; q=0.0", false),
            ("text/htmlx", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("a value"));
            assert_eq!(is_visit(&Method::GET, "/", &headers), expected, "{accept}");
            assert!(!is_visit(&Method::PUT, "/", &headers));
            assert!(!is_visit(&Method::GET, "/a", &headers));
        }
    }
}
