//! Errors of authentication and authorization.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use super::credential;

/// Why the server rejects a request of this client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Denied {
    /// The client is not authenticated (401).
    Unauthenticated(String),
    /// The client is authenticated, and no rule grants the request (403).
    Forbidden(String),
    /// A browser page of an origin that is not allowed sent the request (403).
    Origin(String),
    /// The client exceeded a rate limit (429). It can retry after this duration.
    TooOften(String, Duration),
    /// The credential cannot be checked now, because its issuer is unavailable (503).
    Unavailable(String),
}

impl Denied {
    /// Replaces a 401 with a 403, for clients that would retry a 401 endlessly.
    pub fn finally(self) -> Self {
        match self {
            Denied::Unauthenticated(why) => Denied::Forbidden(why),
            denied => denied,
        }
    }

    /// Returns whether a key or token in the `Authorization` header was rejected. A Basic credential whose password is
    /// not an API key does not count: it is most likely meant for a proxy.
    pub fn is_of_key(&self, headers: &HeaderMap) -> bool {
        let is_for_proxy =
            matches!(self, Denied::Unauthenticated(why) if why == credential::NO_KEY);
        headers.contains_key(header::AUTHORIZATION) && !is_for_proxy
    }

    /// Returns the HTTP status of the response.
    pub fn status(&self) -> StatusCode {
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
