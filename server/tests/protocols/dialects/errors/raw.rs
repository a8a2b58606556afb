//! A raw TCP connection, for requests that the HTTP client cannot send: odd headers, half a body, a stream without an
//! end.

use std::net::SocketAddr;

use tokio::net::TcpStream;

pub(crate) struct Raw {
    stream: TcpStream,
    seen: String,
}

impl Raw {
    /// Opens a connection and sends these bytes.
    pub(crate) async fn send(address: SocketAddr, bytes: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let mut rest = bytes.as_bytes();
        while !rest.is_empty() {
            stream.writable().await.expect("a connection");
            rest = &rest[stream.try_write(rest).unwrap_or(0)..];
        }
        Self { stream, seen: String::new() }
    }

    /// Sends a `GET` with these headers. Each header must end in a line break.
    pub(crate) async fn get(address: SocketAddr, path: &str, headers: &str) -> Self {
        Self::send(address, &format!("GET {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n")).await
    }

    /// Reads up to and including the next `mark`. Returns everything that was not returned before.
    pub(crate) async fn until(&mut self, mark: &str) -> String {
        loop {
            if let Some(at) = self.seen.find(mark) {
                let rest = self.seen.split_off(at + mark.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(self.read().await, "it ended without {mark:?}: {}", self.seen);
        }
    }

    /// Reads more bytes. Returns `false` at the end of the stream.
    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            self.stream.readable().await.expect("a connection");
            match self.stream.try_read(&mut bytes) {
                Ok(n) => {
                    self.seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
                    return n > 0;
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
    }
}
