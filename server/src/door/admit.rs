//! Decides whether a request is served: by the origin of its page, its caller, the caller's rate, and free connections.

use std::time::Duration;

use axum::body::HttpBody;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use leasehold_api::Code;
use leasehold_auth::{Caller, Denied};

use super::area::Area;
use super::{Arrival, DoorParts, Visitor};
use crate::app::{self, App};
use crate::dialect::vital::Vital;
use crate::http::request::browser::Foreign;
use crate::http::{self, forwarded};
use crate::{console, dialect};
use leasehold_auth::shares::Full;

/// How long a refused client should wait. Rounded up, so that a client that returns then is not refused again.
fn seconds_to_wait(denied: &Denied) -> Option<u64> {
    let wait = match denied {
        Denied::TooOften(_, wait) => *wait,
        Denied::Unavailable(_) => Duration::from_secs(1),
        Denied::Unauthenticated(_) | Denied::Forbidden(_) | Denied::Origin(_) => return None,
    };
    Some(wait.as_millis().div_ceil(1000).max(1) as u64)
}

impl DoorParts {
    /// Refuses requests of foreign pages and of callers without rights, before it reads their body.
    pub(super) fn admit<B>(
        &self,
        visitor: &Visitor,
        arrival: &Arrival,
        request: &Request<B>,
        identified: Result<Caller, Denied>,
    ) -> Result<Option<Box<Response>>, Box<Response>>
    where
        B: HttpBody,
    {
        let app = &self.app;
        let path = request.uri().path();
        let area = Area::asked(request);
        if area == Area::Health {
            return Ok(None);
        }
        let refuse = |denied: Denied| {
            let denied = if area == Area::Transfer { denied.finally() } else { denied };
            let seconds = seconds_to_wait(&denied);
            let page = console::refused(&self.host, arrival, request, &denied);
            let refused = || dialect::of_path(path).render(app, denied);
            let mut response = page.unwrap_or_else(refused);
            if let Some(seconds) = seconds {
                response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
            }
            Box::new(response)
        };
        // The metrics listener needs no credential, but has the same host names.
        let current = if arrival.caller.is_asked() { None } else { app.auth.authority() };
        let authority = arrival.caller.authority().or(current.as_ref()).map(|it| &**it);
        self.check_browser(visitor, authority, request).map_err(|foreign| match foreign {
            Foreign::Host(why) => {
                Box::new(app::failure(StatusCode::MISDIRECTED_REQUEST, Code::HostNotAllowed, &why))
            }
            Foreign::Origin(why) => refuse(Denied::Origin(why)),
        })?;
        let from = || forwarded::client(request.headers(), visitor.peer, &app.http.trusted_proxies);
        let wrong = |denied: Denied| {
            // The credential was not wrong, or the failure was already counted.
            if !matches!(denied, Denied::Unauthenticated(_)) {
                return denied;
            }
            app.auth.take_failure(from(), app.engine.at(arrival.received)).err().unwrap_or(denied)
        };
        let caller = match identified {
            // An expired sign-in leads to a new sign-in. A key in the request counts as a guess.
            Err(denied) if area == Area::Console && !denied.is_of_key(request.headers()) => {
                return Ok(None);
            }
            identified => identified.map_err(|denied| refuse(wrong(denied)))?,
        };
        let taken = app.auth.take_request(&caller, from, app.engine.at(arrival.received));
        // Renewals and releases count, but are never refused.
        let unless_renewal = match taken.map_err(|denied| (Vital::of(request), denied)) {
            Ok(()) | Err((Vital::Always, _)) => None,
            Err((Vital::IfRenewal | Vital::IfOwn, denied)) => Some(refuse(denied)),
            Err((Vital::Never, denied)) => return Err(refuse(denied)),
        };
        let entered = area.check(&caller, dialect::of_path(path), request.headers());
        entered.map_err(|denied| match denied {
            // The credential is neither a key nor a session.
            Denied::Unauthenticated(_) if caller.is_foreign() => refuse(wrong(denied)),
            denied => refuse(denied),
        })?;
        Ok(unless_renewal)
    }

    /// Returns the refusal for a request on a reserved connection, or `None` if it is served. The outer `Err` is final;
    /// the inner response applies unless the request renews or ends what its caller owns.
    pub(super) fn crowd_out<B: HttpBody>(
        &self,
        visitor: &Visitor,
        request: &Request<B>,
    ) -> Result<Option<Box<Response>>, Box<Response>> {
        if !visitor.is_restricted || visitor.link.is_for_metrics {
            return Ok(None);
        }
        match Vital::of(request) {
            Vital::Always => Ok(None),
            Vital::IfRenewal | Vital::IfOwn => Ok(Some(Box::new(no_place(&self.app, visitor)))),
            Vital::Never => Err(Box::new(no_place(&self.app, visitor))),
        }
    }
}

pub(super) fn no_place(app: &App, visitor: &Visitor) -> Response {
    let http = &app.http;
    match visitor.stream.as_ref().and_then(http::Stream::refused) {
        Some(Full::Share | Full::Quota(_)) => return beyond_share(app),
        Some(Full::All) => app.metrics.engine.refusals.count("streams-max"),
        None => visitor.limit.iter().for_each(|limit| app.metrics.engine.refusals.count(limit)),
    }
    let is_drained = app.engine.health().pulse().is_drained();
    let drained = "this server is drained (leasehold cluster drain); use another server; the request had no effect";
    let why = if is_drained { drained.into() } else { crowded(http) };
    let mut response = app::failure(StatusCode::SERVICE_UNAVAILABLE, Code::Overloaded, &why);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn beyond_share(app: &App) -> Response {
    app.metrics.engine.refusals.count("principal-streams-max");
    let why = format!(
        "too many HTTP/2 requests of one principal, or of one anonymous address; limit: {} (principal-streams-max); \
         the request had no effect; try again later. Renewals and releases are still accepted",
        app.http.principal_streams_max
    );
    let mut response = app::failure(StatusCode::TOO_MANY_REQUESTS, Code::LimitReached, &why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn crowded(http: &http::Options) -> String {
    format!(
        "too many connections; the request had no effect. Limits: {} in total (connections-max), {} from one address \
         (connections-per-peer-max), {} HTTP/2 requests (streams-max). This connection accepts only health checks, \
         renewals and releases",
        http.connections_max, http.connections_per_peer_max, http.streams_max
    )
}
