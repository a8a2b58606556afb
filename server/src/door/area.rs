//! The areas of the server, by the access they need.

use axum::http::{HeaderMap, Request, header};
use leasehold_auth::{Caller, Denied, Right, ticket};

use crate::console;
use crate::dialect::{Dialect, lfs};
use crate::http::request::form;

/// A group of paths with the same access check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Area {
    /// Health checks, open to all clients.
    Health,
    /// Metrics, which cover all namespaces.
    Metrics,
    /// The API description and its documentation pages.
    Docs,
    /// The console, open to all clients because users sign in there. Invalid credentials do not block it either.
    Console,
    /// Content transfers, for which a ticket is enough. They never return 401: these clients would retry it endlessly.
    Transfer,
    /// All other paths. Their dialect checks the caller's rights.
    Rest,
}

impl Area {
    /// Returns the area of a request.
    pub(super) fn asked<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        match console::is_visit(request.method(), path, request.headers()) {
            true => Self::Console,
            false => Self::of(path),
        }
    }

    pub(super) fn of(path: &str) -> Self {
        match path {
            _ if form::is_health(path) => Self::Health,
            "/metrics" => Self::Metrics,
            "/openapi.json" => Self::Docs,
            _ if path == "/console" || path.starts_with("/console/") => Self::Console,
            _ if path == "/docs" || path.starts_with("/docs/") => Self::Docs,
            _ if lfs::is_transfer(path) => Self::Transfer,
            _ => Self::Rest,
        }
    }

    /// Returns whether the metrics listener serves this area.
    pub(super) fn is_for_metrics(self) -> bool {
        matches!(self, Self::Health | Self::Metrics)
    }

    /// Checks that the caller can access this area.
    pub(super) fn check(
        self,
        caller: &Caller,
        dialect: Dialect,
        headers: &HeaderMap,
    ) -> Result<(), Denied> {
        let Some(authority) = caller.authority() else { return Ok(()) };
        if self == Self::Console && !caller.is_foreign() {
            return Ok(());
        }
        let public = authority.public();
        // Only the files dialect has sessions that are credentials.
        if caller.is_foreign() && (self != Self::Rest || dialect != Dialect::Files) {
            let accepted = authority.accepted();
            let why = format!("unknown credential; accepted: {accepted}");
            return Err(Denied::Unauthenticated(why));
        }
        match self {
            Self::Health | Self::Console => Ok(()),
            Self::Metrics if public.metrics => Ok(()),
            Self::Metrics => caller.check_everywhere(Right::Read),
            Self::Docs if public.docs => Ok(()),
            Self::Transfer if headers.contains_key(ticket::HEADER) => Ok(()),
            Self::Rest
                if dialect == Dialect::Files
                    && (caller.is_foreign() || headers.contains_key(header::COOKIE)) =>
            {
                Ok(())
            }
            Self::Docs | Self::Transfer | Self::Rest => caller.check_known(),
        }
    }
}
