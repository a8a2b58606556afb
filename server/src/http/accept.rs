//! Accepting connections, and not letting the slow ones hurt the others.
//!
//! A connection must begin its first request soon and each later one not too long after the last, whatever
//! bytes it trickles meanwhile. What is in progress, a long poll or a stream of events, is left alone.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::ServiceExt;

use super::activity::{Activity, Tracked};
use super::forwarded::Peer;
use crate::metrics::Metrics;

/// What a connection may do.
#[derive(Clone, Debug)]
pub struct Options {
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
    /// Who is believed when it says how a client reached it.
    pub trusted_proxies: Arc<[IpNet]>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections_max: 10_000,
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(30),
            body_bytes_max: 64 * 1024,
            trusted_proxies: Arc::default(),
        }
    }
}

/// Serves `router` until `stop` says so, then lets what is in progress finish within `patience`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    options: Options,
    metrics: Arc<Metrics>,
    mut stop: watch::Receiver<bool>,
    patience: Duration,
) {
    let places = Arc::new(Semaphore::new(options.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let Some((stream, peer, place)) = accepted else { continue };
        let (router, options, stop) = (router.clone(), options.clone(), stop.clone());
        let metrics = metrics.clone();
        connections.spawn(async move {
            metrics.connections.inc();
            connection(stream, peer, router, &options, stop).await;
            metrics.connections.dec();
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let all_done = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(patience, all_done).await.is_err() {
        tracing::warn!("some connections did not finish in time");
    }
}

type Place = tokio::sync::OwnedSemaphorePermit;

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, Peer, Place)> {
    // The semaphore is never closed.
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, address)) => Some((stream, Peer(address.ip()), place)),
        Err(error) => {
            // Out of file descriptors, mostly: it helps to wait a little.
            tracing::warn!(%error, "could not accept a connection");
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    options: &Options,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let activity = Activity::new();
    let seen = activity.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        answer(router.clone(), seen.clone(), request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(options.idle_timeout);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(256);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let mut is_stopping = false;
    loop {
        tokio::select! {
            // An error is the client's doing, and the client is gone.
            _ = &mut serving => return,
            () = idle_too_long(&activity, options) => return,
            _ = stop.wait_for(|stop| *stop), if !is_stopping => {
                is_stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

async fn answer(
    router: Router,
    activity: Arc<Activity>,
    request: Request<Incoming>,
) -> Result<Response<Tracked>, Infallible> {
    let in_progress = activity.begin();
    let response = router.oneshot(request.map(Body::new)).await?;
    Ok(response.map(|body| Tracked { body, _request: in_progress }))
}

/// Returns when the connection has gone without a request for longer than it may.
async fn idle_too_long(activity: &Activity, options: &Options) {
    loop {
        let next_look = match activity.idle_since() {
            None => Instant::now() + options.header_timeout,
            Some((since, false)) => since + options.header_timeout,
            Some((since, true)) => since + options.idle_timeout,
        };
        if next_look <= Instant::now() {
            return;
        }
        tokio::time::sleep_until(next_look).await;
    }
}
