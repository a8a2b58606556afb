//! Scenarios of what happens to a grant when its connection ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_testkit::{Client, Local, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::delivery::way::{Connected, Gate, Scene, WAYS, Way};
use crate::delivery::{Outcome, PATIENCE, is_held, until, until_alone, until_still, wanted};

/// Numbers of locks per request. The response to the larger group takes several TLS records, the other takes one.
pub(crate) const GROUPS: [usize; 2] = [64, 16];
/// More groups than there is buffer space for responses.
const GROUPS_MAX: usize = 1000;

fn post(path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// An HTTP/2 client.
struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    gate: Arc<Gate>,
    address: SocketAddr,
    port: u16,
}

impl Http2 {
    async fn connect(scene: &Scene) -> Self {
        let Connected { stream, gate, port } = scene.connect().await;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_connection_window_size(1 << 30)
            .initial_stream_window_size(1 << 30)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        Self { sender, gate, address: scene.address, port }
    }

    /// Sends a request in the background. The task returns the status of the response.
    fn send(&self, method: &str, path: &str, body: String) -> tokio::task::JoinHandle<Option<u16>> {
        let request = hyper::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address))
            .body(Full::from(body))
            .unwrap();
        let mut sender = self.sender.clone();
        tokio::spawn(async move {
            let response = sender.send_request(request).await.ok()?;
            let status = response.status().as_u16();
            response.into_body().collect().await.ok()?;
            Some(status)
        })
    }

    fn break_off(self) {
        self.gate.break_off();
    }
}

/// The protocol version that a client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Version {
    Http1,
    Http2,
}

pub(crate) const VERSIONS: [Version; 2] = [Version::Http1, Version::Http2];

/// A client that breaks its connection before its lock is free does not delay the waiters behind it.
pub(crate) async fn gone_before_the_answer(way: Way, version: Version) -> Outcome {
    let scene = Scene::new(way).await;
    let local = &scene.local;
    for n in 0..20 {
        let lock = format!("db-{n}");
        let n_waiting = async |n: u64| {
            let waiting = format!("{n} wait for {lock}");
            let path = format!("/v1/locks/{lock}");
            until(&waiting, async || {
                let lock = local.client.get(&path).await;
                lock.get("n_waiting").as_u64().unwrap_or(0) == n
            })
            .await
        };
        let held = local.client.acquire(&lock, "holder", crate::delivery::TTL_MS, json!({})).await;
        let (path, body) = (format!("/v1/locks/{lock}/acquire"), wanted("dead", 60_000));
        let (mut http1, mut http2) = (None, None);
        match version {
            Version::Http1 => {
                let mut connected = scene.connect().await;
                connected.stream.write_all(post(&path, &body).as_bytes()).await.unwrap();
                connected.stream.flush().await.unwrap();
                http1 = Some(connected);
            }
            Version::Http2 => {
                let client = Http2::connect(&scene).await;
                drop(client.send("POST", &path, body.to_string()));
                http2 = Some(client);
            }
        }
        n_waiting(1).await?;
        let (client, behind) = (Client::new(local.address), lock.clone());
        let live = tokio::spawn(async move {
            client
                .acquire(&behind, "live", crate::delivery::TTL_MS, json!({"wait_ms": 60_000}))
                .await
                .status
        });
        n_waiting(2).await?;
        // The test does not wait here, so the server can learn of the broken connection and of the release at the same
        // time.
        drop(http1);
        if let Some(http2) = http2 {
            http2.break_off();
            tokio::task::yield_now().await;
        }
        local.client.release(&held, json!({})).await;
        let served = tokio::time::timeout(PATIENCE, live).await;
        let status =
            served.map_err(|_| format!("{way:?}, {version:?}, {n}: the dead one has the lock"))?;
        assert_eq!(status.unwrap(), 200, "{way:?}, {version:?}, {n}");
    }
    Ok(())
}

/// A client that received its response keeps its lock until it expires, even after the connection has ended.
pub(crate) async fn gone_after_the_answer(way: Way, version: Version) -> Outcome {
    let scene = Scene::new(way).await;
    let local = &scene.local;
    match version {
        Version::Http1 => {
            let Connected { mut stream, .. } = scene.connect().await;
            let request = post("/v1/locks/db/acquire", &wanted("a", 0));
            stream.write_all(request.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            let mut answer = String::new();
            while !answer.ends_with('}') {
                let mut bytes = [0; 1024];
                let n = stream.read(&mut bytes).await.unwrap();
                answer += str::from_utf8(&bytes[..n]).unwrap();
            }
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            drop(stream);
        }
        Version::Http2 => {
            let client = Http2::connect(&scene).await;
            let answer = client.send("POST", "/v1/locks/db/acquire", wanted("a", 0).to_string());
            assert_eq!(answer.await.unwrap(), Some(200));
            client.break_off();
        }
    }
    until_alone(local).await?;
    if !is_held(local, "db").await {
        return Err(format!("{way:?}, {version:?}: released although its client knows of it"));
    }
    local.advance_ms(crate::delivery::TTL_MS);
    until("it has expired", async || !is_held(local, "db").await).await
}

/// Returns the name of a lock in a group. The name is long, to make the response long.
fn name(group: usize, n: usize) -> String {
    format!("{group:03}-{n:02}-{}", "x".repeat(480))
}

/// Returns whether this lock of a group was ever granted, and whether it is held now.
async fn fate(local: &Local, group: usize, n: usize) -> (bool, bool) {
    let lock = local.client.get(&format!("/v1/locks/{}", name(group, n))).await;
    (lock.get("last_token").as_u64().unwrap_or(0) > 0, lock.get("held") == true)
}

async fn n_granted(local: &Local) -> usize {
    let mut n = 0;
    while n < GROUPS_MAX && fate(local, n, 0).await.0 {
        n += 1;
    }
    n
}

/// Sends requests for several locks each, on a connection whose client reads nothing. At some point a response is
/// written only in part. All grants in that response are released, and all others are kept.
pub(crate) async fn stuck_on_http1(way: Way, size: usize) -> Outcome {
    let scene = Scene::new(way).await;
    let local = &scene.local;
    let Connected { stream, .. } = scene.connect().await;
    let (reading, mut writing) = tokio::io::split(stream);
    let requests = async {
        for group in 0..GROUPS_MAX {
            let locks: Vec<_> = (0..size).map(|n| json!({"lock_name": name(group, n)})).collect();
            let mut body = wanted("a", 0);
            body["locks"] = locks.into();
            let _ = writing.write_all(post("/v1/acquire", &body).as_bytes()).await;
            let _ = writing.flush().await;
        }
        std::future::pending().await
    };
    // While the client reads nothing, the number of granted groups stops growing.
    let stuck = until_still("an answer is stuck", async || n_granted(local).await as u64);
    tokio::select! {
        () = requests => {}
        stuck = stuck => stuck?,
    }
    drop(reading.unsplit(writing));
    until_alone(local).await?;
    let n = n_granted(local).await;
    assert!(n < GROUPS_MAX, "all answers fit: there was nothing to see");
    for group in 0..n {
        let is_last = group == n - 1;
        for member in [0, size / 2, size - 1] {
            if is_last {
                until("the last is released", async || !fate(local, group, member).await.1).await?;
            } else if !fate(local, group, member).await.1 {
                return Err(format!("group {group} of {n} was delivered, and is released"));
            }
        }
    }
    Ok(())
}

/// Returns the number of bytes that the operating system has accepted for a connection but not delivered to the other
/// end.
fn n_unsent(port: u16, peer: u16) -> u64 {
    let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let is_it = |words: &[&str]| {
        words[1].ends_with(&format!(":{port:04X}")) && words[2].ends_with(&format!(":{peer:04X}"))
    };
    let mut lines = connections.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let queue = lines.find(|words| is_it(words)).unwrap()[4].split(':').next().unwrap().to_owned();
    u64::from_str_radix(&queue, 16).unwrap()
}

/// A grant whose response waits behind other responses that the client does not read.
pub(crate) async fn stuck_on_http2(way: Way) -> Outcome {
    let scene = Scene::new(way).await;
    let local = &scene.local;
    let client = Http2::connect(&scene).await;
    assert_eq!(client.send("GET", "/healthz", String::new()).await.unwrap(), Some(200));
    client.gate.is_shut.store(true, SeqCst);
    // Together they are longer than any buffer.
    for _ in 0..100 {
        drop(client.send("GET", "/openapi.json", String::new()));
    }
    let n_answered = async || {
        let metrics = local.client.get("/metrics").await.text;
        let line = metrics.lines().find(|line| line.contains("/openapi.json"));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    };
    until("everything is on its way", async || n_answered().await >= 100).await?;
    let n_unsent = async || n_unsent(scene.address.port(), client.port);
    until_still("the system takes no more", n_unsent).await?;
    drop(client.send("POST", "/v1/locks/db/acquire", wanted("a", 0).to_string()));
    until("it is granted", async || is_held(local, "db").await).await?;
    client.break_off();
    until("it is released", async || !is_held(local, "db").await).await
}

/// Returns every combination of transport and protocol version.
fn all() -> impl Iterator<Item = (Way, Version)> {
    WAYS.into_iter().flat_map(|way| VERSIONS.map(|version| (way, version)))
}

#[tokio::test]
async fn a_grant_is_released_if_its_client_is_gone_before_the_answer_is_written() {
    for (way, version) in all() {
        gone_before_the_answer(way, version).await.unwrap();
    }
}

#[tokio::test]
async fn a_grant_is_kept_if_its_client_goes_after_the_answer() {
    for (way, version) in all() {
        gone_after_the_answer(way, version).await.unwrap();
    }
}

#[tokio::test]
async fn a_grant_in_a_partly_written_answer_is_released_whole() {
    for (way, size) in WAYS.into_iter().flat_map(|way| GROUPS.map(|size| (way, size))) {
        stuck_on_http1(way, size).await.unwrap();
    }
}

#[tokio::test]
async fn a_grant_behind_unread_answers_is_released() {
    for way in WAYS {
        stuck_on_http2(way).await.unwrap();
    }
}
