//! Tests of the HTTP front end from outside: raw bytes on connections, and how the server treats the clients that send
//! them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they measured"
)]

mod dead;
mod form;
mod heads;
mod linger;
mod places;
mod untaken;

use std::net::SocketAddr;
use std::time::Duration;

use leasehold_core::LockKey;
use leasehold_engine::ReadLock;
use leasehold_testkit::{Local, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Test timeout, longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(180);

/// A raw TCP connection.
struct Raw(TcpStream);

impl Raw {
    async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    /// Sends bytes until the other side stops accepting them.
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.0.write_all(bytes.as_ref()).await;
    }

    /// Reads until the end of the stream.
    async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let reading = self.0.read_to_end(&mut bytes);
        let _ = tokio::time::timeout(PATIENCE, reading).await.expect("it never ended");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads one response with a content length.
    async fn answer(&mut self) -> String {
        let mut bytes = Vec::new();
        let reading = async {
            while !is_whole(&bytes) && self.0.read_buf(&mut bytes).await.unwrap_or(0) > 0 {}
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("no answer");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
    body.len() >= length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)
}

/// Sends these bytes on a new connection that ends after one request. Returns the response.
async fn ask(address: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut raw = Raw::connect(address).await;
    raw.send(bytes).await;
    raw.answer().await
}

/// Returns a `POST` request with a JSON body.
fn post(path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Returns an acquire request that waits for `lock`.
fn wait(lock: &str, owner: &str) -> String {
    let body = json!({"owner_id": owner, "ttl_ms": 60_000, "wait_ms": 60_000});
    post(&format!("/v1/locks/{lock}/acquire"), &body)
}

/// Waits until this many clients wait for the lock. Reads the engine directly, because a connection would use up a
/// connection slot.
async fn until_waiting(local: &Local, lock: &str, n_waiting: usize) {
    let engine = local.server.engine();
    let is_so = async |_: &leasehold_testkit::Client| {
        let read = ReadLock { key: LockKey::new("default", lock), n_queue_max: 0 };
        let view = engine.ask_unchecked(read).await.expect("the engine runs");
        view.map_or(0, |view| view.n_waiting) == n_waiting
    };
    local.until(&format!("{n_waiting} wait"), is_so).await;
}
