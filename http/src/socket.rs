//! A byte stream to a client, over TCP or a Unix socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use tokio::io::{Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A connection that no thread serves yet.
pub(super) enum Unserved {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Unserved {
    /// Converts it to a socket that this thread serves from now on.
    pub(super) fn serve(self) -> io::Result<Socket> {
        Ok(match self {
            Unserved::Tcp(stream) => Socket::Tcp(TcpStream::from_std(stream)?),
            Unserved::Unix(stream) => Socket::Unix(UnixStream::from_std(stream)?),
        })
    }
}

pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Calls the same method on either kind of socket.
macro_rules! either {
    ($socket:expr, $stream:ident => $answer:expr) => {
        match $socket {
            Socket::Tcp($stream) => $answer,
            Socket::Unix($stream) => $answer,
        }
    };
}

impl Socket {
    /// The TCP socket, which has more options.
    pub(super) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Socket::Tcp(stream) => Some(stream),
            Socket::Unix(_) => None,
        }
    }

    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        either!(self, stream => stream.ready(interest).await)
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        either!(self, stream => stream.readable().await)
    }

    pub(super) fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        either!(self, stream => stream.try_read(bytes))
    }

    pub(super) fn try_read_buf(&self, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        either!(self, stream => stream.try_read_buf(buffer))
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        either!(self, stream => stream.try_write(bytes))
    }

    pub(super) fn try_io<R>(
        &self,
        interest: Interest,
        io: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        either!(self, stream => stream.try_io(interest, io))
    }

    pub(super) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read_ready(context))
    }

    pub(super) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_write_ready(context))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(self, stream => stream.as_fd())
    }
}
