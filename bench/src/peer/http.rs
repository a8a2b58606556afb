//! A minimal HTTP/1.1 client, because a load generator must cost less than what it measures.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection with its buffers.
pub(crate) struct Connection<S = TcpStream> {
    stream: S,
    /// An additional header of every request.
    header: String,
    out: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, header: String::new(), out: Vec::new(), answer: vec![0; 8192] }
    }

    /// Returns the connection with this additional header, `name: value`.
    pub(crate) fn with_header(self, header: &str) -> Self {
        Self { header: format!("{header}\r\n"), ..self }
    }

    pub(crate) async fn post(&mut self, path: &str, body: &str) -> (u16, &str) {
        self.send("POST", path, body).await
    }

    /// Sends one request, and returns the status and body of the response.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &str) -> (u16, &str) {
        use std::io::Write as _;
        self.out.clear();
        let (n, header) = (body.len(), &self.header);
        let _ = write!(
            self.out,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {n}\r\n{header}\r\n{body}"
        );
        self.stream.write_all(&self.out).await.expect("sent");
        self.stream.flush().await.expect("sent");
        let mut n_read = 0;
        loop {
            if n_read == self.answer.len() {
                self.answer.resize(2 * n_read, 0);
            }
            let n = self.stream.read(&mut self.answer[n_read..]).await.expect("read");
            assert!(n > 0, "the server hung up");
            n_read += n;
            if let Some((status, from, to)) = complete(&self.answer[..n_read]) {
                return (status, std::str::from_utf8(&self.answer[from..to]).unwrap_or(""));
            }
        }
    }
}

/// Returns the status, and the start and end of the body, if the response is complete.
fn complete(bytes: &[u8]) -> Option<(u16, usize, usize)> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?;
    let status = text.get(9..12)?.parse().ok()?;
    let mut lines = text.split("\r\n");
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    let length: usize = length.map_or(Ok(0), str::parse).ok()?;
    (bytes.len() >= head + length).then_some((status, head, head + length))
}

/// Returns the text between `after` and `until` in a JSON response.
pub(super) fn cut<'a>(answer: &'a str, after: &str, until: char) -> &'a str {
    let rest = answer.split_once(after).map_or("", |(_, rest)| rest);
    rest.split(until).next().unwrap_or("")
}
