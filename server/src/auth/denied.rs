//! What somebody is refused because of who they are.

use std::fmt;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};

use super::credential;

/// Somebody may not do what they ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// Nobody knows who asks (401).
    Unauthenticated(String),
    /// It is known who asks, and no rule lets them (403).
    Forbidden(String),
    /// A page of another origin asks for them (403).
    Origin(String),
    /// They ask too often (429): this long until they may again.
    TooOften(String, Duration),
    /// Nobody can tell now who asks (503).
    Unavailable(String),
}

impl Denied {
    /// The same to a client that would ask without end if it were asked who it is.
    pub(crate) fn finally(self) -> Self {
        match self {
            Denied::Unauthenticated(why) => Denied::Forbidden(why),
            denied => denied,
        }
    }

    /// Was a key or token in the header refused? A name and a password without one are meant for a proxy.
    pub(crate) fn is_of_key(&self, headers: &HeaderMap) -> bool {
        let is_for_proxy =
            matches!(self, Denied::Unauthenticated(why) if why == credential::NO_KEY);
        headers.contains_key(header::AUTHORIZATION) && !is_for_proxy
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Denied::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Denied::Forbidden(_) | Denied::Origin(_) => StatusCode::FORBIDDEN,
            Denied::TooOften(..) => StatusCode::TOO_MANY_REQUESTS,
            Denied::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Unauthenticated(why)
            | Denied::Forbidden(why)
            | Denied::Origin(why)
            | Denied::TooOften(why, _)
            | Denied::Unavailable(why) => f.write_str(why),
        }
    }
}
