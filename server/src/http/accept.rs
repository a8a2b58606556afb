//! Accepting connections on every listener, each for one of the workers.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::complaint::Complaint;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::opening::Port;
use super::places::Places;
use super::socket::Unserved;
use super::unix::UnixSocket;
use super::worker::{Accepted, Workers};
use super::{Listen, Options};
use crate::door::Peer;

/// A listener that is there.
pub(crate) struct Listener {
    socket: ListeningSocket,
    port: Arc<Port>,
}

enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

impl Listener {
    /// Begins to listen, and says where: port 0 has become a real one.
    pub(crate) async fn bind(
        listen: &Listen,
        port: Port,
        options: &Options,
    ) -> io::Result<(Self, Listen)> {
        let (socket, listen) = match listen {
            Listen::Unix(path) => {
                let socket = UnixSocket::bind(path, options.unix_socket_mode).await?;
                (ListeningSocket::Unix(socket), listen.clone())
            }
            Listen::Http(address) => {
                let listener = TcpListener::bind(address).await?;
                let listen = Listen::Http(listener.local_addr()?);
                (ListeningSocket::Tcp(listener), listen)
            }
            Listen::Https(address) => {
                let listener = TcpListener::bind(address).await?;
                let listen = Listen::Https(listener.local_addr()?);
                (ListeningSocket::Tcp(listener), listen)
            }
        };
        Ok((Self { socket, port: Arc::new(port) }, listen))
    }

    /// Listens as long as what comes back lives, where that leaves nothing behind; elsewhere only says why it could
    /// not.
    pub(crate) async fn try_bind(listen: &Listen) -> io::Result<Option<TcpListener>> {
        match listen {
            Listen::Unix(path) => UnixSocket::check(path).await.map(|_| None),
            Listen::Http(address) | Listen::Https(address) => {
                TcpListener::bind(address).await.map(Some)
            }
        }
    }

    async fn next(&self) -> io::Result<(Unserved, Peer)> {
        match &self.socket {
            ListeningSocket::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((Unserved::Tcp(stream.into_std()?), Peer::Address(address.ip())))
            }
            ListeningSocket::Unix(socket) => {
                let (stream, _) = socket.listener.accept().await?;
                Ok((Unserved::Unix(stream.into_std()?), Peer::Unix))
            }
        }
    }
}

/// Accepts until `stop` says so, then waits until the workers are done.
pub(crate) async fn serve(
    listeners: Vec<Listener>,
    places: Arc<Places>,
    workers: Workers,
    stop: watch::Receiver<bool>,
) {
    let workers = Arc::new(workers);
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let (places, workers, stop) = (places.clone(), workers.clone(), stop.clone());
        accepting.spawn(accept_all(listener, places, workers, stop));
    }
    while accepting.join_next().await.is_some() {}
    if let Some(workers) = Arc::into_inner(workers) {
        workers.finish().await;
    }
}

async fn accept_all(
    listener: Listener,
    places: Arc<Places>,
    workers: Arc<Workers>,
    mut stop: watch::Receiver<bool>,
) {
    let complaint = Complaint::default();
    loop {
        tokio::select! {
            accepted = accept(&listener, &places, &complaint) => workers.hand(accepted),
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

async fn accept(listener: &Listener, places: &Arc<Places>, complaint: &Complaint) -> Accepted {
    loop {
        places.room().await;
        let (socket, peer) = match listener.next().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, mostly: it helps to close one that is idle, or to wait a little.
                complaint.make(|n_before| {
                    tracing::warn!(%error, n_before, "cannot accept a connection");
                });
                places.make_room();
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        match places.enter(peer) {
            Ok(place) => return Accepted { socket, peer, place, port: listener.port.clone() },
            // It is closed without a word: whoever has that many connections has been told on others.
            Err(why) => {
                drop(socket);
                places.refuse(why);
            }
        }
    }
}
