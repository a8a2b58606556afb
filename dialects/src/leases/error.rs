//! Error responses: renders a failure as a status and a body, and adds the errors that only this protocol has.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_api as api;
use leasehold_auth::Denied;
use leasehold_core::{Ending, Exceeded, Limit, Rejection};
use leasehold_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::wire;
use crate::app::App;
use crate::failure::{RequestFailure, Retry, rendered};
use crate::http::body::BadBody;
use crate::http::request;
use crate::limit::{self, Met};

/// An error response of this dialect. Its body contains the server time, so [`write`] adds the body when the response
/// leaves the handler.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    code: Code,
    message: String,
}

/// The body of an error response. It has exactly these members.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct Failure {
    code: Code,
    message: String,
    status: u16,
    server_time: String,
}

/// What kind of error it is.
#[derive(Clone, Copy, Serialize, JsonSchema, Debug)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Code {
    /// A field is missing, unknown, of the wrong type or out of bounds, or the method is not allowed for this path.
    InvalidRequest,
    /// `ttl_seconds` is not a whole number, or is out of bounds.
    InvalidTtl,
    /// The body is not JSON, or the Content-Type is not application/json.
    InvalidJson,
    /// No credential was sent, or none that is known.
    OwnerTokenRequired,
    /// `owner_id` is not the owner that the request authenticates as.
    OwnerTokenMismatch,
    /// Only an admin is allowed to do this.
    Forbidden,
    /// The lease is not found, or ended too long ago to be known.
    LeaseNotFound,
    /// No such path.
    NotFound,
    /// The lock is held by another owner, or reserved for its last owner.
    LockHeld,
    /// The lease belongs to another owner.
    OwnerMismatch,
    /// The lease has expired.
    LeaseExpired,
    /// The lease has ended: released, expired or revoked.
    LeaseNotActive,
    /// The `request_id` was used for another request.
    RequestIdConflict,
    /// A limit of the server is reached; the message names it.
    LimitReached,
    /// An internal error.
    InternalError,
    /// The server is temporarily unavailable; repeat the same request.
    Unavailable,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// Returns the error for an invalid request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidRequest, message)
    }

    /// Returns the error for a rejection that requests of this dialect cannot cause, so it is a bug in the server.
    fn internal(what: &str) -> Self {
        let why = format!("internal error: {what}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, why)
    }

    /// Returns the error for an invalid TTL.
    pub(super) fn ttl(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidTtl, message)
    }

    /// Converts the rejection of an acquire. If the request repeats one whose lease has ended, the code is
    /// `LEASE_NOT_ACTIVE`, however the lease ended.
    pub(super) fn of_acquire(rejection: Rejection) -> Self {
        match rejection {
            Rejection::RequestSpent(how) => not_active(how, "the lease of this request_id"),
            other => other.into(),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// Adds the body to an error response. Other responses already have one.
pub(super) async fn write(State(app): State<App>, response: Response) -> Response {
    written(&app, response)
}

pub(super) fn written(app: &App, mut response: Response) -> Response {
    let Some(Refusal { status, code, message }) = response.extensions_mut().remove() else {
        return response;
    };
    let server_time = wire::server_time(app);
    let failure = Failure { code, message, status: status.as_u16(), server_time };
    let (parts, body) = Json(failure).into_response().into_parts();
    *response.body_mut() = body;
    response.headers_mut().extend(parts.headers);
    Retry::by_status(status).add_to(response.headers_mut());
    response
}

pub(super) async fn nothing_here() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, Code::NotFound, "no such path")
}

pub(super) async fn wrong_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, Code::InvalidRequest, request::NOT_ALLOWED)
}

impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        let code = match failure.code {
            api::Code::InvalidJson | api::Code::UnsupportedMediaType => Code::InvalidJson,
            api::Code::Unauthenticated => Code::OwnerTokenRequired,
            api::Code::Forbidden | api::Code::OriginNotAllowed => Code::Forbidden,
            api::Code::LimitReached => Code::LimitReached,
            api::Code::NotFound => Code::NotFound,
            api::Code::Internal => Code::InternalError,
            _ if failure.status == StatusCode::SERVICE_UNAVAILABLE => Code::Unavailable,
            _ => Code::InvalidRequest,
        };
        Self::new(failure.status, code, failure.text)
    }
}

// After any engine error, the client can repeat the request with the same `request_id`.
rendered!(Refusal: BadBody, Denied, engine::Error);

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        let conflict = |code, why: &str| Self::new(StatusCode::CONFLICT, code, why);
        match rejection {
            Rejection::Held(_) | Rejection::QueueFull { .. } | Rejection::LimitDiffers { .. } => {
                conflict(Code::LockHeld, "the lock is held by another owner")
            }
            Rejection::Grace { .. } => {
                conflict(Code::LockHeld, "the lock is reserved for its last owner")
            }
            Rejection::NoSuchLease => {
                let why = "lease not found, or ended too long ago";
                Self::new(StatusCode::NOT_FOUND, Code::LeaseNotFound, why)
            }
            Rejection::NotOwner => {
                conflict(Code::OwnerMismatch, "the lease belongs to another owner")
            }
            Rejection::Ended(Ending::Expired) | Rejection::RequestSpent(Ending::Expired) => {
                conflict(Code::LeaseExpired, "the lease has expired")
            }
            Rejection::Ended(how) | Rejection::RequestSpent(how) => not_active(how, "the lease"),
            Rejection::StillWaiting => conflict(Code::LeaseNotActive, "the lease is still waiting"),
            Rejection::RequestConflict => {
                conflict(Code::RequestIdConflict, "request_id was used for another request")
            }
            Rejection::Limit(exceeded) => of_limit(exceeded),
            Rejection::Maintenance => RequestFailure::from(rejection).into(),
            Rejection::TokensExhausted => conflict(
                Code::LimitReached,
                "this lock has used every fencing token there is; use another lock name",
            ),
            // This dialect has no sessions, and no requests for several locks.
            Rejection::NoSuchSession => Self::internal("a session is not possible here"),
            Rejection::Member { .. } | Rejection::Repeated { .. } => {
                Self::internal("several locks are not possible here")
            }
        }
    }
}

fn not_active(how: Ending, what: &str) -> Refusal {
    let how = match how {
        Ending::Released => "been released",
        Ending::Expired => "expired",
        Ending::Revoked => "been released by force",
    };
    Refusal::new(StatusCode::CONFLICT, Code::LeaseNotActive, format!("{what} has {how}"))
}

fn of_limit(exceeded: Exceeded) -> Refusal {
    let invalid = |field: &str, why: String| Refusal::invalid(format!("{field}: {why}"));
    match (exceeded.limit, limit::met(exceeded)) {
        (Limit::Namespace, Met::Request(why)) => invalid("tenant_id", why),
        (Limit::Name, Met::Request(why)) => invalid("lock_key", why),
        (Limit::Owner, Met::Request(why)) => invalid("owner_id", why),
        (Limit::RequestId, Met::Request(why)) => invalid("request_id", why),
        (Limit::Reason, Met::Request(why)) => invalid("reason", why),
        (Limit::Ttl, Met::Request(why)) => Refusal::ttl(format!("ttl_seconds: {why}")),
        _ => RequestFailure::from(Rejection::Limit(exceeded)).into(),
    }
}
