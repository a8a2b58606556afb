//! Tests of request heads: maximum size, maximum time, and maximum memory for all of them together.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_testkit::{Local, json, settings};
use tokio::net::TcpStream;

use crate::front::{PATIENCE, Raw, ask, post};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";

/// Returns the start of a request head with this many bytes and no end.
fn begun(n_bytes: usize) -> String {
    let begin = "GET /healthz HTTP/1.1\r\nHost: a\r\nX-Filler: ";
    format!("{begin}{}", "x".repeat(n_bytes - begin.len()))
}

async fn heads_bytes(local: &Local) -> usize {
    let text = local.client.get("/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix("leasehold_heads_bytes "));
    line.unwrap_or_else(|| panic!("no metric in {text}")).parse().unwrap()
}

#[tokio::test]
async fn a_head_has_a_limit() {
    let mut settings = settings(None);
    settings.http.head_bytes_max = 16 * 1024;
    let local = Local::start(settings).await;
    let fits = format!("{}\r\n\r\n", begun(15 * 1024));
    assert!(ask(local.address, fits).await.starts_with("HTTP/1.1 200 "));
    let mut raw = Raw::connect(local.address).await;
    raw.send(begun(40 * 1024)).await;
    assert!(raw.rest().await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_large_heads_take_up_no_more_than_all_of_them_may() {
    const MIB: usize = 1 << 20;
    let mut settings = settings(None);
    settings.http.heads_total_bytes_max = 4 * MIB;
    settings.http.header_timeout = 10 * PATIENCE;
    let local = Local::start(settings).await;
    let (mut all, mut most) = (Vec::new(), 0);
    for n in 0..2000 {
        let mut raw = Raw::connect(local.address).await;
        raw.send(begun(60 * 1024)).await;
        all.push(raw);
        if n % 100 == 0 {
            most = most.max(heads_bytes(&local).await);
        }
    }
    most = most.max(heads_bytes(&local).await);
    // A worker thread might have counted a buffer before it closed the connections that make room for it.
    assert!(MIB < most && most <= 5 * MIB, "{most}");
    // Other clients are served, even with a large head.
    assert!(ask(local.address, HEALTH).await.starts_with("HTTP/1.1 200 "));
    let large = format!("{}\r\n\r\n", begun(50 * 1024));
    assert!(ask(local.address, large).await.starts_with("HTTP/1.1 200 "));
    // The connections that took longest were closed.
    assert_eq!(all.swap_remove(0).rest().await, "");
    drop(all);
    local.until("nothing is left", async |_| heads_bytes(&local).await == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buffer_counts_for_as_long_as_its_connection_lives() {
    let mut settings = settings(None);
    settings.http.heads_total_bytes_max = 256 * 1024;
    let local = Local::start(settings).await;
    let large = format!("{}\r\n\r\n", begun(60 * 1024));
    let mut idle = Vec::new();
    for _ in 0..50 {
        let mut raw = Raw::connect(local.address).await;
        raw.send(&large).await;
        assert!(raw.answer().await.starts_with("HTTP/1.1 200 "));
        idle.push(raw);
        let n_bytes = heads_bytes(&local).await;
        assert!(n_bytes <= 256 * 1024, "{n_bytes}");
    }
    assert!(heads_bytes(&local).await > 0);
    assert_eq!(idle.swap_remove(0).rest().await, "", "the one that was idle for the longest");
}

/// A body that never comes.
struct Never;

impl Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

/// A header without a value takes hundreds of bytes, but counts little in HTTP/2's own limit.
#[tokio::test]
async fn the_headers_of_http2_requests_in_progress_count_too() {
    let mut settings = settings(None);
    settings.http.heads_total_bytes_max = 1 << 20;
    let local = Local::start(settings).await;
    let io = TokioIo::new(TcpStream::connect(local.address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = |n_headers: usize| {
        let uri = format!("http://{}/dav/", local.address);
        let mut request = hyper::Request::builder().method("PROPFIND").uri(uri);
        for n in 0..n_headers {
            request = request.header(format!("x-{n:03}"), "");
        }
        request
    };
    let mut waiting = Vec::new();
    let mut refused = None;
    for _ in 0..100 {
        // With a length, the body does not count.
        let request = request(400).header("content-length", "1").body(Never.boxed()).unwrap();
        let mut sender = sender.clone();
        let sent = tokio::spawn(async move { sender.send_request(request).await });
        let n_before = waiting.len();
        local
            .until("it is counted or refused", async |_| {
                sent.is_finished() || heads_bytes(&local).await > n_before * 80_000
            })
            .await;
        if sent.is_finished() {
            refused = Some(sent.await.unwrap().unwrap().status());
            break;
        }
        waiting.push(sent);
    }
    assert_eq!(refused.map(|status| status.as_u16()), Some(431));
    assert!((5..=20).contains(&waiting.len()), "{}", waiting.len());
    assert!(heads_bytes(&local).await <= 1 << 20);
    // Other clients are served.
    let usual = request(20).body(Empty::new().boxed()).unwrap();
    let usual = sender.clone().send_request(usual).await.unwrap();
    assert_ne!(usual.status(), 431);
    connection.abort();
    local.until("nothing is left", async |_| heads_bytes(&local).await == 0).await;
}

/// The server keeps up to `body-bytes-max` of a body that is not complete. 2,250 of them used to take 230 MB.
#[tokio::test]
async fn large_bodies_of_http2_requests_count_until_they_are_complete() {
    let mut settings = settings(None);
    settings.http.heads_total_bytes_max = 300_000;
    let local = Local::start(settings).await;
    let connect = async || {
        let io = TokioIo::new(TcpStream::connect(local.address).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender
    };
    let acquire = |length: Option<usize>| {
        let uri = format!("http://{}/v1/locks/l/acquire", local.address);
        let request = hyper::Request::post(uri).header("content-type", "application/json");
        length.into_iter().fold(request, |request, n| request.header("content-length", n))
    };
    let large = format!("{{\"owner_id\": \"{}\"}}", "o".repeat(60_000));
    // On its own connection, because the buffer that reads a large body counts until its connection ends.
    let mut other = connect().await;
    let complete = other.send_request(acquire(None).body(large.clone().boxed()).unwrap());
    assert_eq!(complete.await.unwrap().status(), 400);
    drop(other);
    local.until("it is freed", async |_| heads_bytes(&local).await == 0).await;
    let mut sender = connect().await;
    let mut waiting = Vec::new();
    // Read buffers of connections count too, so there can be more than the bodies.
    for (length, n_bytes) in [(Some(60_000), 60_000), (None, 125_536)] {
        let request = acquire(length).body(Never.boxed()).unwrap();
        waiting.push(tokio::spawn(sender.send_request(request)));
        local.until("it is counted", async |_| heads_bytes(&local).await >= n_bytes).await;
    }
    // At most two more large ones fit.
    let mut refused = None;
    for n in 2..=4 {
        let request = acquire(Some(65_536)).body(Never.boxed()).unwrap();
        let sent = tokio::spawn(sender.send_request(request));
        let n_bytes = 60_000 + n * 65_536;
        let is_over = async |_: &_| sent.is_finished() || heads_bytes(&local).await >= n_bytes;
        local.until("it is counted or refused", is_over).await;
        if sent.is_finished() {
            refused = Some(sent.await.unwrap().unwrap().status());
            break;
        }
        waiting.push(sent);
    }
    assert_eq!(refused.expect("too large together"), 503);
    let metrics = local.client.get("/metrics").await.text;
    let refusals = "leasehold_limit_refusals_total{limit=\"heads-total-bytes-max\"} ";
    assert!(metrics.contains(refusals), "{metrics}");
    assert!(!metrics.contains(&format!("{refusals}0\n")), "{metrics}");
    // Small requests, and releases of any size, are served.
    let small = r#"{"owner_id": "o", "ttl_ms": 60000}"#.to_owned();
    let small = sender.send_request(acquire(None).body(small.boxed()).unwrap());
    assert_eq!(small.await.unwrap().status(), 200);
    let uri = format!("http://{}/v1/locks/l/release", local.address);
    let release = hyper::Request::post(uri).header("content-type", "application/json");
    let release = sender.send_request(release.body(large.boxed()).unwrap());
    assert_eq!(release.await.unwrap().status(), 400);
    drop(waiting);
}

#[tokio::test]
async fn every_head_has_as_long_as_the_first_from_its_first_byte() {
    let mut settings = settings(None);
    settings.http.header_timeout = Duration::from_secs(1);
    settings.http.idle_timeout = 100 * PATIENCE;
    let local = Local::start(settings).await;
    let acquire = post("/v1/locks/db/acquire", &json!({"owner_id": "a", "ttl_ms": 1000}));
    // The next head starts after a response, together with the previous request, or right behind a body.
    for (first, then) in
        [(HEALTH.to_owned(), "G"), (format!("{HEALTH}G"), ""), (format!("{acquire}G"), "")]
    {
        let mut raw = Raw::connect(local.address).await;
        raw.send(&first).await;
        assert!(raw.answer().await.starts_with("HTTP/1.1 "));
        raw.send(then).await;
        assert_eq!(raw.rest().await, "", "{first:?}");
    }
    // Connections that have not started a head can stay open.
    let mut raw = Raw::connect(local.address).await;
    for request in [HEALTH, &acquire, HEALTH] {
        raw.send(request).await;
        assert!(raw.answer().await.starts_with("HTTP/1.1 "));
        tokio::time::sleep(Duration::from_millis(1500)).await;
    }
    raw.send(HEALTH).await;
    assert!(raw.answer().await.starts_with("HTTP/1.1 200 "));
}
