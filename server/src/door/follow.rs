//! Records facts about a request for the audit file and the change log.

use std::sync::Arc;

use axum::http::{Method, Request, StatusCode};
use leasehold_auth::{Caller, Logged, Trail, are_changes_logged};

use super::record::{Route, UNMATCHED, known};
use super::{Arrival, Peer, Visitor};
use crate::app::App;
use crate::audit::{Audit, Refused};
use crate::http::forwarded;
use crate::http::request::TraceContext;

/// A request whose refusal must be audited.
pub(super) struct Followed {
    audit: Arc<Audit>,
    caller: Caller,
    method: Method,
}

impl Followed {
    /// Attaches a trail to the caller. Returns `None` if refusals are not audited.
    pub(super) fn begin<B>(
        app: &App,
        visitor: &Visitor,
        arrival: &mut Arrival,
        request: &Request<B>,
    ) -> Option<Self> {
        let audit = app.audit.clone();
        let is_logged = are_changes_logged();
        if audit.is_none() && !is_logged {
            return None;
        }
        let from = match visitor.peer {
            Peer::Unix => "unix".to_owned(),
            peer => {
                forwarded::client(request.headers(), peer, &app.http.trusted_proxies).to_string()
            }
        };
        let logged = is_logged.then(|| Logged {
            route: UNMATCHED,
            request_id: Some(arrival.request_id.to_string().into()),
            trace_id: TraceContext::of(request.headers()).map(|trace| trace.to_string().into()),
        });
        let trail = Trail::new(from.into(), arrival.claimed(), audit.is_some(), logged);
        arrival.caller = arrival.caller.clone().followed(trail);
        let (caller, method) = (arrival.caller.clone(), request.method().clone());
        audit.map(|audit| Self { audit, caller, method })
    }

    /// Audits the request if it was refused with 401, 403 or 429.
    pub(super) fn end(self, app: &App, route: &Route, status: StatusCode) {
        let is_refused = matches!(
            status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        );
        if !is_refused {
            return;
        }
        let trail = self.caller.trail();
        let refused = Refused {
            by: self.caller.by(),
            status: status.as_u16(),
            method: known(&self.method),
            route: route.pattern(),
            wanted: trail.and_then(|trail| trail.denied()),
            request_id: trail.and_then(|trail| trail.request_id()),
        };
        self.audit.refused(&refused, app.engine.wall_ms());
    }
}
