//! The HTTP front end: the only entry for requests, whether HTTP/1 or HTTP/2, from a socket, a test, a fuzzer or the
//! simulation.
//!
//! It records who sent a request and when ([`Arrival`]), checks the form of the request ([`form`]), and logs and counts
//! the response ([`record`]). The few calls that make up most of the traffic go directly to their handlers, all others
//! through the router. Only the method and the path of a request decide which way it takes.

mod admit;
mod answer;
mod area;
mod arrival;
mod browser;
mod cors;
mod elsewhere;
mod follow;
mod form;
mod link;
mod methods;
mod protection;
mod record;
mod trace;
mod unless_own;
mod vital;

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::MatchedPath;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::{BoxError, Router};
use leasehold_api::Code;
use leasehold_auth::{Authority, Caller, Denied, Way};
use leasehold_base::clock::Instant;
use tracing::Instrument;

use crate::app::{self, App};
use crate::dialect::{Dialect, native, sticky};
use crate::http::forwarded;
use crate::http::shares::Client;
use crate::peer::{self, Relay};

use admit::no_place;
pub use answer::Answer;
use area::Area;
pub(crate) use arrival::Arrival;
use arrival::{Ids, RequestId};
pub use arrival::{Peer, Visitor};
use browser::Foreign;
pub(crate) use browser::is_sent;
use follow::Followed;
pub use link::Link;
pub(crate) use methods::NOT_ALLOWED;
use record::{Recorder, Route};
pub(crate) use trace::TraceContext;
pub(crate) use unless_own::UnlessOwn;
use vital::Vital;
pub(crate) use vital::is_vital;

/// The HTTP front end of one serving thread. Cheap to clone.
#[derive(Clone)]
pub struct Door(Arc<Inner>);

struct Inner {
    app: App,
    router: Router,
    speaks_native: bool,
    recorder: Recorder,
    ids: Ids,
    /// The caller while authentication is off. Each thread has its own, so that threads do not share a reference count.
    anonymous: Caller,
    /// Forwards requests to the leader while another server leads; `None` without a cluster.
    relay: Option<Arc<Relay>>,
}

impl Door {
    /// Creates the front end of a server with these dialects.
    pub fn new(app: App, dialects: &[Dialect]) -> Self {
        // Only the router knows which route matched.
        let router = app::router(app.clone(), dialects).layer(middleware::from_fn(tell_route));
        let recorder = Recorder::new(&app);
        let anonymous = Caller::unasked();
        let speaks_native = dialects.contains(&Dialect::Native);
        let (ids, relay) = (Ids::new(), app.relay.clone());
        Self(Arc::new(Inner { app, router, speaks_native, recorder, ids, anonymous, relay }))
    }

    /// Returns the server's state.
    pub(crate) fn app(&self) -> &App {
        &self.0.app
    }

    /// Answers one request.
    pub async fn answer<B>(&self, visitor: Visitor, request: Request<B>) -> Answer
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        match &self.0.relay {
            None => self.attend(visitor, request, None).await,
            Some(relay) => {
                let is_write = request.method() == Method::POST;
                let mut answer = Box::pin(self.answer_somewhere(relay, visitor, request)).await;
                if is_write && answer.response.status().is_success() {
                    answer.response.headers_mut().insert(peer::FAILOVER_MS, peer::FAILOVER);
                }
                answer
            }
        }
    }

    /// Answers a request on this server. `received` is when it arrived; `None` means now.
    pub(crate) async fn attend<B>(
        &self,
        mut visitor: Visitor,
        request: Request<B>,
        received: Option<Instant>,
    ) -> Answer
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let Inner { app, recorder, ids, anonymous, .. } = &*self.0;
        let has_cookie = request.headers().contains_key(header::COOKIE);
        let is_private = self.0.is_private(&visitor, has_cookie, &request);
        let identified = match self.0.recall(&visitor, has_cookie, &request) {
            Some(caller) => Ok(caller),
            None => self.0.identify(&visitor, is_private, &request).await,
        };
        let caller = match &identified {
            Ok(caller) => caller.clone(),
            Err(_) => app.auth.authority().map_or(anonymous.clone(), Caller::stranger),
        };
        if let Some(stream) = &visitor.stream {
            let from =
                || forwarded::client(request.headers(), visitor.peer, &app.http.trusted_proxies);
            let client = Client::of(&caller, &app.http, from);
            visitor.is_restricted |= !stream.enter(&client);
        }
        let mut arrival = Arrival::new(app, ids, &visitor, is_private, caller, &request, received);
        let followed = Followed::begin(app, &visitor, &mut arrival, &request);
        let (request_id, span) = (arrival.request_id.clone(), arrival.span(request.headers()));
        let call = recorder.begin(&arrival, &request);
        let origin = cors::allowed(request.headers(), &app.http.cors_origins);
        let (route, mut answer) =
            self.0.serve(&visitor, arrival, identified, request).instrument(span.clone()).await;
        span.in_scope(|| recorder.end(call, &route, answer.response.status()));
        if let Some(followed) = followed {
            followed.end(app, &route, answer.response.status());
        }
        self.0.dress(&route, &mut answer.response);
        if let Some(origin) = origin {
            cors::expose(origin, answer.response.headers_mut());
        }
        if let RequestId::Given(id) = request_id {
            answer.response.headers_mut().insert(arrival::X_REQUEST_ID, id);
        }
        answer
    }
}

impl Inner {
    /// Returns the cached caller of the connection, if there is one.
    fn recall<B>(
        &self,
        visitor: &Visitor,
        has_cookie: bool,
        request: &Request<B>,
    ) -> Option<Caller> {
        let Some(epoch) = self.app.auth.epoch().filter(|_| !visitor.link.is_for_metrics) else {
            return Some(self.anonymous.clone());
        };
        let remembered = visitor.remembered.as_ref().filter(|_| !has_cookie)?;
        remembered.caller(request.headers(), epoch, || self.app.engine.wall_ms())
    }

    /// Identifies the caller, or returns why its credential is rejected.
    async fn identify<B>(
        &self,
        visitor: &Visitor,
        is_private: bool,
        request: &Request<B>,
    ) -> Result<Caller, Denied> {
        let link = &visitor.link;
        // The epoch is read first: if the policy changes in between, the cached result counts as outdated.
        let epoch = self.app.auth.epoch().unwrap_or_default();
        let Some(authority) = self.app.auth.authority() else { return Ok(self.anonymous.clone()) };
        let engine = &self.app.engine;
        let way = Way {
            address: visitor.peer.address(),
            is_relayed: link.is_relayed,
            unix_path: link.unix_path.as_deref(),
            certificate: link.certificate.as_deref(),
            is_private,
            is_of_other_page: self.is_of_other_page(request),
            remembered: visitor.remembered.as_deref(),
        };
        let headers = request.headers();
        let found = Caller::identify(authority, epoch, headers, &way, engine.wall_ms())?;
        let inquiry = match found {
            Ok(caller) => return Ok(caller),
            Err(inquiry) => inquiry,
        };
        // A request that is rejected anyway must not cause a request to an issuer.
        let is_refused = form::check(request, visitor.link.is_unix()).is_err()
            || self.check_browser(visitor, inquiry.authority(), request).is_err();
        if is_refused || Area::asked(request) == Area::Health {
            return Err(Denied::Unauthenticated("unknown credential".into()));
        }
        let now = engine.now();
        // Boxed because the future is large and few requests get here.
        let from =
            forwarded::client(request.headers(), visitor.peer, &self.app.http.trusted_proxies);
        Box::pin(inquiry.settle(from, now, engine.wall_ms_of(now))).await
    }

    /// Returns whether the request was protected on its way, so that cookies can be accepted.
    fn is_private<B>(&self, visitor: &Visitor, has_cookie: bool, request: &Request<B>) -> bool {
        // Only requests with a cookie, or that ask for one, need this. A page of another origin gets neither.
        let path = request.uri().path();
        let is_asked =
            has_cookie || path.ends_with("/auth/session") || Area::asked(request) == Area::Console;
        if !self.app.auth.is_on() || !is_asked || self.is_of_other_page(request) {
            return false;
        }
        let (Visitor { peer, link, .. }, proxies) = (visitor, &self.app.http.trusted_proxies);
        forwarded::is_private(request.headers(), request.uri(), *peer, link.is_tls, proxies)
    }

    /// Returns whether a page of another, allowed origin sent the request.
    fn is_of_other_page<B>(&self, request: &Request<B>) -> bool {
        cors::allowed(request.headers(), &self.app.http.cors_origins).is_some()
    }

    fn check_browser<B>(
        &self,
        visitor: &Visitor,
        authority: Option<&Authority>,
        request: &Request<B>,
    ) -> Result<(), Foreign> {
        let http = &self.app.http;
        let known = browser::Known {
            hosts: &http.hosts,
            public_url: authority.and_then(|authority| authority.public_url()),
            origins: &http.cors_origins,
            // A browser page cannot reach a Unix socket, and clients of one can use any host name.
            any_host: visitor.link.is_unix(),
            scheme: &|| {
                let (Visitor { peer, link, .. }, proxies) = (visitor, &http.trusted_proxies);
                let (headers, uri) = (request.headers(), request.uri());
                forwarded::reached_by(headers, uri, *peer, link.is_tls, proxies)
            },
        };
        browser::check(request, &known)
    }

    /// Adds the headers that every response has.
    fn dress(&self, route: &Route, response: &mut Response) {
        let is_unauthorized = response.status() == StatusCode::UNAUTHORIZED;
        let headers = response.headers_mut();
        // Some clients support only Basic; their dialect has set the header already.
        let is_told = headers.get(header::WWW_AUTHENTICATE).is_some_and(is_basic);
        if is_unauthorized && self.app.auth.is_on() && !is_told {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"leasehold\""),
            );
        }
        match route {
            Route::Direct(_) => protection::add_hot(headers),
            _ => protection::add(headers),
        }
    }

    async fn serve<B>(
        &self,
        visitor: &Visitor,
        arrival: Arrival,
        identified: Result<Caller, Denied>,
        mut request: Request<B>,
    ) -> (Route, Answer)
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        form::drop_extra_slashes(request.uri_mut());
        if let Err(why) = form::check(&request, visitor.link.is_unix()) {
            return (Route::Refused, refused(&why).into());
        }
        if visitor.link.is_for_metrics && !Area::asked(&request).is_for_metrics() {
            return (Route::Refused, only_metrics().into());
        }
        // A preflight carries no credential and gets the same response for every client.
        if cors::is_preflight(&request, &self.app.http.cors_origins) {
            return (Route::Refused, cors::preflight().into());
        }
        let admitted = self.admit(visitor, &arrival, &request, identified).and_then(|first| {
            let second = self.crowd_out(visitor, &request)?;
            Ok(first.or(second))
        });
        let unless_vital = match admitted {
            Ok(unless_vital) => unless_vital,
            Err(refused) => return (Route::Refused, (*refused).into()),
        };
        if let Some(refused) = unless_vital {
            if Vital::of(&request) == Vital::IfOwn {
                request.extensions_mut().insert(UnlessOwn::new(*refused));
            } else if !sticky::is_renewal(&self.app, &arrival.caller, request.uri()).await {
                return (Route::Refused, (*refused).into());
            }
        }
        if self.speaks_native
            && let Some(direct) = native::Direct::of(&request)
        {
            let route = Route::Direct(direct.verb());
            arrival.caller.trail().inspect(|trail| trail.take_route(route.pattern()));
            return (route, direct.answer(self.app.clone(), &arrival, request).await);
        }
        request.extensions_mut().insert(arrival);
        let router = self.router.clone();
        let Ok(mut response) = tower::ServiceExt::oneshot(router, request.map(Body::new)).await;
        let route = response.extensions_mut().remove().unwrap_or(Route::Unmatched);
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            response = methods::named(response).await;
        }
        (route, Answer::routed(response))
    }
}

/// Returns the response to a malformed request. It closes the connection, because the next requests on it cannot be
/// trusted either.
fn refused(why: &str) -> Response {
    let mut response = app::failure(StatusCode::BAD_REQUEST, Code::InvalidRequest, why);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn is_basic(challenge: &HeaderValue) -> bool {
    challenge.as_bytes().starts_with(b"Basic ")
}

fn only_metrics() -> Response {
    let why = "this address answers only /metrics and health checks (metrics-listen)";
    app::failure(StatusCode::NOT_FOUND, Code::NotFound, why)
}

async fn tell_route(request: axum::extract::Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned().map(Route::Matched);
    let trail = request.extensions().get::<Arrival>().and_then(|arrival| arrival.caller.trail());
    if let (Some(trail), Some(route)) = (trail, &route) {
        trail.take_route(route.pattern());
    }
    let mut response = next.run(request).await;
    if let Some(route) = route {
        response.extensions_mut().insert(route);
    }
    response
}
