//! The socket under a connection: HTTP or TLS reads and writes it, and the server watches and closes it.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use super::socket::Socket;

/// Maximum bytes that are discarded of what a client still sends after the last response.
pub(super) const DISCARDED_BYTES_MAX: usize = 16 << 20;
/// Time limits for discarding: while the client sends, and while it is silent or has sent too much.
pub(super) const DISCARDING_MAX: Duration = Duration::from_secs(5);
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(1);
/// Number of unanswered keep-alive probes after which a silent host counts as gone.
const N_PROBES: u32 = 4;

/// The server's end of a connection. Cheap to clone.
#[derive(Clone)]
pub(super) struct Wire(Arc<Socket>);

impl Wire {
    pub(super) fn new(socket: Socket) -> Self {
        Self(Arc::new(socket))
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.0
    }

    /// Turns on TCP keep-alive, so that a dead client is noticed after `timeout`, even while it does not acknowledge
    /// data. Local clients need no keep-alive, because the system notices their end.
    pub(super) fn keep_alive(&self, timeout: Duration) -> io::Result<()> {
        let Some(stream) = self.0.tcp() else { return Ok(()) };
        // A third of the time passes before the first probe, and the rest between the probes. The minimum is a second.
        let least = Duration::from_secs(1);
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, (timeout / 3).max(least))?;
        sockopt::set_tcp_keepintvl(stream, (timeout / 6).max(least))?;
        sockopt::set_tcp_keepcnt(stream, N_PROBES)?;
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        Ok(sockopt::set_tcp_user_timeout(stream, timeout_ms)?)
    }

    pub(super) fn set_nodelay(&self) {
        if let Some(stream) = self.0.tcp() {
            // Without this option, the connection is only slower.
            let _ = stream.set_nodelay(true);
        }
    }

    /// Returns when the client has closed its side or is gone, even if bytes that it sent before are still unread. HTTP
    /// notices this only after reading all bytes, which it does not do during a request.
    pub(super) async fn closed_by_client(&self) {
        // Interest in priority data or errors also reports the end of the stream, but not arriving data.
        let _ = self.0.ready(Interest::PRIORITY | Interest::ERROR).await;
    }

    /// Closes the sending side and reads for a while. A client that is still sending when the server closes gets a
    /// broken connection and might never read the response, because most programs read only after they have sent
    /// everything. If a client sends more than the server discards, the server stops reading but keeps the connection
    /// until the time is over, so that the client can read.
    pub(super) async fn linger(&self) {
        let _ = rustix::net::shutdown(&*self.0, rustix::net::Shutdown::Write);
        let lingering = async {
            self.discard().await;
            let _ = tokio::time::timeout(SILENCE_MAX, self.closed_by_client()).await;
        };
        let _ = tokio::time::timeout(DISCARDING_MAX, lingering).await;
    }

    /// Returns at the end of the stream, or after the maximum number of bytes to discard.
    async fn discard(&self) {
        let mut bytes = vec![0; 16 * 1024];
        let mut n_discarded = 0;
        while n_discarded < DISCARDED_BYTES_MAX {
            let readable = tokio::time::timeout(SILENCE_MAX, self.0.readable()).await;
            if !readable.is_ok_and(|readable| readable.is_ok()) {
                return;
            }
            match self.0.try_read(&mut bytes) {
                Ok(0) => return,
                Ok(n) => n_discarded += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = &self.0;
        loop {
            ready!(stream.poll_read_ready(context))?;
            let room = buffer.remaining();
            match stream.try_read_buf(buffer) {
                Ok(n) => {
                    if 0 < n && n < room {
                        // All available bytes were read. Knowing that saves a system call.
                        let _ = stream.try_io(Interest::READABLE, nothing_more);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

fn nothing_more() -> io::Result<()> {
    Err(ErrorKind::WouldBlock.into())
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = &self.0;
        loop {
            ready!(stream.poll_write_ready(context))?;
            match stream.try_write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = rustix::net::shutdown(&*self.0, rustix::net::Shutdown::Write);
        Poll::Ready(match done {
            // The client closed first.
            Err(rustix::io::Errno::NOTCONN) => Ok(()),
            done => Ok(done?),
        })
    }
}
