//! A listener of a dialect's own, for protocols that are not HTTP.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::Options;
use crate::app::App;

/// What a dialect that listens on its own is made of.
#[derive(Clone, Copy)]
pub struct Listener {
    /// Where it listens, if it was told to.
    pub address: fn(&Options) -> Option<SocketAddr>,
    /// Serves one connection to its end.
    pub serve: fn(App, TcpStream) -> Serving,
}

/// A connection being served.
pub(super) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Listener {
    /// Accepts until `stop` says so. A connection that is open then ends with the server.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        app: App,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, _)) => drop(tokio::spawn((self.serve)(app.clone(), stream))),
                Err(error) => tracing::warn!(%error, "cannot accept a connection"),
            }
        }
    }
}
