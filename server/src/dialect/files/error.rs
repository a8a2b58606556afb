//! Error responses: converts all errors to a status and a body.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Denied;
use leasehold_core::{Exceeded, Rejection};
use leasehold_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::wire::Locked;
use crate::content::{self, NoPath, Unreceived};
use crate::dialect::grip::Obstacle;
use crate::dialect::limit::{self, Met};
use crate::dialect::rejection::in_words;
use crate::http::answers::TooMuch;

const BAD_SESSION: &str = "Invalid session";

/// An error response of this dialect.
#[derive(Debug)]
pub(in crate::dialect) enum Refusal {
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
        let message = format!("a file can have at most {bytes_max} bytes (files-bytes-max)");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "Too large", message)
    }

    /// Returns the error for content that cannot be stored for lack of space.
    fn no_room(message: String) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "Insufficient storage", message)
    }

    /// Returns the error for a file that was removed after the request began.
    pub(super) fn removed_meanwhile() -> Self {
        Self::conflict("the file was removed meanwhile; nothing was changed, repeat the request")
    }

    /// Returns the error for a request that conflicts with a lock or with the current files.
    fn conflict(message: &str) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message)
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
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
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

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let error = match denied {
            Denied::Unauthenticated(_) => "Authentication required",
            Denied::Forbidden(_) | Denied::Origin(_) => "Forbidden",
            Denied::TooOften(..) => "Too many",
            Denied::Unavailable(_) => "Unavailable",
        };
        Self::new(denied.status(), error, denied.to_string())
    }
}

impl From<TooMuch> for Refusal {
    fn from(too_much: TooMuch) -> Self {
        match too_much.is_own {
            true => Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many", too_much.to_string()),
            false => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", too_much.to_string())
            }
        }
    }
}

impl From<engine::Error> for Refusal {
    fn from(error: engine::Error) -> Self {
        let message = match error {
            engine::Error::Unknown => {
                "it is not known whether the request took effect; read the file before repeating it"
            }
            engine::Error::Busy => "another process holds the database; the request had no effect",
            engine::Error::Overloaded => {
                "too many requests are waiting (pending-max); the request had no effect"
            }
            engine::Error::JournalFull => {
                "the journal has reached journal-bytes-max; the request had no effect"
            }
            engine::Error::DiskFull => {
                "the server's disk is almost full (disk-free-min); the request had no effect"
            }
            engine::Error::StoreFull => {
                "the store has hardly any room left (etcd-quota); the request had no effect"
            }
            engine::Error::StoreAlarmed => {
                "the store has the alarm NOSPACE until it is disarmed on every member; the request had no effect"
            }
            engine::Error::StoreSilent => "the store does not answer; the request had no effect",
            engine::Error::AuditFailed => {
                "the audit file cannot be written (audit-failure); the request had no effect"
            }
            engine::Error::Stopping => "the server is stopping; the request had no effect",
            engine::Error::NotLeading => {
                "this server does not lead at present; the request had no effect"
            }
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", message)
    }
}

impl From<content::Error> for Refusal {
    fn from(error: content::Error) -> Self {
        let message = error.to_string();
        match error {
            content::Error::Missing => Self::missing(),
            content::Error::IsFolder
            | content::Error::NotFolder
            | content::Error::NotEmpty
            | content::Error::Changed
            | content::Error::Special => Self::conflict(&message),
            content::Error::Denied => Self::new(StatusCode::FORBIDDEN, "Forbidden", message),
            content::Error::TooDeep { .. } => Self::invalid(message),
            content::Error::Full
            | content::Error::TooMany
            | content::Error::OverQuota { .. }
            | content::Error::DiskLow { .. } => Self::no_room(message),
            content::Error::NoFiles | content::Error::TooManyUploads { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", message)
            }
            content::Error::Broken(error) => {
                tracing::error!(%error, "a file could not be used");
                let message = "the file could not be read or written";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Storage failed", message)
            }
            content::Error::Unknown => engine::Error::Unknown.into(),
        }
    }
}

impl From<Unreceived> for Refusal {
    fn from(why: Unreceived) -> Self {
        match why {
            Unreceived::TooLarge(bytes_max) => Self::too_large(bytes_max),
            Unreceived::Late => {
                let message = "the body stopped coming; nothing was changed";
                Self::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
            }
            Unreceived::Broken => Self::invalid("the body broke off; nothing was changed"),
            Unreceived::Content(error) => error.into(),
        }
    }
}

/// Converts rejections that do not name the holder of the lock.
impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::NoSuchSession => Self::bad_session(),
            Rejection::NotOwner | Rejection::NoSuchLease | Rejection::Ended(_) => Self::no_lock(),
            Rejection::Limit(exceeded) => of_limit(exceeded),
            Rejection::Maintenance => {
                let message = "the server is in maintenance: no lock can be acquired";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "Unavailable", message)
            }
            other => Self::conflict(in_words(&other)),
        }
    }
}

/// Converts obstacles to errors that do not name the holder of the lock.
impl From<Obstacle> for Refusal {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Rejected(rejection) => rejection.into(),
            Obstacle::Denied(denied) => denied.into(),
            Obstacle::Engine(error) => error.into(),
            Obstacle::Held(_) | Obstacle::Grace { .. } => Self::conflict("the file is locked"),
            told @ Obstacle::TooDeep { .. } => Self::invalid(told.in_words()),
            told @ Obstacle::Full { .. } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "Too many", told.in_words())
            }
        }
    }
}

fn of_limit(exceeded: Exceeded) -> Refusal {
    match limit::met(exceeded) {
        Met::Request(why) => Refusal::invalid(format!("the request is out of bounds: {why}")),
        Met::Room(why) => Refusal::new(StatusCode::TOO_MANY_REQUESTS, "Too many", why),
    }
}
