//! `/openapi.json` for programs and `/docs` for people. Everything is in the binary.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::Dialect;
use crate::app::App;

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const CSS: &str = "text/css; charset=utf-8";
pub(super) const JS: &str = "text/javascript; charset=utf-8";

/// Content security policy: browsers load, run and contact only this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Returns the routes of the document and of the page that shows it.
pub fn routes(app: &App, dialects: &BTreeSet<Dialect>) -> Router<App> {
    // Rendered on first use, because every worker has separate routes and few of them ever serve the document.
    let (app, dialects) = (app.clone(), dialects.clone());
    let made = move || Bytes::from(super::document(&app, &dialects).to_string());
    let document = Arc::new(LazyLock::new(made));
    let shown = async move || asset("application/json", Bytes::clone(&document));
    Router::new()
        .route("/openapi.json", get(shown))
        .route("/docs", get(async || asset(HTML, include_str!("docs/docs.html"))))
        .route("/docs/docs.css", get(async || asset(CSS, include_str!("docs/docs.css"))))
        .route("/docs/docs.js", get(async || asset(JS, include_str!("docs/docs.js"))))
}

fn asset(kind: &'static str, body: impl Into<Bytes>) -> impl IntoResponse {
    let headers: [(HeaderName, HeaderValue); 5] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // The document changes with the settings and the version, and is cheap to send.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, body.into())
}
