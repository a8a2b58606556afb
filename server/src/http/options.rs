//! What connections may do.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

/// What a connection may do.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many threads serve connections; 0: as many as there are processors.
    pub workers: usize,
    /// Most connections at once; more wait until one is free.
    pub connections_max: usize,
    /// How long a new connection has to send its first request's head.
    pub header_timeout: Duration,
    /// How long a connection may stay without a request.
    pub idle_timeout: Duration,
    /// How long a request's body may take.
    pub body_timeout: Duration,
    /// Largest request body.
    pub body_bytes_max: usize,
    /// How long a client may take nothing of a long answer.
    pub answer_timeout: Duration,
    /// Most bytes of long answers that are being sent, over all connections.
    pub answers_bytes_max: usize,
    /// Most streams of events, over all connections.
    pub event_streams_max: usize,
    /// Who is believed when it says how a client reached it.
    pub trusted_proxies: Arc<[IpNet]>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 0,
            connections_max: 10_000,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(30),
            body_bytes_max: 64 * 1024,
            answer_timeout: Duration::from_secs(30),
            answers_bytes_max: 64 << 20,
            event_streams_max: 10_000,
            trusted_proxies: Arc::default(),
        }
    }
}

impl Options {
    pub(crate) fn n_workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get),
            n => n,
        }
    }
}
