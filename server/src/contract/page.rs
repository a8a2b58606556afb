//! `/openapi.json` for programs and `/docs` for people. Everything is in the binary.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::Value;

use crate::app::App;

pub(super) const HTML: &str = "text/html; charset=utf-8";
pub(super) const CSS: &str = "text/css; charset=utf-8";
pub(super) const JS: &str = "text/javascript; charset=utf-8";

/// Only what this server itself sends is shown, run or asked.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn routes(document: &Value) -> Router<App> {
    let document = Bytes::from(document.to_string());
    Router::new()
        .route("/openapi.json", get(async move || asset("application/json", document)))
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
        // It changes with the settings and with the version, and costs little to send.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, body.into())
}
