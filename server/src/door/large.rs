//! Counts large responses that are sent whole, until their clients have taken them.
//!
//! Only responses to requests that change nothing count, because only these can be refused when the budget is used up.
//! Responses to all other requests have a small maximum size.

use axum::body::HttpBody;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use leasehold_api::Code;
use leasehold_auth::Caller;

use super::{Answer, Visitor};
use crate::app::{self, App};
use crate::dialect::{self, Dialect};
use crate::http::answers::TooMuch;
use crate::http::forwarded;
use crate::http::shares::Client;

/// The client whose share a large response to this request counts in; `None` if the response does not count.
pub(super) fn client<B>(
    app: &App,
    visitor: &Visitor,
    caller: &Caller,
    request: &Request<B>,
) -> Option<Client> {
    if !is_read(request) || visitor.link.is_for_peers || visitor.link.is_for_metrics {
        return None;
    }
    let from = || forwarded::client(request.headers(), visitor.peer, &app.http.trusted_proxies);
    Some(Client::of(caller, &app.http, from))
}

fn is_read<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let is_lfs = || dialect::of_path(path) == Dialect::Lfs;
    match request.method().as_str() {
        "GET" | "PROPFIND" => true,
        "POST" => (path.ends_with("/objects/batch") || path.ends_with("/locks/verify")) && is_lfs(),
        _ => false,
    }
}

/// Counts the response if it is large, or replaces it by a refusal. A response without a known size is sent in pieces,
/// and its handler counts it.
pub(super) fn count(app: &App, client: Option<Client>, answer: Answer) -> Answer {
    let n_bytes = answer.response.body().size_hint().exact().unwrap_or_default();
    let is_refused = !answer.response.status().is_success();
    let Some(client) = client.filter(|_| !is_refused && answer.undelivered.is_none()) else {
        return answer;
    };
    match app.answers.whole(&client, usize::try_from(n_bytes).unwrap_or(usize::MAX)) {
        Ok(sending) => Answer { sending, ..answer },
        Err(too_much) => refuse(&too_much).into(),
    }
}

fn refuse(too_much: &TooMuch) -> Response {
    let (status, code) = match too_much.is_own {
        true => (StatusCode::TOO_MANY_REQUESTS, Code::LimitReached),
        false => (StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded),
    };
    let mut response = app::failure(status, code, &too_much.to_string());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
