//! What the fuzz targets share: a whole server without a socket, and requests as text.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use leasehold_core::RetryHint;
use leasehold_server::app::{self, App};
use leasehold_server::clock::FakeClock;
use leasehold_server::engine::{self, Engine};
use leasehold_server::metrics::Metrics;
use leasehold_server::store::memory::MemoryStore;
use leasehold_server::{dialect, http};
use tower::ServiceExt;

/// How long an answer may take that waits for something.
const WAIT_MAX: Duration = Duration::from_millis(5);

/// A server of all dialects.
pub struct Server {
    runtime: tokio::runtime::Runtime,
    router: Router,
}

impl Server {
    /// One that keeps nothing.
    pub fn new() -> Self {
        let metrics = Arc::new(Metrics::new());
        let options = engine::Options::default();
        let limits = options.limits.clone();
        let (store, clock) = (Box::new(MemoryStore::default()), Arc::new(FakeClock::default()));
        let (_, engine) = Engine::start(options, store, clock, metrics.clone()).expect("a start");
        let (http, retry) = (http::Options::default(), RetryHint::default());
        let app = App::new(engine, metrics, http, retry, dialect::Options::default(), limits);
        let app = app.keep_files(None).expect("a folder");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self { runtime: runtime.expect("a runtime"), router: app::router(app, &dialect::ALL) }
    }

    /// The status of the answer to a request; `None` if it is none, or waits for something.
    pub fn ask(&self, text: &[u8]) -> Option<StatusCode> {
        let request = parse(text)?;
        let answering =
            async { tokio::time::timeout(WAIT_MAX, self.router.clone().oneshot(request)).await };
        Some(self.runtime.block_on(answering).ok()?.ok()?.status())
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

/// Method and target, headers, an empty line, the body.
fn parse(text: &[u8]) -> Option<Request<Body>> {
    let split = text.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = match split {
        Some(split) => (&text[..split], &text[split + 2..]),
        None => (text.trim_ascii_end(), &[][..]),
    };
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
    let mut request = Request::builder().method(first.next()?).uri(first.next()?);
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..at], line[at + 1..].trim_ascii());
    }
    request.body(Body::from(body.to_vec())).ok()
}
