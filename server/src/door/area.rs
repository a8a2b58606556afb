//! The parts of the server, by what has to be known of whoever enters them.

use axum::http::{HeaderMap, Request, header};

use crate::auth::{Caller, Denied, Right, ticket};
use crate::console;
use crate::dialect::{Dialect, lfs};

/// A part of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Area {
    /// Anybody may know whether the server is well.
    Health,
    /// What is counted: of all namespaces.
    Metrics,
    /// The contract.
    Docs,
    /// Where people sign in, so that anybody may come there, also with what does not count any more.
    Console,
    /// Where content is moved, which a ticket is enough for. Clients that are asked who they are ask again without end.
    Transfer,
    /// A dialect, which asks for itself what somebody may.
    Rest,
}

impl Area {
    /// Of a request.
    pub(super) fn asked<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        match console::is_visit(request.method(), path, request.headers()) {
            true => Self::Console,
            false => Self::of(path),
        }
    }

    pub(super) fn of(path: &str) -> Self {
        match path {
            "/health" | "/healthz" | "/livez" | "/readyz" | "/leaderz" => Self::Health,
            "/metrics" => Self::Metrics,
            "/openapi.json" => Self::Docs,
            _ if path == "/console" || path.starts_with("/console/") => Self::Console,
            _ if path == "/docs" || path.starts_with("/docs/") => Self::Docs,
            _ if lfs::is_transfer(path) => Self::Transfer,
            _ => Self::Rest,
        }
    }

    /// Is it answered by the listener for metrics?
    pub(super) fn is_for_metrics(self) -> bool {
        matches!(self, Self::Health | Self::Metrics)
    }

    /// May this caller enter?
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
        // Only files have sessions that stand for who opened them.
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
