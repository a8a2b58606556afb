//! Error responses: renders a failure as a status and a body, and adds the errors that only this protocol has.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Denied;
use leasehold_core::Rejection;
use leasehold_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::wire::Locked;
use crate::content::{self, NoPath, Unreceived};
use crate::failure::{RequestFailure, Retry, rendered};
use crate::grip::Obstacle;
use crate::http::answers::TooMuch;

const BAD_SESSION: &str = "Invalid session";

/// An error response of this dialect.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The file is locked by another holder.
    Locked(Box<Locked>),
    /// Anything else.
    Plain { status: StatusCode, error: String, message: String },
}

/// An error: a short title and an explanation.
#[derive(Serialize, JsonSchema)]
pub(super) struct Failure {
    error: String,
    message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: &str, message: impl Into<String>) -> Self {
        Self::Plain { status, error: error.into(), message: message.into() }
    }

    /// Returns the error for an invalid request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "Bad request", message)
    }

    /// Returns the error for a request that needs a session and has none.
    pub(super) fn no_session() -> Self {
        let message = "a session is required; POST /auth/session opens one";
        Self::new(StatusCode::UNAUTHORIZED, "Authentication required", message)
    }

    /// Returns the error for a session that is not found or has ended.
    pub(super) fn bad_session() -> Self {
        let message = "session not found, or ended";
        Self::new(StatusCode::UNAUTHORIZED, BAD_SESSION, message)
    }

    /// Returns whether the error is that the session is not found or has ended.
    pub(super) fn is_bad_session(&self) -> bool {
        matches!(self, Self::Plain { error, .. } if error == BAD_SESSION)
    }

    /// Returns the error for a file or folder that does not exist.
    pub(super) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found", "there is no such file or folder")
    }

    /// Returns the error for a lock that this session does not hold.
    pub(super) fn no_lock() -> Self {
        let error = "No lock found or not owned by this session";
        Self::new(StatusCode::NOT_FOUND, error, "nothing was changed")
    }

    /// Returns the error for a condition of the request that does not hold.
    pub(super) fn precondition() -> Self {
        let message = "If-Match or If-None-Match does not hold for this file; nothing was changed";
        Self::new(StatusCode::PRECONDITION_FAILED, "Precondition failed", message)
    }

    /// Returns the error for a range that begins after the end of the file.
    pub(super) fn beyond(size: u64) -> Self {
        let message = format!("the file has {size} bytes");
        Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "No such range", message)
    }

    /// Returns the error for a body that is larger than the maximum file size.
    pub(super) fn too_large(bytes_max: u64) -> Self {
        RequestFailure::too_large(bytes_max, "a file", "files-bytes-max").into()
    }

    /// Returns the error for a file that was removed after the request began.
    pub(super) fn removed_in_the_meantime() -> Self {
        RequestFailure::conflict(
            "the file was removed in the meantime; nothing was changed, repeat the request",
        )
        .into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, body) = match self {
            Refusal::Locked(locked) => (StatusCode::LOCKED, Json(*locked).into_response()),
            Refusal::Plain { status, error, message } => {
                (status, Json(Failure { error, message }).into_response())
            }
        };
        let mut response = (status, [(header::CACHE_CONTROL, "no-store")], body).into_response();
        let headers = response.headers_mut();
        Retry::by_status(status).add_to(headers);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<NoPath> for Refusal {
    fn from(why: NoPath) -> Self {
        match why {
            NoPath::Reserved => Self::new(StatusCode::NOT_FOUND, "Not found", "no such path"),
            NoPath::Bad(message) => Self::invalid(message),
        }
    }
}

impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        let RequestFailure { status, text, .. } =
            failure.advising("read the file before repeating it");
        Self::new(status, title(status), text)
    }
}

/// Returns the title of a failure that has no title of its own.
fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::BAD_REQUEST => "Bad request",
        StatusCode::UNAUTHORIZED => "Authentication required",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::REQUEST_TIMEOUT => "Timeout",
        StatusCode::CONFLICT => "Conflict",
        StatusCode::PAYLOAD_TOO_LARGE => "Too large",
        StatusCode::TOO_MANY_REQUESTS => "Too many",
        StatusCode::INSUFFICIENT_STORAGE => "Insufficient storage",
        StatusCode::SERVICE_UNAVAILABLE => "Unavailable",
        _ => "Storage failed",
    }
}

rendered!(Refusal: Denied, TooMuch, engine::Error, content::Error);

/// Converts obstacles to errors that do not name the holder of the lock.
impl From<Obstacle> for Refusal {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Rejected(rejection) => rejection.into(),
            other => RequestFailure::from(other).into(),
        }
    }
}

impl From<Unreceived> for Refusal {
    fn from(why: Unreceived) -> Self {
        RequestFailure::unreceived(why, "a file", "files-bytes-max").into()
    }
}

/// Converts rejections that do not name the holder of the lock.
impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::NoSuchSession => Self::bad_session(),
            Rejection::NotOwner | Rejection::NoSuchLease | Rejection::Ended(_) => Self::no_lock(),
            other => RequestFailure::from(other).into(),
        }
    }
}
