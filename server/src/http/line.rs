//! What HTTP is spoken over: a socket, or TLS over a socket. It knows which answers the system has taken.
//!
//! In the clear, a byte that the system has accepted may be read by the client. Under TLS nothing of a record can be
//! read before its last byte is there, and what TLS was given may still be in its buffer. So one record is written at a
//! time, and its bytes count as accepted when the system has accepted all of it: not before, and not later because
//! another record is stuck behind it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::outgoing::Outgoing;
use super::wire::Wire;

/// A TLS record has no more.
const RECORD_BYTES_MAX: usize = 16 * 1024;

/// What HTTP is spoken over.
pub(super) struct Line {
    kind: Kind,
    outgoing: Arc<Outgoing>,
}

enum Kind {
    Clear(Wire),
    Secured(Box<Secured>),
}

struct Secured {
    tls: TlsStream<Wire>,
    /// Bytes in the record that is being sent.
    n_in_record: usize,
}

impl Line {
    pub(super) fn clear(wire: Wire) -> Self {
        Self { kind: Kind::Clear(wire), outgoing: Arc::default() }
    }

    pub(super) fn secured(tls: TlsStream<Wire>) -> Self {
        let secured = Secured { tls, n_in_record: 0 };
        Self { kind: Kind::Secured(Box::new(secured)), outgoing: Arc::default() }
    }

    /// What is written to it.
    pub(super) fn outgoing(&self) -> &Arc<Outgoing> {
        &self.outgoing
    }

    /// The socket under it.
    pub(super) fn wire(&self) -> &Wire {
        match &self.kind {
            Kind::Clear(wire) => wire,
            Kind::Secured(secured) => secured.tls.get_ref().0,
        }
    }
}

impl Secured {
    /// Returns when the system has all of the record, and tells of it.
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
        match &mut self.kind {
            Kind::Clear(wire) => Pin::new(wire).poll_read(context, buffer),
            Kind::Secured(secured) => Pin::new(&mut secured.tls).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { kind, outgoing } = &mut *self;
        match kind {
            Kind::Clear(wire) => {
                let n = ready!(Pin::new(wire).poll_write(context, bytes))?;
                outgoing.accepted(n);
                Poll::Ready(Ok(n))
            }
            Kind::Secured(secured) => secured.poll_write(outgoing, context, bytes),
        }
    }

    /// HTTP asks for this once everything it had was written.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { kind, outgoing } = &mut *self;
        if let Kind::Secured(secured) = kind {
            ready!(secured.poll_sent(outgoing, context))?;
        }
        outgoing.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Clear(wire) => Pin::new(wire).poll_shutdown(context),
            Kind::Secured(secured) => Pin::new(&mut secured.tls).poll_shutdown(context),
        }
    }
}
