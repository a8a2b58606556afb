//! Error responses: converts errors of the engine and rejections of the core to a status and a body.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_api::{Code, Failure};
use leasehold_auth::Denied;
use leasehold_core::{Ending, Exceeded, Limit, Rejection};
use leasehold_engine as engine;

use crate::content;
use crate::dialect::limit::{self, Met};
use crate::dialect::rejection::in_words;
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;

/// An error response of this dialect.
#[derive(Debug)]
pub(in crate::dialect) struct Refusal {
    status: StatusCode,
    failure: Failure,
}

impl Refusal {
    pub(in crate::dialect) fn new(status: StatusCode, code: Code, why: impl Into<String>) -> Self {
        Self { status, failure: Failure::new(code, why) }
    }

    /// Returns the error for a request body that did not arrive in time.
    pub(in crate::dialect) fn late() -> Self {
        let why = "the body stopped arriving; nothing was changed";
        Self::new(StatusCode::REQUEST_TIMEOUT, Code::Timeout, why)
    }

    /// Returns the error for a request body that ended early.
    pub(in crate::dialect) fn broken_off() -> Self {
        Self::invalid("the body broke off; nothing was changed")
    }

    /// Returns the error for an invalid request.
    pub(in crate::dialect) fn invalid(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidRequest, why)
    }

    /// Adds to the message which of several locks the error is about.
    pub(super) fn of_member(mut self, n: usize) -> Self {
        self.failure.error = format!("locks[{n}]: {}", self.failure.error);
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

    /// Replaces the message.
    pub(in crate::dialect) fn saying(mut self, why: String) -> Self {
        self.failure.error = why;
        self
    }

    /// Returns the error for an exceeded limit. `field` is the dialect's name for the limited value.
    pub(in crate::dialect) fn limited(exceeded: Exceeded, field: &str) -> Self {
        of_limit(exceeded, field)
    }

    /// Returns the status, the message and whether a retry can succeed, for dialects with another error format.
    pub(in crate::dialect) fn into_parts(self) -> (StatusCode, String, bool) {
        (self.status, self.failure.error, self.failure.retryable)
    }

    /// Returns the error for a valid request that failed in the server.
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, why)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let is_retryable = self.failure.retryable;
        let mut response = (self.status, Json(self.failure)).into_response();
        if is_retryable {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<BadBody> for Refusal {
    fn from(bad: BadBody) -> Self {
        let code = match &bad {
            BadBody::NotJson(_) => Code::UnsupportedMediaType,
            BadBody::TooLarge(_) => Code::BodyTooLarge,
            BadBody::Late(_) => Code::Timeout,
            BadBody::Syntax(_) => Code::InvalidJson,
            BadBody::Malformed | BadBody::Field(_) => Code::InvalidRequest,
        };
        Self::new(bad.status(), code, bad.to_string())
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let code = match denied {
            Denied::Unauthenticated(_) => Code::Unauthenticated,
            Denied::Forbidden(_) => Code::Forbidden,
            Denied::Origin(_) => Code::OriginNotAllowed,
            Denied::TooOften(..) => Code::LimitReached,
            Denied::Unavailable(_) => Code::Busy,
        };
        Self::new(denied.status(), code, denied.to_string())
    }
}

impl From<TooMuch> for Refusal {
    fn from(too_much: TooMuch) -> Self {
        let (status, code) = match too_much.is_own {
            true => (StatusCode::TOO_MANY_REQUESTS, Code::LimitReached),
            false => (StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded),
        };
        Self::new(status, code, too_much.to_string())
    }
}

impl From<engine::Error> for Refusal {
    fn from(error: engine::Error) -> Self {
        let code = match error {
            engine::Error::Busy | engine::Error::StoreSilent | engine::Error::NotLeading => {
                Code::Busy
            }
            engine::Error::Overloaded => Code::Overloaded,
            engine::Error::JournalFull
            | engine::Error::DiskFull
            | engine::Error::StoreFull
            | engine::Error::StoreAlarmed => Code::JournalFull,
            engine::Error::AuditFailed => Code::AuditFailed,
            engine::Error::Stopping => Code::ShuttingDown,
            engine::Error::Unknown => Code::Unknown,
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, error.to_string())
    }
}

/// For dialects that store content and use this error format.
impl From<content::Error> for Refusal {
    fn from(error: content::Error) -> Self {
        let why = error.to_string();
        match error {
            content::Error::Full
            | content::Error::TooMany
            | content::Error::OverQuota { .. }
            | content::Error::DiskLow { .. } => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, Code::LimitReached, why)
            }
            content::Error::NoFiles | content::Error::TooManyUploads { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded, why)
            }
            content::Error::Missing => Self::new(StatusCode::NOT_FOUND, Code::NotFound, why),
            content::Error::Unknown => engine::Error::Unknown.into(),
            content::Error::IsFolder
            | content::Error::NotFolder
            | content::Error::NotEmpty
            | content::Error::Special
            | content::Error::TooDeep { .. }
            | content::Error::Denied
            | content::Error::Changed
            | content::Error::Broken(_) => {
                tracing::error!(%why, "content could not be used");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, why)
            }
        }
    }
}

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
            | Rejection::StillWaiting => {
                conflict(Code::InvalidRequest, in_words(&rejection).into())
            }
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
    match limit::met(exceeded) {
        Met::Request(why) => Refusal::invalid(format!("{field}: {why}")),
        Met::Room(why) => Refusal::new(StatusCode::TOO_MANY_REQUESTS, Code::LimitReached, why),
    }
}
