//! Traces: the requests and how long they took, sent to a collector as OTLP over HTTP.
//!
//! Each sampled request becomes one span. Spans wait in a queue of bounded length, and a separate task sends them in
//! batches. No request waits for that.

mod message;
mod send;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, Uri};
use leasehold_auth::url;
use tokio::sync::mpsc;

use crate::metrics::Metrics;
use crate::request::TraceContext;
use message::Span;
use send::Sender;

/// The settings of tracing.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL of the collector, including the path for traces.
    pub endpoint: Endpoint,
    /// The fraction of requests that start a trace. For a request that is part of a trace, the client that started the
    /// trace decides.
    pub sample: f64,
    /// Maximum spans waiting to be sent; more are dropped.
    pub queue_max: usize,
}

/// The URL of a collector, such as `http://HOST:4318`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint(Uri);

/// The path for traces, which is appended to the collector's URL unless it is already there.
const TRACES: &str = "/v1/traces";

impl std::str::FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("must be http://HOST:PORT or https://HOST:PORT, got {text:?}");
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        // An impossible port would be taken for the default port.
        let has_host = uri.authority().is_some_and(|host| url::port(host).is_ok());
        if !is_http || !has_host || uri.query().is_some() {
            return Err(wrong());
        }
        let base = text.trim_end_matches('/');
        let whole = if base.ends_with(TRACES) { base.into() } else { format!("{base}{TRACES}") };
        whole.parse().map(Self).map_err(|_| wrong())
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Creates the spans of requests.
pub struct Tracer {
    sample: f64,
    queue: mpsc::Sender<Span>,
    metrics: Arc<Metrics>,
}

/// A sampled request that has no response yet.
pub struct Traced {
    trace_id: u128,
    parent_id: Option<u64>,
    began: SystemTime,
}

/// A request that has been answered.
pub struct Done<'a> {
    /// The method.
    pub method: &'static str,
    /// The pattern of the route.
    pub route: &'a str,
    /// The status of the response.
    pub status: u16,
    /// The address of the client.
    pub peer: String,
    /// The name of the principal.
    pub principal: &'a str,
    /// The id of the request in the log.
    pub request_id: String,
    /// How long the answer took.
    pub took: Duration,
}

impl Tracer {
    /// Creates a tracer, and the sender of its spans, which ends after the tracer is dropped.
    pub fn new(options: Options, metrics: Arc<Metrics>) -> (Arc<Self>, Sender) {
        let (queue, waiting) = mpsc::channel(options.queue_max);
        let sender = Sender::new(options.endpoint.0, waiting, metrics.clone());
        (Arc::new(Self { sample: options.sample, queue, metrics }), sender)
    }

    /// Decides whether a request with these headers is traced. If it is part of a trace, the client that started the
    /// trace has decided; otherwise the request is sampled at random.
    pub fn begin(&self, headers: &HeaderMap) -> Option<Traced> {
        let began = SystemTime::now();
        match TraceContext::of(headers) {
            Some(TraceContext { is_sampled: false, .. }) => None,
            Some(TraceContext { trace_id, parent_id, .. }) => {
                Some(Traced { trace_id, parent_id: Some(parent_id), began })
            }
            None => {
                let lot = u32::from_le_bytes(leasehold_base::random::bytes());
                let is_drawn = f64::from(lot) < self.sample * (f64::from(u32::MAX) + 1.0);
                let trace_id = u128::from_le_bytes(leasehold_base::random::bytes()).max(1);
                is_drawn.then_some(Traced { trace_id, parent_id: None, began })
            }
        }
    }

    /// Creates and queues the span of a request that has been answered.
    pub fn end(&self, traced: Traced, done: &Done<'_>) {
        let span_id = u64::from_le_bytes(leasehold_base::random::bytes()).max(1);
        let began = traced.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ids = (traced.trace_id, span_id, traced.parent_id);
        let span = Span::server(ids, began, done);
        if self.queue.try_send(span).is_err() {
            self.metrics.count_spans("dropped", 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn tracer(sample: f64, queue_max: usize) -> (Arc<Tracer>, Sender, Arc<Metrics>) {
        let endpoint = "http://127.0.0.1:9".parse().expect("an address");
        let metrics = Arc::new(Metrics::default());
        let (tracer, sender) =
            Tracer::new(Options { endpoint, sample, queue_max }, metrics.clone());
        (tracer, sender, metrics)
    }

    #[test]
    fn a_collector_has_an_address() {
        for (text, whole) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://otel.example.org/", "https://otel.example.org/v1/traces"),
            ("http://h:1/v1/traces", "http://h:1/v1/traces"),
            ("http://h:1/prefix", "http://h:1/prefix/v1/traces"),
        ] {
            assert_eq!(
                text.parse::<Endpoint>().map(|it| it.to_string()),
                Ok(whole.into()),
                "{text}"
            );
        }
        for text in [
            "",
            "localhost:4318",
            "grpc://h:1",
            "http://",
            "http://h/?a=b",
            "http://h h/",
            "http://h:0",
            "http://h:65536",
        ] {
            let why = text.parse::<Endpoint>().expect_err(text);
            assert!(why.starts_with("must be http://HOST:PORT"), "{why}");
        }
    }

    #[test]
    fn the_client_that_starts_a_trace_decides_whether_it_is_recorded() {
        let headers = |flags: &str| {
            let text = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
            let value = HeaderValue::from_str(&text).expect("a value");
            [(axum::http::HeaderName::from_static("traceparent"), value)].into_iter().collect()
        };
        let (all, _, _) = tracer(1.0, 1);
        let (none, _, _) = tracer(0.0, 1);
        for tracer in [&all, &none] {
            let traced = tracer.begin(&headers("01")).expect("it is to be kept");
            assert_eq!(traced.trace_id, 0x4bf92f3577b34da6a3ce929d0e0e4736);
            assert_eq!(traced.parent_id, Some(0x00f067aa0ba902b7));
            assert!(tracer.begin(&headers("00")).is_none());
        }
        assert!(all.begin(&HeaderMap::new()).is_some_and(|traced| traced.parent_id.is_none()));
        assert!(none.begin(&HeaderMap::new()).is_none());
        let (half, _, _) = tracer(0.5, 1);
        let n = (0..1000).filter(|_| half.begin(&HeaderMap::new()).is_some()).count();
        assert!((300..700).contains(&n), "{n} of 1000");
    }

    #[test]
    fn what_does_not_fit_the_queue_is_dropped_and_counted() {
        let (tracer, _sender, metrics) = tracer(1.0, 2);
        for _ in 0..5 {
            let traced = tracer.begin(&HeaderMap::new()).expect("all are");
            let done = Done {
                method: "GET",
                route: "/v1/locks",
                status: 200,
                peer: "127.0.0.1".into(),
                principal: "anonymous",
                request_id: "1".into(),
                took: Duration::from_millis(1),
            };
            tracer.end(traced, &done);
        }
        let text = metrics.render();
        assert!(text.contains("leasehold_spans_total{result=\"dropped\"} 3\n"), "{text}");
    }
}
