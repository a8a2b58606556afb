//! A connection that delays its answers to the pings with which etcd measures bandwidth.
//!
//! When etcd's gRPC library receives data, it sends such a ping to estimate the size of the flow-control window, but
//! only while none is pending. If each were answered immediately, every call would cost an extra ping: one packet for
//! us, and one for etcd, which wakes up for it while it processes the call. Answering about once a second costs almost
//! nothing. All other pings are answered immediately.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long an answer to a ping is delayed. It is sent with the first write after that.
const KEPT: Duration = Duration::from_secs(1);

/// The length of the HTTP/2 connection preface, which is not a frame.
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
/// An answer to such a ping: 8 bytes, PING, ACK, stream 0, and the payload that only these pings have.
const PONG: [u8; HEAD_BYTES + 8] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 2, 4, 16, 16, 9, 14, 7, 7];

/// A connection to which HTTP/2 frames are written.
pub(crate) struct Unhurried {
    socket: TcpStream,
    frames: Frames,
    kept: Option<Kept>,
}

/// A delayed answer to a ping.
struct Kept {
    since: Instant,
    /// How many bytes of the answer were written after the delay.
    n_written: usize,
}

impl Unhurried {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self { socket, frames: Frames::default(), kept: None }
    }

    /// Delays the answer if `bytes` is exactly such an answer. Returns whether it is delayed.
    fn keeps(&mut self, bytes: &[u8]) -> bool {
        let is_kept = self.frames.is_between() && bytes == PONG && self.kept.is_none();
        if is_kept {
            self.kept = Some(Kept { since: Instant::now(), n_written: 0 });
        }
        is_kept
    }

    /// Writes the delayed answer if its time has come and a frame can start here.
    fn poll_pong(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(kept) = &mut self.kept else { return Poll::Ready(Ok(())) };
        if !self.frames.is_between() || kept.since.elapsed() < KEPT {
            return Poll::Ready(Ok(()));
        }
        while kept.n_written < PONG.len() {
            let left = &PONG[kept.n_written..];
            match ready!(Pin::new(&mut self.socket).poll_write(context, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => kept.n_written += n,
            }
        }
        self.kept = None;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Unhurried {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pong(context))?;
        if let [bytes] = parts
            && self.keeps(bytes)
        {
            return Poll::Ready(Ok(bytes.len()));
        }
        let n = ready!(Pin::new(&mut self.socket).poll_write_vectored(context, parts))?;
        let mut left = n;
        for part in parts {
            let written = &part[..left.min(part.len())];
            self.frames.wrote(written);
            left -= written.len();
        }
        Poll::Ready(Ok(n))
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl AsyncRead for Unhurried {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(context, into)
    }
}

/// The position within the stream of frames that is written.
struct Frames {
    /// Bytes left until the next frame starts. `None` if the position is no longer known: nothing is delayed then.
    left: Option<usize>,
}

impl Default for Frames {
    fn default() -> Self {
        Self { left: Some(PREFACE_BYTES) }
    }
}

impl Frames {
    fn is_between(&self) -> bool {
        self.left == Some(0)
    }

    fn wrote(&mut self, bytes: &[u8]) {
        let Some(mut at) = self.left else { return };
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            // Only a part of the frame header was written.
            let Some(&[a, b, c, ..]) = rest.first_chunk::<HEAD_BYTES>() else {
                self.left = None;
                return;
            };
            at += HEAD_BYTES + u32::from_be_bytes([0, a, b, c]) as usize;
        }
        self.left = Some(at - bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// An answer to a keep-alive ping.
    const ANOTHER: [u8; 17] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

    /// Returns a DATA frame with `n` bytes.
    fn data(n: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, n, 0, 0, 0, 0, 0, 1];
        frame.resize(HEAD_BYTES + usize::from(n), b'x');
        frame
    }

    /// Returns the bytes that arrive of those written to a new connection.
    fn arrives<F: Future<Output = ()>>(write: impl FnOnce(Unhurried) -> F) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let mut connection = Unhurried::new(TcpStream::connect(address).await.expect("there"));
            let (mut other, _) = listener.accept().await.expect("a connection");
            connection.write_all(&[b'P'; PREFACE_BYTES]).await.expect("written");
            write(connection).await;
            let mut all = Vec::new();
            other.read_to_end(&mut all).await.expect("read");
            all.split_off(PREFACE_BYTES)
        })
    }

    async fn write(to: &mut Unhurried, parts: &[&[u8]]) {
        let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let n_bytes: usize = parts.iter().map(|part| part.len()).sum();
        assert_eq!(to.write_vectored(&parts).await.expect("written"), n_bytes);
    }

    #[test]
    fn an_answer_is_kept_back_and_goes_with_what_is_written_a_second_later() {
        let seen = arrives(async |mut to| {
            write(&mut to, &[&PONG]).await;
            write(&mut to, &[&data(3)]).await;
            to.kept.as_mut().expect("kept back").since -= KEPT;
            write(&mut to, &[&data(4)]).await;
            assert!(to.kept.is_none());
        });
        assert_eq!(seen, [data(3), PONG.to_vec(), data(4)].concat());
    }

    #[test]
    fn every_other_answer_is_written_at_once() {
        let seen = arrives(async |mut to| {
            write(&mut to, &[&PONG]).await;
            write(&mut to, &[&ANOTHER]).await;
            write(&mut to, &[&PONG]).await;
        });
        assert_eq!(seen, [ANOTHER, PONG].concat(), "and one that was asked for again");
    }

    #[test]
    fn what_only_looks_like_an_answer_is_written() {
        let (head, looks) = (data(PONG.len() as u8)[..HEAD_BYTES].to_vec(), PONG);
        let seen = arrives(async |mut to| {
            // The bytes within a DATA frame of the same size: first in two writes, then in one write with two parts.
            write(&mut to, &[&head]).await;
            write(&mut to, &[&looks]).await;
            write(&mut to, &[&head, &looks]).await;
            // Together with another frame.
            write(&mut to, &[&PONG, &data(1)]).await;
            assert!(to.frames.is_between() && to.kept.is_none());
        });
        let twice = [head.clone(), looks.to_vec(), head, looks.to_vec()].concat();
        assert_eq!(seen, [twice, PONG.to_vec(), data(1)].concat());
    }

    #[test]
    fn where_a_head_was_written_in_part_nothing_is_kept_back_any_more() {
        let frame = data(2);
        let seen = arrives(async |mut to| {
            write(&mut to, &[&frame[..4]]).await;
            write(&mut to, &[&frame[4..]]).await;
            write(&mut to, &[&PONG]).await;
        });
        assert_eq!(seen, [frame.clone(), PONG.to_vec()].concat());
    }
}
