//! One line in the log and one count for each answer. Both know a request by its route, never by its path: there may
//! be a
//! secret in it, or anything else.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::MatchedPath;
use axum::http::{Method, Request, StatusCode};
use prometheus_client::metrics::counter::Counter;

use super::Arrival;
use super::trace::TraceContext;
use crate::app::App;
use crate::dialect::native::Verb;
use crate::metrics::AnswerLabel;
use crate::trace::{Done, Traced, Tracer};

/// The pattern of a path that the router does not know: a file's, or nothing.
pub(super) const UNMATCHED: &str = "/{path}";

/// Which route a request took.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// To one of the hot calls.
    Direct(Verb),
    /// Found by the router.
    Matched(MatchedPath),
    /// Found by nobody: a file's, or nothing.
    Unmatched,
    /// Turned away before anybody looked for it.
    Refused,
}

impl Route {
    pub(super) fn pattern(&self) -> &str {
        match self {
            Route::Direct(verb) => verb.route(),
            // The rest of a path that a group of routes takes as a whole.
            Route::Matched(path) => path.as_str().split("/{*__private").next().unwrap_or_default(),
            Route::Unmatched => UNMATCHED,
            Route::Refused => "",
        }
    }
}

/// A call that was not answered yet.
pub(super) struct Call {
    method: &'static str,
    is_named: bool,
    began: Option<(Instant, Arrival, Option<TraceContext>)>,
    is_logged: bool,
    traced: Option<Traced>,
}

/// Counters are found by their labels, which takes a while; those of the hot calls are kept.
pub(super) struct Recorder {
    answers: prometheus_client::metrics::family::Family<AnswerLabel, Counter>,
    direct: [[Counter; 2]; Verb::ALL.len()],
    tracer: Option<Arc<Tracer>>,
}

/// The route of what another server has answered.
const PASSED_ON: &str = "(passed on)";
const USUAL: [StatusCode; 2] = [StatusCode::OK, StatusCode::CONFLICT];

impl Recorder {
    pub(super) fn new(app: &App) -> Self {
        let answers = app.metrics.answers.clone();
        let counter = |verb: Verb, status: StatusCode| {
            answers.get_or_create_owned(&AnswerLabel::new("POST", verb.route(), status.as_u16()))
        };
        let direct = Verb::ALL.map(|verb| USUAL.map(|status| counter(verb, status)));
        Self { answers, direct, tracer: app.tracer.clone() }
    }

    /// Another server has answered, and written down who asked.
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
        // One that belongs to no trace is known by its own id.
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

/// A method by its name if it is one that somebody could mean: there are as many others as clients make up.
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
