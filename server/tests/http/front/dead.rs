//! Tests of waiters whose clients have disconnected.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_testkit::{Client, Local, json};
use tokio::net::TcpStream;

use crate::front::{PATIENCE, Raw, until_waiting, wait};

/// How a client disconnects.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Going {
    /// Closes the connection.
    Fin,
    /// Resets the connection.
    Rst,
    /// Sends more bytes after its request, and closes the connection.
    BytesBehind,
    /// Sends a complete second request, and closes the connection.
    Pipelined,
    /// Resets its HTTP/2 stream.
    Reset,
}

const KINDS: [Going; 5] =
    [Going::Fin, Going::Rst, Going::BytesBehind, Going::Pipelined, Going::Reset];

/// A waiter that is still connected.
enum Waiter {
    Raw(Raw, Going),
    Stream(tokio::task::JoinHandle<()>),
}

impl Waiter {
    async fn begin(address: SocketAddr, going: Going, http2: &SendRequest<Full<Bytes>>) -> Self {
        let owner = format!("dead-{going:?}");
        if going == Going::Reset {
            let body = json!({"owner_id": owner, "ttl_ms": 60_000, "wait_ms": 60_000}).to_string();
            let request = hyper::Request::post(format!("http://{address}/v1/locks/db/acquire"))
                .body(Full::from(body))
                .unwrap();
            let mut http2 = http2.clone();
            return Self::Stream(tokio::spawn(async move {
                let _ = http2.send_request(request).await;
            }));
        }
        let mut raw = Raw::connect(address).await;
        raw.send(wait("db", &owner)).await;
        match going {
            Going::BytesBehind => raw.send("\r\n").await,
            Going::Pipelined => raw.send(wait("db", &owner)).await,
            _ => {}
        }
        Self::Raw(raw, going)
    }

    fn go(self) {
        match self {
            Self::Stream(task) => task.abort(),
            Self::Raw(raw, Going::Rst) => {
                raw.0.set_zero_linger().unwrap();
            }
            Self::Raw(..) => {}
        }
    }
}

async fn connect_http2(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_dead_waiters_in_front_delay_no_other_client() {
    let local = Local::ephemeral().await;
    let held = local.client.acquire("db", "holder", 60_000, json!({})).await;
    let http2 = connect_http2(local.address).await;
    let mut waiters = Vec::new();
    for n in 0..500 {
        waiters.push(Waiter::begin(local.address, KINDS[n % KINDS.len()], &http2).await);
    }
    until_waiting(&local, "db", 500).await;
    let client = Client::new(local.address);
    let live = tokio::spawn(async move {
        client.acquire("db", "live", 60_000, json!({"wait_ms": 60_000})).await
    });
    until_waiting(&local, "db", 501).await;
    waiters.into_iter().for_each(Waiter::go);
    let began = Instant::now();
    until_waiting(&local, "db", 1).await;
    println!("500 dead waiters were gone after {:?}", began.elapsed());
    assert_eq!(local.client.release(&held, json!({})).await.status, 200);
    let began = Instant::now();
    let granted = tokio::time::timeout(PATIENCE, live).await.expect("the dead ones have it");
    println!("the live one had the lock after {:?}", began.elapsed());
    let granted = granted.unwrap();
    assert_eq!((granted.status, granted.number("fencing_token")), (200, 2), "no dead one had it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_goes_while_its_lock_becomes_free_does_not_keep_it() {
    let local = Local::ephemeral().await;
    let http2 = connect_http2(local.address).await;
    for going in KINDS {
        let held = local.client.acquire("db", "holder", 60_000, json!({})).await;
        assert_eq!(held.status, 200, "{going:?}");
        let waiter = Waiter::begin(local.address, going, &http2).await;
        until_waiting(&local, "db", 1).await;
        // The server needs a moment to notice that the connection waits.
        tokio::time::sleep(Duration::from_millis(20)).await;
        waiter.go();
        until_waiting(&local, "db", 0).await;
        assert_eq!(local.client.release(&held, json!({})).await.status, 200);
        assert_eq!(local.client.get("/v1/locks/db").await.get("held"), false, "{going:?}");
    }
}

#[tokio::test]
async fn a_client_that_closes_its_side_after_asking_is_answered() {
    use tokio::io::AsyncWriteExt;
    let local = Local::ephemeral().await;
    let mut raw = Raw::connect(local.address).await;
    let health = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    raw.send(health.repeat(3)).await;
    raw.0.shutdown().await.unwrap();
    let answers = raw.rest().await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
}
