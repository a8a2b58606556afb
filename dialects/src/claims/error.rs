//! Error responses: renders a failure as a status and a body, and adds the errors that only this protocol has.

use std::collections::BTreeMap;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold_auth::Denied;
use leasehold_core::{Ending, Exceeded, Limit, Rejection};
use leasehold_engine as engine;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Dialect;
use crate::failure::{Effect, RequestFailure, Retry, rendered};
use crate::http::answers::TooMuch;
use crate::http::body::BadBody;
use crate::limit::{self, Met};
use crate::rejection::in_words;

/// An error response of this dialect.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    body: Body,
}

#[derive(Serialize, Debug)]
#[serde(untagged)]
enum Body {
    Message(Message),
    Faults(Faults),
    Conflict(Conflict),
}

/// An error message.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Message {
    message: String,
}

/// One member for each invalid parameter, with the reason; or `message`, if the error is not about a parameter.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Faults(BTreeMap<String, String>);

/// The claim or its resource is in the wrong state.
#[derive(Serialize, JsonSchema, Debug)]
pub(super) struct Conflict {
    message: String,
    /// The claim that holds the resource, if the holder is a claim.
    active_claim_id: Option<u64>,
}

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, body: Body::Message(Message { message: message.into() }) }
    }

    /// Returns the error for an invalid request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Returns the error for invalid parameters, with a reason for each.
    pub(super) fn parameters(faults: BTreeMap<String, String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, body: Body::Faults(Faults(faults)) }
    }

    /// Returns the error for one invalid parameter.
    pub(super) fn parameter(name: &str, why: impl Into<String>) -> Self {
        Self::parameters(BTreeMap::from([(name.into(), why.into())]))
    }

    pub(super) fn no_such_claim() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Claim not found")
    }

    /// Returns the error for a claim of another principal.
    pub(super) fn not_own() -> Self {
        Self::new(StatusCode::FORBIDDEN, "The claim was made by another principal")
    }

    /// Returns the error for a claim or resource in the wrong state; `active_claim_id` is the claim that holds the
    /// resource.
    pub(super) fn conflict(message: impl Into<String>, active_claim_id: Option<u64>) -> Self {
        let body = Body::Conflict(Conflict { message: message.into(), active_claim_id });
        Self { status: StatusCode::CONFLICT, body }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
        Retry::by_status(self.status).add_to(response.headers_mut());
        response
    }
}

impl From<RequestFailure> for Refusal {
    fn from(failure: RequestFailure) -> Self {
        let message = match failure.effect() {
            Effect::Nothing => failure.text,
            // This protocol has no request ids, so the client cannot repeat the request safely.
            Effect::Unknown => {
                "The request might have taken effect; list the claims before you repeat it".into()
            }
        };
        Self::new(failure.status, message)
    }
}

rendered!(Refusal: BadBody, Denied, TooMuch, engine::Error);

/// Converts rejections that do not depend on the state of the claim in the request.
impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        let full = |why: &str| Self::new(StatusCode::TOO_MANY_REQUESTS, why);
        match rejection {
            // Other callers must not learn who made the claim.
            Rejection::NoSuchLease | Rejection::NotOwner => Self::no_such_claim(),
            Rejection::QueueFull { queue_max, .. } => full(&format!(
                "Too many claims are waiting for this resource; limit: {queue_max} (queue-max)"
            )),
            Rejection::Limit(exceeded) => of_limit(exceeded),
            Rejection::Ended(how) => Self::conflict(ended(how), None),
            Rejection::StillWaiting => Self::conflict(STILL_WAITING, None),
            Rejection::Held(holding) => {
                let claim = holding.lease.filter(|(of, _)| *of == Dialect::Claims.number());
                Self::conflict(NO_WAITING, claim.map(|(_, number)| number.0))
            }
            Rejection::Grace { .. } => Self::conflict(NO_WAITING, None),
            Rejection::TokensExhausted => Self::conflict(
                "This resource has used every fencing token there is; use another resource name",
                None,
            ),
            Rejection::Maintenance => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "The server is in maintenance: no claim can be made",
            ),
            Rejection::LimitDiffers { .. }
            | Rejection::Member { .. }
            | Rejection::Repeated { .. }
            | Rejection::RequestConflict
            | Rejection::RequestSpent(_)
            | Rejection::NoSuchSession => Self::conflict(in_words(&rejection), None),
        }
    }
}

pub(super) const STILL_WAITING: &str = "The claim is still waiting";
const NO_WAITING: &str = "The resource is taken, and no claim may wait";

pub(super) fn ended(how: Ending) -> &'static str {
    match how {
        Ending::Released => "The claim has been released",
        Ending::Expired => "The claim has expired",
        Ending::Revoked => "The claim has been revoked, aborted or withdrawn",
    }
}

fn of_limit(exceeded: Exceeded) -> Refusal {
    match (exceeded.limit, limit::met(exceeded)) {
        (Limit::Name, Met::Request(why)) => Refusal::parameter("resource", why),
        (Limit::Metadata, Met::Request(why)) => Refusal::parameter("metadata", why),
        (Limit::Ttl, Met::Request(why)) => Refusal::parameter("timeout", why),
        _ => RequestFailure::from(Rejection::Limit(exceeded)).into(),
    }
}
