//! Error responses: renders a failure as a status and a body, and adds the errors that only this protocol has.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_auth::Denied;
use leasehold_core::{Exceeded, Limit, Rejection};
use leasehold_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::wire;
use crate::failure::{RequestFailure, Retry, rendered};
use crate::limit::{self, Met};

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
        Retry::by_status(self.status).add_to(response.headers_mut());
        response
    }
}

/// There are no request ids, and none are needed: a repeated acquire renews the lease.
impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        let RequestFailure { status, text, .. } = failure.advising("ask again");
        Self::new(status, text)
    }
}

rendered!(Refusal: Denied, engine::Error);

/// For rejections that have no dedicated response in the protocol.
impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::NotOwner | Rejection::NoSuchLease | Rejection::Ended(_) => {
                Self::not_holder()
            }
            Rejection::Limit(exceeded) => of_limit(exceeded),
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
            | Rejection::NoSuchSession
            | Rejection::Maintenance => RequestFailure::from(rejection).into(),
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
        _ => RequestFailure::from(Rejection::Limit(exceeded)).into(),
    }
}
