//! Error responses: converts errors of the engine and rejections of the core to a status and a body.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Denied;
use leasehold_core::{Exceeded, Limit, Rejection};
use leasehold_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::wire;
use crate::dialect::limit::{self, Met};
use crate::dialect::rejection::in_words;

/// An error response of this dialect.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: String,
}

/// An error message.
#[derive(Serialize, JsonSchema)]
pub(super) struct Failure {
    error: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    /// Returns the error for an invalid request.
    pub(super) fn invalid(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// Returns the error for a client that cannot release the lock. Only the holder can, and in a grace period the last
    /// holder.
    pub(super) fn not_holder() -> Self {
        Self::new(StatusCode::FORBIDDEN, "client does not hold the lock")
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = wire::answer(self.status, Failure { error: self.error });
        let worth_retrying = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
        if worth_retrying.contains(&self.status) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::new(denied.status(), denied.to_string())
    }
}

impl From<engine::Error> for Refusal {
    fn from(error: engine::Error) -> Self {
        let why = match error {
            // There are no request ids, and none are needed: a repeated acquire renews the lease.
            engine::Error::Unknown => "the request might have taken effect; repeat it".into(),
            known => known.to_string(),
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }
}

/// For rejections that have no dedicated response in the protocol.
impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::NotOwner | Rejection::NoSuchLease | Rejection::Ended(_) => {
                Self::not_holder()
            }
            Rejection::Limit(exceeded) => of_limit(exceeded),
            Rejection::Maintenance => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the server is in maintenance: no lock can be acquired",
            ),
            Rejection::TokensExhausted => Self::new(
                StatusCode::CONFLICT,
                "this lock has used every fencing token there is; use another job",
            ),
            Rejection::Held(_)
            | Rejection::Grace { .. }
            | Rejection::QueueFull { .. }
            | Rejection::LimitDiffers { .. }
            | Rejection::Member { .. }
            | Rejection::Repeated { .. }
            | Rejection::RequestConflict
            | Rejection::RequestSpent(_)
            | Rejection::StillWaiting
            | Rejection::NoSuchSession => Self::new(StatusCode::CONFLICT, in_words(&rejection)),
        }
    }
}

fn of_limit(exceeded: Exceeded) -> Refusal {
    // Only the server's settings decide these, so the operator must fix them.
    let misconfigured = |why: &str| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why);
    match (exceeded.limit, limit::met(exceeded)) {
        (Limit::Ttl, Met::Request(why)) => Refusal::invalid(format!("ttl: {why}")),
        (Limit::Owner, Met::Request(why)) => Refusal::invalid(format!("client: {why}")),
        (Limit::Name, Met::Request(why)) => Refusal::invalid(format!("job: {why}")),
        (Limit::Grace, _) => misconfigured("the server's grace is longer than its grace-max"),
        (Limit::Namespace, _) => misconfigured("the server's lock-namespace is empty or too long"),
        (_, Met::Room(why)) => Refusal::new(StatusCode::TOO_MANY_REQUESTS, why),
        (_, Met::Request(why)) => Refusal::invalid(format!("the request is out of bounds: {why}")),
    }
}
