//! The console: who holds what, who waits behind, and how to free it, on pages for people.
//!
//! It asks the engine the same questions as everybody, on its reader's word: [`Visit`] knows who that is, and nothing
//! is shown that they could not ask for themselves. There are no rules here, and nothing is remembered but a few
//! [`samples`](sample).

mod chart;
mod cluster;
mod cursor;
mod files;
mod form;
mod live;
mod lock;
mod locks;
mod revoke;
pub(crate) mod sample;
mod sessions;
mod sign_in;
mod snippet;
mod take;
mod timeline;
mod visit;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use axum::response::Response;
use axum::routing::{get, post};

use crate::app::App;
use crate::page;
pub(crate) use sample::Samples;
use visit::Visit;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/console", get(locks::show))
        .route("/console/lock", get(lock::show))
        .route("/console/lock/revoke", post(revoke::revoke))
        .route("/console/sessions", get(sessions::show))
        .route("/console/sessions/end", post(sessions::end))
        .route("/console/files", get(files::show))
        .route("/console/cluster", get(cluster::show))
        .route("/console/take", get(take::show))
        .route("/console/live", get(live::follow))
        .merge(sign_in::routes())
        .merge(page::routes())
}

/// Is this a browser that came to look at the server, and not a program that asks for something?
pub(crate) fn is_visit(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    path == "/" && (method == Method::GET || method == Method::HEAD) && wants_page(headers)
}

/// Does it name HTML among what it takes?
fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let mut parts = kind.split(';').map(str::trim);
        let is_html = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/html"));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_html && weight.is_none_or(|weight| !weight.trim_matches(['0', '.']).is_empty())
    })
}

/// The first page, for whoever came to `/`.
pub(crate) async fn front(app: App, request: Request) -> Response {
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
            ("application/json, TEXT/HTML;q=0.1", true),
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
