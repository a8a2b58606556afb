//! The transport under HTTP: a socket, or TLS over a socket. It tracks which bytes the system has accepted.
//!
//! Without TLS, the client might read a byte once the system has accepted it. With TLS, nothing of a record can be read
//! before its last byte, and bytes given to TLS might still be in its buffer. So one record is written at a time, and
//! its bytes count as accepted exactly when the system has accepted the whole record.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::frames::Frames;
use super::head::Heads;
use super::intake::Counted;
use super::outgoing::Outgoing;
use super::wire::Wire;

const RECORD_BYTES_MAX: usize = 16 * 1024;

/// The transport of one connection.
pub struct Line {
    kind: Transport,
    outgoing: Arc<Outgoing>,
    /// Checks received HTTP/1 bytes.
    heads: Option<Heads>,
    /// Follows received HTTP/2 frames.
    frames: Option<Frames>,
    /// Counts received bytes.
    counted: Option<Counted>,
}

enum Transport {
    Clear(Wire),
    Secured(Box<Secured>),
}

struct Secured {
    tls: TlsStream<Wire>,
    /// Size of the record that is being sent.
    n_in_record: usize,
}

impl Line {
    pub(super) fn clear(wire: Wire) -> Self {
        Self::new(Transport::Clear(wire))
    }

    pub(super) fn secured(tls: TlsStream<Wire>) -> Self {
        let secured = Secured { tls, n_in_record: 0 };
        Self::new(Transport::Secured(Box::new(secured)))
    }

    fn new(kind: Transport) -> Self {
        Self { kind, outgoing: Arc::default(), heads: None, frames: None, counted: None }
    }

    /// Also rejects ambiguous HTTP/1 heads, and limits the time for HTTP/2 headers.
    pub(super) fn with_heads(self) -> Self {
        Self { heads: Some(Heads::new()), frames: Some(Frames::new()), ..self }
    }

    /// Also counts all bytes received from now on.
    pub(super) fn counted(self, counted: Counted) -> Self {
        Self { counted: Some(counted), ..self }
    }

    /// The tracker of sent bytes.
    pub(super) fn outgoing(&self) -> &Arc<Outgoing> {
        &self.outgoing
    }

    /// The underlying socket.
    pub(super) fn wire(&self) -> &Wire {
        match &self.kind {
            Transport::Clear(wire) => wire,
            Transport::Secured(secured) => secured.tls.get_ref().0,
        }
    }
}

impl Secured {
    /// Returns when the system has accepted the whole record, and records that.
    fn poll_sent(
        &mut self,
        outgoing: &Outgoing,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.tls).poll_flush(context))?;
        outgoing.accepted(std::mem::take(&mut self.n_in_record));
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        outgoing: &Outgoing,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.tls.get_ref().1.wants_write() {
            ready!(self.poll_sent(outgoing, context))?;
        }
        let record = &bytes[..bytes.len().min(RECORD_BYTES_MAX)];
        let n = ready!(Pin::new(&mut self.tls).poll_write(context, record))?;
        self.n_in_record += n;
        if !self.tls.get_ref().1.wants_write() {
            outgoing.accepted(std::mem::take(&mut self.n_in_record));
        }
        Poll::Ready(Ok(n))
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { kind, heads, frames, counted, .. } = &mut *self;
        if let Some(poison) = heads.as_mut().and_then(|heads| heads.poison(buffer.remaining())) {
            buffer.put_slice(poison);
            return Poll::Ready(Ok(()));
        }
        let (n_before, n_room) = (buffer.filled().len(), buffer.remaining());
        ready!(match kind {
            Transport::Clear(wire) => Pin::new(wire).poll_read(context, buffer),
            Transport::Secured(secured) => Pin::new(&mut secured.tls).poll_read(context, buffer),
        })?;
        if let Some(counted) = counted {
            counted.heard(n_room - buffer.remaining(), n_room);
            if let Some(following) = frames {
                match following.follow(&buffer.filled()[n_before..]) {
                    Some(headers) => counted.follow(headers),
                    None => *frames = None,
                }
            }
        }
        if let Some(heads) = heads {
            let n_kept = heads.follow(&buffer.filled()[n_before..]);
            buffer.set_filled(n_before + n_kept);
            if let Some(poison) = heads.poison(buffer.remaining()) {
                tracing::debug!("refused a request whose head can be read in two ways");
                buffer.put_slice(poison);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { kind, outgoing, .. } = &mut *self;
        match kind {
            Transport::Clear(wire) => {
                let Poll::Ready(n) = Pin::new(wire).poll_write(context, bytes)? else {
                    outgoing.stalls();
                    return Poll::Pending;
                };
                outgoing.accepted(n);
                Poll::Ready(Ok(n))
            }
            Transport::Secured(secured) => {
                let written = secured.poll_write(outgoing, context, bytes);
                if written.is_pending() {
                    outgoing.stalls();
                }
                written
            }
        }
    }

    /// HTTP calls this after all its output was written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { kind, outgoing, .. } = &mut *self;
        if let Transport::Secured(secured) = kind {
            ready!(secured.poll_sent(outgoing, context))?;
        }
        outgoing.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Transport::Clear(wire) => Pin::new(wire).poll_shutdown(context),
            Transport::Secured(secured) => Pin::new(&mut secured.tls).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use leasehold_testkit::{Ca, Issued};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio_rustls::{TlsAcceptor, TlsConnector, client};

    use super::super::socket::Socket;
    use super::*;

    const BYTES: [u8; 10_000] = [7; 10_000];

    /// Creates both ends of a connection.
    async fn pair() -> (Line, client::TlsStream<UnixStream>) {
        let ca = Ca::new("servers");
        let Issued { certificate, key } = ca.server();
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_no_client_auth()
            .with_single_cert(vec![der(&certificate)], key)
            .expect("a pair");
        let mut roots = RootCertStore::empty();
        roots.add(der(&ca.pem())).expect("a CA");
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let name = ServerName::try_from("localhost").expect("a name");
        let (acceptor, connector) =
            (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)));
        let (secured, client) = tokio::join!(
            acceptor.accept(Wire::new(Socket::Unix(ours))),
            connector.connect(name, theirs)
        );
        (Line::secured(secured.expect("TLS")), client.expect("TLS"))
    }

    /// Writes until the system accepts no more. Returns how many bytes were accepted.
    async fn fill(line: &mut Line) -> u64 {
        let mut n_written = 0;
        loop {
            let written =
                poll_fn(|context| Poll::Ready(Pin::new(&mut *line).poll_write(context, &BYTES)));
            match written.await {
                Poll::Ready(n) => n_written += n.expect("written") as u64,
                Poll::Pending => return n_written,
            }
        }
    }

    #[tokio::test]
    async fn what_counts_as_accepted_is_what_the_client_can_read() {
        let (mut line, mut client) = pair().await;
        let outgoing = line.outgoing().clone();
        let n_written = fill(&mut line).await;
        let n_stuck = n_written - outgoing.n_accepted();
        assert!(0 < n_stuck && n_stuck <= RECORD_BYTES_MAX as u64, "one record: {n_stuck}");
        let flushed = poll_fn(|context| Poll::Ready(Pin::new(&mut line).poll_flush(context)));
        assert!(flushed.await.is_pending());
        // Bytes that the system has not accepted are lost.
        let socket = line.wire().clone();
        rustix::net::shutdown(socket.socket(), rustix::net::Shutdown::Write).expect("a socket");
        let (mut n_read, mut bytes) = (0, vec![0; 65_536]);
        while let Ok(n @ 1..) = client.read(&mut bytes).await {
            n_read += n as u64;
        }
        assert_eq!(n_read, outgoing.n_accepted());
    }

    #[tokio::test]
    async fn everything_is_accepted_once_it_is_flushed() {
        let (mut line, mut client) = pair().await;
        let outgoing = line.outgoing().clone();
        let n_written = fill(&mut line).await;
        let mut bytes = vec![0; n_written as usize];
        let (flushed, read) = tokio::join!(line.flush(), client.read_exact(&mut bytes));
        assert!(flushed.is_ok() && read.is_ok());
        assert_eq!(outgoing.n_accepted(), n_written);
    }
}
