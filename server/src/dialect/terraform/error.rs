//! From every kind of "no" to a status and a body. Of a lock that somebody has, the body is what Terraform reads.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_api::Code;
use leasehold_core::Rejection;

use super::info::LockInfo;
use crate::auth::Denied;
use crate::content::{self, Unreceived};
use crate::dialect::native;
use crate::engine;
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

plain!(Denied, engine::Error, Rejection, BadBody);

impl From<content::Error> for Refusal {
    fn from(error: content::Error) -> Self {
        let why = error.to_string();
        match error {
            content::Error::Full
            | content::Error::OverQuota { .. }
            | content::Error::DiskLow { .. } => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, Code::LimitReached, why)
            }
            content::Error::Missing => Self::missing("there is no such state"),
            content::Error::Unknown => engine::Error::Unknown.into(),
            content::Error::IsFolder
            | content::Error::NotFolder
            | content::Error::NotEmpty
            | content::Error::Broken(_) => {
                tracing::error!(%why, "a state could not be used");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, why)
            }
        }
    }
}

impl From<Unreceived> for Refusal {
    fn from(why: Unreceived) -> Self {
        match why {
            Unreceived::TooLarge(bytes_max) => Self::too_large(bytes_max),
            Unreceived::Late => {
                let why = "the body stopped coming; nothing was changed";
                Self::new(StatusCode::REQUEST_TIMEOUT, Code::Timeout, why)
            }
            Unreceived::Broken => Self::invalid("the body broke off; nothing was changed"),
            Unreceived::Content(error) => error.into(),
        }
    }
}
