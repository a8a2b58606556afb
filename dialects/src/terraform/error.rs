//! Error responses: renders a failure as a status and a body. If the state is locked, the body is the lock info that
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
use crate::failure::{RequestFailure, rendered};
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;
use crate::{basic, native};

/// What a client does after a request that might have taken effect. This protocol has no request ids.
const ADVICE: &str = "look at the state before repeating it";
/// What clients send, and the setting that limits its size.
const STATE: &str = "a state";
const STATE_MAX: &str = "terraform-state-bytes-max";

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
        RequestFailure::too_large(bytes_max, STATE, STATE_MAX).into()
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

/// In the native dialect's format.
impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        Self::Plain(basic::explained(failure).advising(ADVICE).into())
    }
}

rendered!(Refusal: Denied, BadBody, TooMuch, engine::Error);

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Limit(exceeded) => {
                let field = match exceeded.limit {
                    Limit::Name => "the name of the state",
                    Limit::Owner => "ID",
                    Limit::Metadata => "LockInfo",
                    _ => "the lock",
                };
                RequestFailure::limited(exceeded, field).into()
            }
            other => Self::Plain(other.into()),
        }
    }
}

impl From<content::Error> for Refusal {
    fn from(error: content::Error) -> Self {
        match error {
            content::Error::Missing => Self::missing("there is no such state"),
            error => RequestFailure::of_kept(error).into(),
        }
    }
}

impl From<Unreceived> for Refusal {
    fn from(why: Unreceived) -> Self {
        match why {
            Unreceived::Content(error) => error.into(),
            why => RequestFailure::unreceived(why, STATE, STATE_MAX).into(),
        }
    }
}
