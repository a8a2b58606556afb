//! Transports to a server for the delivery tests: plain TCP and TLS.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use leasehold_server::http::Listen;
use leasehold_testkit::{Ca, Local, folder, settings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;

/// How a client reaches its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Clear,
    Tls,
}

pub(crate) const WAYS: [Way; 2] = [Way::Clear, Way::Tls];

/// A byte stream over any transport.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A server, and the transport of its clients.
pub(crate) struct Scene {
    pub(crate) local: Local,
    /// Address that clients connect to.
    pub(crate) address: SocketAddr,
    connector: Option<TlsConnector>,
}

/// A connection. Dropping it resets the connection, so that unsent data is lost.
pub(crate) struct Connected {
    pub(crate) stream: Box<dyn Io>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) port: u16,
}

impl Scene {
    pub(crate) async fn new(way: Way) -> Self {
        if way == Way::Clear {
            let local = Local::ephemeral().await;
            return Self { address: local.address, local, connector: None };
        }
        let (folder, ca) = (folder(), Ca::new("servers"));
        let mut settings = settings(None);
        settings.listen.push(Listen::Https(([127, 0, 0, 1], 0).into()));
        settings.tls = Some(ca.server().write(folder.path(), "server"));
        let local = Local::start(settings).await;
        let address = local.server.listeners()[1].address().unwrap();
        Self { local, address, connector: Some(trusting(&ca)) }
    }

    /// Connects with a small receive buffer, so that little data fills it.
    pub(crate) async fn connect(&self) -> Connected {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        let port = stream.local_addr().unwrap().port();
        stream.set_zero_linger().unwrap();
        let gate = Arc::<Gate>::default();
        let gated = Gated { stream, gate: gate.clone() };
        let stream: Box<dyn Io> = match &self.connector {
            None => Box::new(gated),
            Some(connector) => {
                let name = ServerName::try_from("localhost").unwrap();
                Box::new(connector.connect(name, gated).await.unwrap())
            }
        };
        Connected { stream, gate, port }
    }
}

fn trusting(ca: &Ca) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// A connection that reads nothing while its gate is shut, and that fails when its gate is broken.
struct Gated {
    stream: TcpStream,
    gate: Arc<Gate>,
}

#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) is_shut: AtomicBool,
    is_broken: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl Gate {
    /// Breaks the connection for the task that reads from it.
    pub(crate) fn break_off(&self) {
        self.is_broken.store(true, SeqCst);
        let reader = self.reader.lock().unwrap().take();
        reader.unwrap().wake();
    }
}

impl AsyncRead for Gated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        *self.gate.reader.lock().unwrap() = Some(context.waker().clone());
        if self.gate.is_broken.load(SeqCst) {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        }
        if self.gate.is_shut.load(SeqCst) {
            return Poll::Pending;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Gated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
