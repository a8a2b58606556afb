//! Makes connections over TCP or a Unix socket, with TLS if the URL requires it, within a time limit.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::{TcpStream, UnixStream};
use tower_service::Service;

/// Detects a peer that vanished after about 25 s, even during a wait in a queue.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(10);
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// The suffix of the fake host name in requests to a Unix socket; the number of the socket precedes it. It is never
/// resolved.
const SOCKET_HOST: &str = ".leasehold.localhost";

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// Returns the URL for requests to the Unix socket with this number.
pub(crate) fn url_of_socket(number: usize) -> String {
    format!("http://{number}{SOCKET_HOST}")
}

/// Makes connections, with TLS where needed.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<Sockets>,
    timeout: Duration,
}

impl Connector {
    pub(crate) fn new(
        timeout: Duration,
        unix_paths: &Arc<[PathBuf]>,
        tls: &Arc<ClientConfig>,
    ) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeout));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        // It also receives `https` URLs.
        tcp.enforce_http(false);
        let sockets = Sockets { tcp, unix_paths: unix_paths.clone() };
        Self { https: HttpsConnector::from((sockets, tls.clone())), timeout }
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<Socket>;
    type Error = BoxError;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, timeout) = (self.https.call(uri), self.timeout);
        // The timeout includes the TLS handshake, because a server that accepts but does not respond to it is
        // unreachable too.
        Box::pin(async move {
            let late = |_| io::Error::from(io::ErrorKind::TimedOut);
            tokio::time::timeout(timeout, connecting).await.map_err(late)?
        })
    }
}

/// Makes unencrypted connections.
#[derive(Clone)]
pub(crate) struct Sockets {
    tcp: HttpConnector,
    unix_paths: Arc<[PathBuf]>,
}

impl Sockets {
    fn unix_path(&self, uri: &Uri) -> Option<PathBuf> {
        let number = uri.host()?.strip_suffix(SOCKET_HOST)?.parse::<usize>().ok()?;
        self.unix_paths.get(number).cloned()
    }
}

impl Service<Uri> for Sockets {
    type Response = Socket;
    type Error = BoxError;
    type Future = Connecting<Socket>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        if let Some(path) = self.unix_path(&uri) {
            return Box::pin(async move {
                Ok(Socket::Unix(TokioIo::new(UnixStream::connect(path).await?)))
            });
        }
        let connecting = self.tcp.call(uri);
        Box::pin(async move { Ok(Socket::Tcp(connecting.await?)) })
    }
}

pub(crate) enum Socket {
    Tcp(TokioIo<TcpStream>),
    Unix(TokioIo<UnixStream>),
}

/// Runs the same expression on either kind of stream.
macro_rules! either {
    ($socket:expr, $stream:ident => $answer:expr) => {
        match $socket.get_mut() {
            Socket::Tcp($stream) => $answer,
            Socket::Unix($stream) => $answer,
        }
    };
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        match self {
            Socket::Tcp(stream) => stream.connected(),
            Socket::Unix(_) => Connected::new(),
        }
    }
}

impl Read for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl Write for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
