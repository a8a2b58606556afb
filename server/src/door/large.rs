//! Counts large bodies: of HTTP/2 requests until they are complete, and of responses that are sent whole until their
//! clients have taken them.
//!
//! Only responses to requests without an effect count, because only these can be refused when the budget is used up.
//! Responses to all other requests have a small maximum size.

use axum::body::HttpBody;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use leasehold_api::Code;
use leasehold_auth::Caller;

use super::{Answer, Visitor, protection};
use crate::app::{self, App};
use crate::dialect::vital::Vital;
use crate::dialect::{self, Dialect};
use crate::http::forwarded;
use leasehold_auth::shares::{Client, Full};

/// A request body up to this size is part of what every request can take.
const FREE_BYTES: u64 = 16 * 1024;

/// Counts the head and the body of an HTTP/2 request, if they are large and the server keeps them in memory, or returns
/// the refusal. Renewals and releases are never refused.
pub(super) fn enter<B: HttpBody>(
    app: &App,
    visitor: &Visitor,
    client: &Client,
    request: &Request<B>,
) -> Result<(), Box<Response>> {
    let Some(stream) = visitor.stream.as_ref().filter(|_| !visitor.link.is_for_peers) else {
        return Ok(());
    };
    let is_vital = || Vital::of(request) != Vital::Never;
    let refused = || app.metrics.engine.refusals.count("heads-total-bytes-max");
    if !stream.enter_head(client) && !is_vital() {
        refused();
        return Err(Box::new(Answer::head_too_large().response));
    }
    let n_bytes = kept_bytes(request.body(), app.http.body_bytes_max as u64);
    if n_bytes <= FREE_BYTES || is_vital() {
        return Ok(());
    }
    stream.enter_body(client, n_bytes as usize).map_err(|full| {
        refused();
        let why = "too many large request bodies arrive at the same time (heads-total-bytes-max; one client can use a \
                   quarter of it); the request had no effect, repeat it when others are complete";
        Box::new(refuse(full != Full::All, why))
    })
}

/// Returns how much of a body a handler can keep in memory. Bodies that are known to be larger are refused, or written
/// to files.
fn kept_bytes(body: &impl HttpBody, bytes_max: u64) -> u64 {
    match body.size_hint().exact() {
        _ if body.is_end_stream() => 0,
        Some(n_bytes) if n_bytes > bytes_max => 0,
        Some(n_bytes) => n_bytes,
        None => bytes_max,
    }
}

/// The client whose share a large response counts in.
pub(super) struct Reader {
    client: Client,
    /// The request changes nothing.
    is_read: bool,
    /// The response tells an operator of budgets that are used up.
    is_urgent: bool,
}

/// Returns who gets the response to this request; `None` if the response does not count.
pub(super) fn reader<B>(
    app: &App,
    visitor: &Visitor,
    (caller, client): (&Caller, Option<Client>),
    request: &Request<B>,
) -> Option<Reader> {
    if visitor.link.is_for_peers || visitor.link.is_for_metrics {
        return None;
    }
    let is_read = is_read(request);
    let from = || forwarded::client(request.headers(), visitor.peer, &app.http.trusted_proxies);
    let of_caller = || Client::of(caller, || app.http.network_of(from()));
    let client = client.or_else(|| is_read.then(of_caller))?;
    Some(Reader { client, is_read, is_urgent: request.uri().path() == "/metrics" })
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
pub(super) fn count(app: &App, reader: Option<Reader>, answer: Answer) -> Answer {
    let Some(Reader { client, is_read, is_urgent }) = reader else { return answer };
    let status = answer.response.status();
    let is_without_effect =
        status.is_client_error() || is_read && status.is_success() && answer.undelivered.is_none();
    if !is_without_effect {
        return answer;
    }
    let n_bytes = answer.response.body().size_hint().exact().unwrap_or_default();
    let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX);
    match app.answers.whole(&client, n_bytes, is_urgent) {
        Ok(sending) => Answer { sending, ..answer },
        Err(too_much) => refuse(too_much.is_own, &too_much.to_string()).into(),
    }
}

fn refuse(is_own: bool, why: &str) -> Response {
    let (status, code) = match is_own {
        true => (StatusCode::TOO_MANY_REQUESTS, Code::LimitReached),
        false => (StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded),
    };
    let mut response = app::failure(status, code, why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    protection::add(response.headers_mut());
    response
}
