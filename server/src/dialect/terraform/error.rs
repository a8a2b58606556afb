//! From every kind of "no" to a status and a body. Of a lock that somebody has, the body is what Terraform reads.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_api::Code;
use leasehold_auth::Denied;
use leasehold_core::{Limit, Rejection};

use super::info::LockInfo;
use crate::content::{self, Unreceived};
use crate::dialect::{basic, native};
use crate::engine;
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;

/// An error answer of this dialect.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Somebody else has the lock.
    Locked(StatusCode, Box<LockInfo>),
    /// Anything else, as the native dialect says it.
    Plain(native::Refusal),
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: Code, why: impl Into<String>) -> Self {
        Self::Plain(native::Refusal::new(status, code, why))
    }

    /// The request makes no sense.
    pub(super) fn invalid(why: impl Into<String>) -> Self {
        Self::Plain(native::Refusal::invalid(why))
    }

    /// There is no such state, or no such version of it.
    pub(super) fn missing(why: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, why)
    }

    /// The lock was lost, and nobody else has it.
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

/// What the native dialect knows to say.
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
