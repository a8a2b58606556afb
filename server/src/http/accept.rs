//! Accepting connections, each for one of the workers.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::places::{NoPlace, Places};
use super::worker::{Accepted, Workers};
use crate::door::Peer;

/// Accepts until `stop` says so, then waits until the workers are done.
pub(crate) async fn serve(
    listener: TcpListener,
    places: Arc<Places>,
    workers: Workers,
    mut stop: watch::Receiver<bool>,
) {
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

async fn accept(listener: &TcpListener, places: &Arc<Places>) -> Accepted {
    loop {
        places.room().await;
        let accepted = listener.accept().await;
        let accepted = accepted.and_then(|(stream, address)| Ok((stream.into_std()?, address)));
        let (stream, peer) = match accepted {
            Ok((stream, address)) => (stream, Peer(address.ip())),
            Err(error) => {
                // Out of file descriptors, mostly: it helps to wait a little.
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        match places.enter(peer) {
            Ok(place) => return Accepted { stream, peer, place },
            // It is closed without a word: whoever has that many connections has been told on others.
            Err(NoPlace::ForPeer | NoPlace::Any) => drop(stream),
        }
    }
}
