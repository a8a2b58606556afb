//! What is written down of a request beside what it does, where there is an audit file.

use std::sync::Arc;

use axum::http::{Method, Request, StatusCode};

use super::record::{Route, known};
use super::{Arrival, Peer, Visitor};
use crate::app::App;
use crate::audit::{Audit, Refused};
use crate::auth::{Caller, Trail};
use crate::http::forwarded;

/// A request whose answer may have to be written down.
pub(super) struct Followed {
    audit: Arc<Audit>,
    caller: Caller,
    method: Method,
}

impl Followed {
    /// From here on what the caller does is written down. `None`: nothing is.
    pub(super) fn begin<B>(
        app: &App,
        visitor: &Visitor,
        arrival: &mut Arrival,
        request: &Request<B>,
    ) -> Option<Self> {
        let audit = app.audit.clone()?;
        let from = match visitor.peer {
            Peer::Unix => "unix".to_owned(),
            peer => {
                forwarded::client(request.headers(), peer, &app.http.trusted_proxies).to_string()
            }
        };
        let trail = Trail::new(from.into(), arrival.claimed());
        arrival.caller = arrival.caller.clone().followed(trail);
        Some(Self { audit, caller: arrival.caller.clone(), method: request.method().clone() })
    }

    /// Writes it down if it was refused because of who asked.
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
