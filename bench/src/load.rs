//! The load: keep-alive connections, one request at a time on each, no pipelining.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One connection with its buffers.
pub(crate) struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, out: Vec::new(), answer: vec![0; 4096] }
    }

    /// Sends one request and returns status and body of its answer.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> (u16, String) {
        use std::io::Write as _;
        self.out.clear();
        let n = body.len();
        let _ = write!(
            self.out,
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {n}\r\n\r\n{body}"
        );
        self.stream.write_all(&self.out).await.expect("sent");
        let mut n_read = 0;
        loop {
            let n = self.stream.read(&mut self.answer[n_read..]).await.expect("read");
            assert!(n > 0, "the server hung up");
            n_read += n;
            if let Some(done) = complete(&self.answer[..n_read]) {
                return done;
            }
        }
    }
}

/// Status and body, if all of it is there.
fn complete(bytes: &[u8]) -> Option<(u16, String)> {
    let head = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).ok()?.to_ascii_lowercase();
    let length =
        text.split("content-length: ").nth(1)?.split("\r\n").next()?.parse::<usize>().ok()?;
    let body = bytes.get(head..head + length)?;
    Some((text.get(9..12)?.parse().ok()?, String::from_utf8_lossy(body).into_owned()))
}

/// What one connection does, again and again; returns how many requests it made.
pub(crate) trait Work: Copy + 'static {
    async fn once(self, connection: &mut Connection, n: usize, round: usize) -> usize;
}

/// Runs `work` on `n_connections` for `seconds`; requests per second and the latency of each round.
pub(crate) fn run(
    address: SocketAddr,
    n_connections: usize,
    seconds: f64,
    work: impl Work,
) -> (f64, Vec<Duration>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let began = Instant::now();
        let until = began + Duration::from_secs_f64(seconds);
        let one = move |n: usize| async move {
            let mut connection = Connection::open(address).await;
            let (mut n_requests, mut latencies) = (0, Vec::new());
            let mut round = 0;
            while Instant::now() < until {
                let sent_at = Instant::now();
                n_requests += work.once(&mut connection, n, round).await;
                latencies.push(sent_at.elapsed());
                round += 1;
            }
            (n_requests, latencies)
        };
        let spawned: Vec<_> =
            (0..n_connections).map(|n| tokio::task::spawn_local(one(n))).collect();
        let (mut n_requests, mut latencies) = (0, Vec::new());
        for task in spawned {
            let (n, more) = task.await.expect("no panic");
            n_requests += n;
            latencies.extend(more);
        }
        (n_requests as f64 / began.elapsed().as_secs_f64(), latencies)
    })
}

/// Acquire, then release.
#[derive(Clone, Copy)]
pub(crate) struct AcquireRelease;

impl Work for AcquireRelease {
    async fn once(self, connection: &mut Connection, n: usize, round: usize) -> usize {
        let path = format!("/v1/locks/bench-{n}-{}", round % 64);
        let body = format!("{{\"owner_id\":\"c{n}\",\"ttl_ms\":60000}}");
        let (status, answer) = connection.post(&format!("{path}/acquire"), &body).await;
        assert_eq!(status, 200, "{answer}");
        let id = text(&answer, "\"lease_id\":\"", '"');
        let token = text(&answer, "\"fencing_token\":", ',');
        let body =
            format!("{{\"owner_id\":\"c{n}\",\"lease_id\":\"{id}\",\"fencing_token\":{token}}}");
        let (status, answer) = connection.post(&format!("{path}/release"), &body).await;
        assert_eq!(status, 200, "{answer}");
        2
    }
}

/// The same two requests to somebody who does not care.
#[derive(Clone, Copy)]
pub(crate) struct Hello;

impl Work for Hello {
    async fn once(self, connection: &mut Connection, n: usize, round: usize) -> usize {
        let path = format!("/v1/locks/bench-{n}-{}/acquire", round % 64);
        let body = format!("{{\"owner_id\":\"c{n}\",\"ttl_ms\":60000}}");
        for _ in 0..2 {
            assert_eq!(connection.post(&path, &body).await.0, 200);
        }
        2
    }
}

fn text<'a>(answer: &'a str, after: &str, until: char) -> &'a str {
    let rest = answer.split_once(after).map_or("", |(_, rest)| rest);
    rest.split(until).next().unwrap_or("")
}
