//! Accepts connections on every listener and distributes them to the workers.

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
use crate::request::Peer;

/// A bound listener.
pub struct Listener<P> {
    socket: ListeningSocket,
    port: Arc<Port<P>>,
}

enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

impl<P> Listener<P> {
    /// Binds the address. Also returns the actual address, because port 0 is replaced by a free port.
    pub async fn bind(
        listen: &Listen,
        port: Port<P>,
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

/// Checks that the address can be bound, and keeps it bound while the result lives. For Unix sockets it only checks,
/// because binding would leave a file.
pub async fn try_bind(listen: &Listen) -> io::Result<Option<TcpListener>> {
    match listen {
        Listen::Unix(path) => UnixSocket::check(path).await.map(|_| None),
        Listen::Http(address) | Listen::Https(address) => {
            TcpListener::bind(address).await.map(Some)
        }
    }
}

/// Accepts connections until `stop` is set, then waits until the workers have finished.
pub async fn serve<P: Copy + Send + Sync + 'static>(
    listeners: Vec<Listener<P>>,
    places: Arc<Places>,
    workers: Workers<P>,
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

async fn accept_all<P: Copy + Send + Sync + 'static>(
    listener: Listener<P>,
    places: Arc<Places>,
    workers: Arc<Workers<P>>,
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

async fn accept<P>(
    listener: &Listener<P>,
    places: &Arc<Places>,
    complaint: &Complaint,
) -> Accepted<P> {
    loop {
        places.room().await;
        let (socket, peer) = match listener.next().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually the process is out of file descriptors. Closing an idle connection, or waiting a little,
                // helps.
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
            // Closed without a response. A client with this many connections gets the reason on its other ones.
            Err(why) => {
                drop(socket);
                places.refuse(why);
            }
        }
    }
}
