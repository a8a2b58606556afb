//! Error responses: renders a failure as a status and a message, which is all that git-lfs prints.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use leasehold_auth::Denied;
use leasehold_core::{Limit, Rejection};
use leasehold_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use super::wire::{self, LockShown};
use crate::content::{self, Unreceived};
use crate::failure::{RequestFailure, Retry, rendered};
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;
use crate::{basic, native};

/// What a client does after a request that might have taken effect. This protocol has no request ids.
const ADVICE: &str = "list the locks and objects before repeating it";
/// What clients send, and the setting that limits its size.
const OBJECT: &str = "an object";
const OBJECT_MAX: &str = "lfs-object-bytes-max";

/// Makes git-lfs ask for a user name and a password, which it then sends with every request.
const ASK: (&str, HeaderValue) =
    ("lfs-authenticate", HeaderValue::from_static("Basic realm=\"leasehold\""));

/// An error response of this dialect.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    failure: Box<Failure>,
    /// The client can repeat the request.
    is_passing: bool,
}

/// An error message.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Failure {
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<LockShown>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let failure = Box::new(Failure { message: message.into(), lock: None });
        Self { status, failure, is_passing: false }
    }

    /// Returns the error for an invalid request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Returns the error for a well-formed request that cannot be fulfilled.
    pub(super) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// Returns the error for a lock that is held by another owner.
    pub(super) fn locked(message: String, lock: Option<LockShown>) -> Self {
        let mut refusal = Self::new(StatusCode::CONFLICT, message);
        refusal.failure.lock = lock;
        refusal
    }

    pub(super) fn no_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no such path")
    }

    pub(super) fn no_lock(id: &str) -> Self {
        let id: String = id.chars().take(40).collect();
        Self::new(StatusCode::NOT_FOUND, format!("no lock has the id {id:?}"))
    }

    pub(super) fn no_object() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such object")
    }

    pub(super) fn too_large(bytes_max: u64) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, too_large(bytes_max))
    }

    /// Replaces status 401 with 403 in responses to transfers: on 401, git-lfs would repeat the request endlessly.
    pub(super) fn finally(mut self) -> Self {
        if self.status == StatusCode::UNAUTHORIZED {
            self.status = StatusCode::FORBIDDEN;
        }
        self
    }

    /// Returns the error of one object in the response to a batch.
    pub(super) fn of_object(self) -> wire::ObjectError {
        wire::ObjectError { code: self.status.as_u16(), message: self.failure.message }
    }
}

pub(super) fn too_large(bytes_max: u64) -> String {
    format!("an object can have at most {bytes_max} bytes (lfs-object-bytes-max)")
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = wire::answer(self.status, self.failure);
        let headers = response.headers_mut();
        Retry(self.is_passing).add_to(headers);
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(ASK.0, ASK.1);
        }
        response
    }
}

/// With the native dialect's messages.
impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        let failure = basic::explained(failure).advising(ADVICE);
        let is_passing = failure.is_retryable();
        Self { is_passing, ..Self::new(failure.status, failure.text) }
    }
}

rendered!(Refusal: Denied, TooMuch, engine::Error);

impl From<content::Error> for Refusal {
    fn from(error: content::Error) -> Self {
        RequestFailure::of_kept(error).into()
    }
}

impl From<BadBody> for Refusal {
    fn from(bad: BadBody) -> Self {
        let text = match &bad {
            BadBody::NotJson(kind) => format!("Content-Type must be {}, got {kind}", wire::KIND),
            other => other.to_string(),
        };
        RequestFailure { text, ..bad.into() }.into()
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Limit(exceeded) => {
                let field = match exceeded.limit {
                    Limit::Name => "path",
                    Limit::Owner => "the user name",
                    Limit::Metadata => "path and ref",
                    _ => "the lock",
                };
                RequestFailure::limited(exceeded, field).into()
            }
            other => native::Refusal::from(other).into_failure().into(),
        }
    }
}

impl From<Unreceived> for Refusal {
    fn from(why: Unreceived) -> Self {
        match why {
            Unreceived::Content(error) => error.into(),
            why => RequestFailure::unreceived(why, OBJECT, OBJECT_MAX).into(),
        }
    }
}
