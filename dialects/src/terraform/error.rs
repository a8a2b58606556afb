//! Error responses: converts all errors to a status and a body. If the state is locked, the body is the lock info that
//! Terraform reads.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_api::Code;
use leasehold_auth::Denied;
use leasehold_core::{Limit, Rejection};
use leasehold_engine as engine;

use super::info::LockInfo;
use crate::content::{self, Unreceived};
use crate::{basic, native};
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;

/// An error response of this dialect.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The state is locked by another holder.
    Locked(StatusCode, Box<LockInfo>),
    /// Any other error, in the native dialect's format.
    Plain(native::Refusal),
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: Code, why: impl Into<String>) -> Self {
        Self::Plain(native::Refusal::new(status, code, why))
    }

    /// Returns the error for an invalid request.
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self::Plain(native::Refusal::invalid(why))
    }

    /// Returns the error for a state or a version that does not exist.
    pub(super) fn missing(why: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, why)
    }

    /// Returns the error for a lock that was lost and has no new holder.
    pub(super) fn lost() -> Self {
        let why =
            "the lock of this state was lost (released, revoked or expired); nothing was written";
        Self::new(StatusCode::CONFLICT, Code::InvalidRequest, why)
    }

    pub(super) fn too_large(bytes_max: u64) -> Self {
        let why = format!("a state can have at most {bytes_max} bytes (terraform-state-bytes-max)");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Code::BodyTooLarge, why)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Refusal::Locked(status, info) => (status, Json(*info)).into_response(),
            Refusal::Plain(refusal) => refusal.into_response(),
        }
    }
}

/// Converts errors for which the native dialect's response fits.
macro_rules! plain {
    ($($why:ty),*) => {$(
        impl From<$why> for Refusal {
            fn from(why: $why) -> Self {
                Self::Plain(why.into())
            }
        }
    )*};
}

plain!(engine::Error, BadBody, TooMuch);

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let why = basic::in_words(&denied);
        Self::Plain(native::Refusal::from(denied).saying(why))
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Self::Plain(match rejection {
            Rejection::Limit(exceeded) => {
                let field = match exceeded.limit {
                    Limit::Name => "the name of the state",
                    Limit::Owner => "ID",
                    Limit::Metadata => "LockInfo",
                    _ => "the lock",
                };
                native::Refusal::limited(exceeded, field)
            }
            other => other.into(),
        })
    }
}

impl From<content::Error> for Refusal {
    fn from(error: content::Error) -> Self {
        match error {
            content::Error::Missing => Self::missing("there is no such state"),
            error => Self::Plain(error.into()),
        }
    }
}

impl From<Unreceived> for Refusal {
    fn from(why: Unreceived) -> Self {
        match why {
            Unreceived::TooLarge(bytes_max) => Self::too_large(bytes_max),
            Unreceived::Late => Self::Plain(native::Refusal::late()),
            Unreceived::Broken => Self::Plain(native::Refusal::broken_off()),
            Unreceived::Content(error) => error.into(),
        }
    }
}
