//! Logs and counts every response. Both use the route, never the path, which can contain a secret or arbitrary text.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::MatchedPath;
use axum::http::{Method, Request, StatusCode};
use prometheus_client::metrics::counter::Counter;

use super::Arrival;
use crate::dialect::native::Verb;
use crate::host::Host;
use crate::http::request::TraceContext;
use crate::metrics::AnswerLabel;
use crate::trace::{Done, Traced, Tracer};

/// The pattern for paths that the router does not know: file paths and unknown paths.
pub(super) const UNMATCHED: &str = "/{path}";

/// The route that a request took.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// One of the hot calls.
    Direct(Verb),
    /// A route of the router.
    Matched(MatchedPath),
    /// No route: a file path or an unknown path.
    Unmatched,
    /// Rejected before routing.
    Refused,
}

impl Route {
    pub(super) fn pattern(&self) -> &str {
        match self {
            Route::Direct(verb) => verb.route(),
            // Cuts off the internal suffix of nested routes.
            Route::Matched(path) => path.as_str().split("/{*__private").next().unwrap_or_default(),
            Route::Unmatched => UNMATCHED,
            Route::Refused => "",
        }
    }
}

/// A call that is being answered.
pub(super) struct Call {
    method: &'static str,
    is_named: bool,
    began: Option<(Instant, Arrival, Option<TraceContext>)>,
    is_logged: bool,
    traced: Option<Traced>,
}

/// Logs, counts and traces responses. The counters of the hot calls are cached, because looking them up by label is
/// slow.
pub(super) struct Recorder {
    answers: prometheus_client::metrics::family::Family<AnswerLabel, Counter>,
    direct: [[Counter; 2]; Verb::ALL.len()],
    tracer: Option<Arc<Tracer>>,
}

/// The route of responses that another server produced.
const PASSED_ON: &str = "(passed on)";
const USUAL: [StatusCode; 2] = [StatusCode::OK, StatusCode::CONFLICT];

impl Recorder {
    pub(super) fn new(app: &Host) -> Self {
        let answers = app.metrics.answers.clone();
        let counter = |verb: Verb, status: StatusCode| {
            answers.get_or_create_owned(&AnswerLabel::new("POST", verb.route(), status.as_u16()))
        };
        let direct = Verb::ALL.map(|verb| USUAL.map(|status| counter(verb, status)));
        Self { answers, direct, tracer: app.tracer.clone() }
    }

    /// Counts a forwarded request. The leader has logged it.
    pub(super) fn passed_on(&self, method: &'static str, status: StatusCode) {
        let label = AnswerLabel::new(method, PASSED_ON, status.as_u16());
        self.answers.get_or_create(&label).inc();
        tracing::debug!(method, status = status.as_u16(), "passed on");
    }

    pub(super) fn begin<B>(&self, arrival: &Arrival, request: &Request<B>) -> Call {
        let is_named = arrival.is_named();
        let is_logged = is_named || tracing::enabled!(tracing::Level::DEBUG);
        let traced = self.tracer.as_ref().and_then(|tracer| tracer.begin(request.headers()));
        let began = || (Instant::now(), arrival.clone(), TraceContext::of(request.headers()));
        let began = (is_logged || traced.is_some()).then(began);
        Call { method: known(request.method()), is_named, began, is_logged, traced }
    }

    pub(super) fn end(&self, call: Call, route: &Route, status: StatusCode) {
        let usual = USUAL.iter().position(|usual| *usual == status);
        match (route, usual) {
            (Route::Direct(verb), Some(usual)) => {
                self.direct[*verb as usize][usual].inc();
            }
            _ => {
                let label = AnswerLabel::new(call.method, route.pattern(), status.as_u16());
                self.answers.get_or_create(&label).inc();
            }
        }
        let Some((began, arrival, trace)) = call.began else { return };
        let (method, route, status) = (call.method, route.pattern(), status.as_u16());
        let (peer, principal) = (arrival.peer, &**arrival.caller.principal().name());
        let (took, id) = (began.elapsed(), &arrival.request_id);
        if let Some((tracer, traced)) = self.tracer.as_ref().zip(call.traced) {
            let (peer, request_id) = (peer.to_string(), id.to_string());
            tracer.end(traced, &Done { method, route, status, peer, principal, request_id, took });
        }
        if !call.is_logged {
            return;
        }
        let took_us = took.as_micros() as u64;
        // A request without a trace is identified by its own id.
        let trace_id = trace.map(|trace| trace.to_string());
        macro_rules! log {
            ($level:ident) => {
                tracing::$level!(
                    method, route, status, %peer, principal, took_us, request_id = %id, trace_id,
                    "answered"
                )
            };
        }
        if call.is_named { log!(info) } else { log!(debug) }
    }
}

/// Returns the name of a known method, or `other`. Clients can invent any number of methods, and each would be a new
/// label.
pub(super) fn known(method: &Method) -> &'static str {
    let known = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "LOCK",
        "UNLOCK",
        "PROPFIND",
        "PROPPATCH",
        "MKCOL",
        "COPY",
        "MOVE",
    ];
    known.into_iter().find(|name| *name == method.as_str()).unwrap_or("other")
}
