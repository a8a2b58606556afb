//! Why a request failed, the same for all dialects: each only renders it in its own format.
//!
//! The kind of a failure decides whether a retry can succeed and whether the request might have taken effect, as in the
//! native protocol. Refusals that only one protocol knows, such as a claim in the wrong state, stay in its folder.

mod retry;
#[cfg(test)]
pub(super) mod tests;

use axum::http::StatusCode;
use leasehold_api::Code;
use leasehold_auth::Denied;
use leasehold_core::{Exceeded, Rejection};
use leasehold_engine as engine;

pub(super) use retry::Retry;

use super::grip::Obstacle;
use super::limit::{self, Met};
use super::rejection::in_words;
use crate::content::{self, Unreceived};
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;

/// A failed request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestFailure {
    pub(super) status: StatusCode,
    pub(super) code: Code,
    /// What is wrong.
    pub(super) text: String,
}

/// Whether the request changed anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    /// It changed nothing.
    Nothing,
    /// It might have taken effect.
    Unknown,
}

impl RequestFailure {
    pub(super) fn new(status: StatusCode, code: Code, text: impl Into<String>) -> Self {
        Self { status, code, text: text.into() }
    }

    /// The request is invalid.
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidRequest, text)
    }

    /// The request conflicts with the state of a lock or a file.
    pub(super) fn conflict(text: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, Code::InvalidRequest, text)
    }

    /// Returns whether the same request can succeed later.
    pub(super) fn is_retryable(&self) -> bool {
        self.code.is_retryable()
    }

    pub(super) fn effect(&self) -> Effect {
        if self.code.may_have_taken_effect() { Effect::Unknown } else { Effect::Nothing }
    }

    /// Replaces what the client is told to do if the request might have taken effect. By default, it repeats the
    /// request with the same request id, which not all protocols have.
    pub(super) fn advising(mut self, advice: &str) -> Self {
        if self.effect() == Effect::Unknown {
            self.text = format!("the request might have taken effect; {advice}");
        }
        self
    }

    /// A limit of the server is exceeded. `field` is the protocol's name for the limited value, with what follows it.
    pub(super) fn limited(exceeded: Exceeded, field: &str) -> Self {
        match limit::met(exceeded) {
            Met::Request(why) => Self::invalid(format!("{field}: {why}")),
            Met::Room(why) => Self::new(StatusCode::TOO_MANY_REQUESTS, Code::LimitReached, why),
        }
    }

    /// Content did not arrive. `what` is what was sent, and `setting` limits its size.
    pub(super) fn unreceived(why: Unreceived, what: &str, setting: &str) -> Self {
        match why {
            Unreceived::TooLarge(bytes_max) => Self::too_large(bytes_max, what, setting),
            Unreceived::Late => {
                let text = "the body stopped arriving; nothing was changed";
                Self::new(StatusCode::REQUEST_TIMEOUT, Code::Timeout, text)
            }
            Unreceived::Broken => Self::invalid("the body broke off; nothing was changed"),
            Unreceived::Content(error) => error.into(),
        }
    }

    /// Content is too large. `what` is what was sent, and `setting` limits its size.
    pub(super) fn too_large(bytes_max: u64, what: &str, setting: &str) -> Self {
        let text = format!("{what} can have at most {bytes_max} bytes ({setting})");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Code::BodyTooLarge, text)
    }

    /// Content that the server keeps under names of its own could not be used. It consists of plain files, so anything
    /// else at their paths is an error of the server.
    pub(super) fn of_kept(error: content::Error) -> Self {
        match error {
            content::Error::IsFolder
            | content::Error::NotFolder
            | content::Error::NotEmpty
            | content::Error::Special
            | content::Error::TooDeep { .. }
            | content::Error::Denied
            | content::Error::Changed
            | content::Error::Broken(_) => {
                let why = error.to_string();
                tracing::error!(%why, "content could not be used");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, why)
            }
            known => known.into(),
        }
    }
}

impl From<BadBody> for RequestFailure {
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

impl From<Denied> for RequestFailure {
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

impl From<TooMuch> for RequestFailure {
    fn from(too_much: TooMuch) -> Self {
        let (status, code) = match too_much.is_own {
            true => (StatusCode::TOO_MANY_REQUESTS, Code::LimitReached),
            false => (StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded),
        };
        Self::new(status, code, too_much.to_string())
    }
}

impl From<engine::Error> for RequestFailure {
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

/// For files whose paths clients choose.
impl From<content::Error> for RequestFailure {
    fn from(error: content::Error) -> Self {
        let why = error.to_string();
        match error {
            content::Error::Missing => Self::new(StatusCode::NOT_FOUND, Code::NotFound, why),
            content::Error::IsFolder
            | content::Error::NotFolder
            | content::Error::NotEmpty
            | content::Error::Changed
            | content::Error::Special => Self::conflict(why),
            content::Error::Denied => Self::new(StatusCode::FORBIDDEN, Code::Forbidden, why),
            content::Error::TooDeep { .. } => Self::invalid(why),
            content::Error::Full
            | content::Error::TooMany
            | content::Error::OverQuota { .. }
            | content::Error::DiskLow { .. } => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, Code::LimitReached, why)
            }
            content::Error::NoFiles | content::Error::TooManyUploads { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded, why)
            }
            content::Error::Broken(error) => {
                tracing::error!(%error, "a file could not be used");
                let why = "the file could not be read or written";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, why)
            }
            content::Error::Unknown => engine::Error::Unknown.into(),
        }
    }
}

/// For rejections that have no response of their own in the protocol.
impl From<Rejection> for RequestFailure {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Limit(exceeded) => Self::limited(exceeded, "the request is out of bounds"),
            Rejection::Maintenance => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                Code::Maintenance,
                "the server is in maintenance: no lock can be acquired",
            ),
            Rejection::TokensExhausted => {
                Self::new(StatusCode::CONFLICT, Code::LimitReached, in_words(&rejection))
            }
            other => Self::conflict(in_words(&other)),
        }
    }
}

/// For dialects that do not name the holder of the lock.
impl From<Obstacle> for RequestFailure {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Rejected(rejection) => rejection.into(),
            Obstacle::Denied(denied) => denied.into(),
            Obstacle::Engine(error) => error.into(),
            Obstacle::Held(_) | Obstacle::Grace { .. } => Self::conflict("the file is locked"),
            told @ Obstacle::TooDeep { .. } => Self::invalid(told.in_words()),
            told @ Obstacle::Full { .. } => {
                let text = told.in_words();
                Self::new(StatusCode::TOO_MANY_REQUESTS, Code::LimitReached, text)
            }
        }
    }
}

/// Makes these errors failures, which the dialect's error type renders.
macro_rules! rendered {
    ($refusal:ty: $($why:ty),*) => {$(
        impl From<$why> for $refusal {
            fn from(why: $why) -> Self {
                $crate::failure::RequestFailure::from(why).into()
            }
        }
    )*};
}
pub(super) use rendered;
