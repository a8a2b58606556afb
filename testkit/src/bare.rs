//! A whole server without a socket, for tests that send millions of requests as text.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use leasehold_base::clock::FakeClock;
use leasehold_engine::Engine;
use leasehold_server::app::App;
use leasehold_server::dialect;
use leasehold_server::door::{Answer, Door, Visitor};
use leasehold_server::metrics::Metrics;
use leasehold_store::memory::MemoryStore;

use crate::local::settings;

/// A server with all dialects.
pub struct Bare {
    runtime: tokio::runtime::Runtime,
    door: Door,
}

impl Bare {
    /// Creates a server that stores nothing.
    pub fn new() -> Self {
        let metrics = Arc::new(Metrics::new(leasehold_server::dialect::NAMES));
        let settings = settings(None);
        let limits = settings.engine.limits.clone();
        let (store, clock) = (Box::new(MemoryStore::default()), Arc::new(FakeClock::default()));
        let (_, engine) =
            Engine::start(settings.engine, store, clock, metrics.engine.clone()).expect("a start");
        let (http, retry) = (settings.http, settings.retry);
        let app = App::new(engine, metrics, http, retry, settings.dialect, limits);
        let app = app.keep_content(None).expect("a folder");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Self { runtime: runtime.expect("a runtime"), door: Door::new(app, dialect::ALL) }
    }

    /// Returns whether the text is a valid request.
    pub fn is_request(text: &[u8]) -> bool {
        parse(text).is_some()
    }

    /// Returns the status of the response to a request. Returns `None` if the text is not a valid request, or if there
    /// is no response within `patience`.
    pub fn ask(&self, text: &[u8], patience: Duration) -> Option<StatusCode> {
        Some(self.answer(text, patience)?.deliver().status())
    }

    /// Returns the status and the body of the response to a request, after delivering it.
    pub fn told(&self, text: &[u8], patience: Duration) -> Option<(StatusCode, String)> {
        let (head, body) = self.answer(text, patience)?.deliver().into_parts();
        let body = self.runtime.block_on(body.collect()).ok()?.to_bytes();
        Some((head.status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Returns the response to a request, without delivering it.
    pub fn answer(&self, text: &[u8], patience: Duration) -> Option<Answer> {
        let answer = self.door.answer(Visitor::LOCAL, parse(text)?);
        let answering = async { tokio::time::timeout(patience, answer).await };
        self.runtime.block_on(answering).ok()
    }
}

impl Default for Bare {
    fn default() -> Self {
        Self::new()
    }
}

/// Parses a request: method and target, headers, an empty line, and the body.
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
