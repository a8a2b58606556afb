//! Accepting connections, each for one of the workers.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use super::forwarded::Peer;
use super::worker::{Accepted, Workers};

/// Accepts until `stop` says so, then waits until the workers are done.
pub(crate) async fn serve(
    listener: TcpListener,
    connections_max: usize,
    workers: Workers,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    for worker in (0..workers.n()).cycle() {
        let accepted = tokio::select! {
            accepted = accept(&listener, &places) => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        workers.hand(worker, accepted);
    }
    drop(listener);
    workers.finish().await;
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Accepted {
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { continue };
        let accepted = listener.accept().await;
        match accepted.and_then(|(stream, address)| Ok((stream.into_std()?, address))) {
            Ok((stream, address)) => return Accepted { stream, peer: Peer(address.ip()), place },
            Err(error) => {
                // Out of file descriptors, mostly: it helps to wait a little.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
