//! One connection, from its first byte to its last.
//!
//! It must begin its first request soon and each later one not too long after the last, whatever bytes it trickles
//! meanwhile. What is in progress, a long poll or a stream of events, is left alone.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::Options;
use super::activity::{Activity, Tracked};
use super::forwarded::Peer;
use crate::app::Service;

/// Serves it until it ends, has nothing more to say, or `stop` says so and nothing is in progress.
pub(super) async fn serve(
    stream: TcpStream,
    peer: Peer,
    service: Service,
    options: &Options,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let activity = Activity::new();
    let seen = activity.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        answer(service.clone(), seen.clone(), peer, request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // We look after silent connections ourselves: one timer for each, not one for each request. And our answers are so
    // short that copying head and body together takes less than telling the system of two pieces.
    builder.http1().header_read_timeout(None).writev(false);
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
    service: Service,
    activity: Arc<Activity>,
    peer: Peer,
    request: Request<Incoming>,
) -> Result<Response<Tracked>, Infallible> {
    let in_progress = activity.begin();
    let response = service.call(peer, request).await;
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
