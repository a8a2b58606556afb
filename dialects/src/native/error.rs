//! Error responses: renders a failure as a status and a body, and adds the codes that only this protocol has.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_api::{self as api, Code};
use leasehold_auth::Denied;
use leasehold_core::{Ending, Exceeded, Limit, Rejection};
use leasehold_engine as engine;

use crate::failure::{RequestFailure, Retry, rendered};
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;

/// An error response of this dialect.
#[derive(Debug)]
pub(crate) struct Refusal(RequestFailure);

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: Code, why: impl Into<String>) -> Self {
        Self(RequestFailure::new(status, code, why))
    }

    /// Returns the error for an invalid request.
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self(RequestFailure::invalid(why))
    }

    /// Returns the failure, for dialects with another error format.
    pub(crate) fn into_failure(self) -> RequestFailure {
        self.0
    }

    /// Adds to the message which of several locks the error is about.
    pub(super) fn of_member(mut self, n: usize) -> Self {
        self.0.text = format!("locks[{n}]: {}", self.0.text);
        self
    }

    /// Converts the rejection of a renewal, where the field with the TTL is called `extend_by_ms`.
    pub(super) fn of_renewal(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Limit(exceeded) if exceeded.limit == Limit::Ttl => {
                of_limit(exceeded, "extend_by_ms")
            }
            other => other.into(),
        }
    }

    /// Returns the error for a valid request that failed in the server.
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, why)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let RequestFailure { status, code, text } = self.0;
        let failure = api::Failure::new(code, text);
        let retry = Retry(failure.retryable);
        let mut response = (status, Json(failure)).into_response();
        retry.add_to(response.headers_mut());
        response
    }
}

impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        Self(failure)
    }
}

rendered!(Refusal: BadBody, Denied, TooMuch, engine::Error);

/// For rejections that have no dedicated response in the protocol.
impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        let conflict = |code, why: String| Self::new(StatusCode::CONFLICT, code, why);
        match rejection {
            Rejection::LimitDiffers { limit } => conflict(
                Code::LimitDiffers,
                format!("limit: the holders or waiters of this lock use limit {limit}"),
            ),
            Rejection::RequestConflict => {
                conflict(Code::RequestIdConflict, "request_id was used for another request".into())
            }
            Rejection::RequestSpent(how) => conflict(
                Code::RequestIdSpent,
                format!("request_id was used for this before, and its lease has {}", word(how)),
            ),
            Rejection::NoSuchSession => Self::new(
                StatusCode::NOT_FOUND,
                Code::NoSuchSession,
                "session_id: session not found, or ended",
            ),
            Rejection::Limit(exceeded) => of_limit(exceeded, field(exceeded.limit)),
            Rejection::TokensExhausted => conflict(
                Code::LimitReached,
                "this lock has used every fencing token there is; use another lock name".into(),
            ),
            Rejection::Maintenance => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                Code::Maintenance,
                "the server is in maintenance: locks can be renewed and released, not acquired",
            ),
            Rejection::Repeated { n } => Self::invalid(format!(
                "locks[{n}].lock_name: this lock is named twice in the request"
            )),
            Rejection::Member { n, why } => Self::from(*why).of_member(n),
            Rejection::Held(_)
            | Rejection::Grace { .. }
            | Rejection::QueueFull { .. }
            | Rejection::NoSuchLease
            | Rejection::NotOwner
            | Rejection::Ended(_)
            | Rejection::StillWaiting => RequestFailure::from(rejection).into(),
        }
    }
}

fn word(how: Ending) -> &'static str {
    match how {
        Ending::Released => "been released",
        Ending::Expired => "expired",
        Ending::Revoked => "been revoked",
    }
}

fn field(limit: Limit) -> &'static str {
    match limit {
        Limit::Namespace => "namespace",
        Limit::Name => "lock name",
        Limit::Owner => "owner_id",
        Limit::RequestId => "request_id",
        Limit::Metadata => "metadata",
        Limit::Reason => "reason",
        Limit::Grace => "grace_ms",
        Limit::Wait => "wait_ms",
        Limit::Holders => "limit",
        Limit::Group => "locks or leases",
        _ => "ttl_ms",
    }
}

fn of_limit(exceeded: Exceeded, field: &str) -> Refusal {
    RequestFailure::limited(exceeded, field).into()
}
