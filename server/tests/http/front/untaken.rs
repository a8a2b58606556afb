//! Tests of HTTP/2 clients that do not read their responses, or send headers without an end.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_server::serve::Settings;
use leasehold_testkit::{Client, Local, json, settings};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::front::{Raw, until_waiting};

/// Time limit for unread responses. Even on a busy machine, it leaves a client enough time for the steps before.
const SOON: Duration = Duration::from_secs(2);

fn impatient() -> Settings {
    let mut settings = settings(None);
    settings.http.answer_timeout = SOON;
    settings.http.restricted_timeout = SOON;
    settings.http.header_timeout = SOON;
    settings
}

/// Connects a client that accepts only `window` bytes of each response until it reads.
async fn connect(local: &Local, window: u32) -> (SendRequest<Full<Bytes>>, JoinHandle<()>) {
    let stream = TcpStream::connect(local.address).await.unwrap();
    let mut builder = http2::Builder::new(TokioExecutor::new());
    let builder = builder.initial_stream_window_size(window);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(async move { drop(connection.await) }))
}

fn get(local: &Local, path: &str) -> hyper::Request<Full<Bytes>> {
    let uri = format!("http://{}{path}", local.address);
    hyper::Request::get(uri).body(Full::default()).unwrap()
}

async fn until_none_open(local: &Local) {
    let is_none = async |client: &Client| {
        client.get("/metrics").await.text.contains("leasehold_streams_open 0\n")
    };
    local.until("no stream is open", is_none).await;
}

#[tokio::test]
async fn a_stream_whose_response_is_not_taken_is_reset_and_the_others_go_on() {
    let local = Local::start(impatient()).await;
    let held = local.client.acquire("db", "a", 60_000, json!({})).await;
    let (mut sender, _connection) = connect(&local, 0).await;
    let body = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 60_000}).to_string();
    let wait = hyper::Request::post(format!("http://{}/v1/locks/db/acquire", local.address));
    let waiting = sender.send_request(wait.body(body.into()).unwrap());
    let waiting = tokio::spawn(waiting);
    until_waiting(&local, "db", 1).await;
    for path in ["/v1/locks", "/nowhere", "/healthz"] {
        let untaken = sender.send_request(get(&local, path)).await.unwrap();
        untaken.into_body().collect().await.expect_err("it is reset");
    }
    assert_eq!(local.client.release(&held, json!({})).await.status, 200);
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
    until_none_open(&local).await;
}

/// The HTTP library keeps the rest of a piece of data once its first byte was sent.
#[tokio::test]
async fn a_response_that_is_taken_in_part_counts_until_its_connection_is_closed() {
    for window in [1, 100] {
        let local = Local::start(impatient()).await;
        let (mut sender, connection) = connect(&local, window).await;
        let untaken = sender.send_request(get(&local, "/v1/locks?limit=x")).await.unwrap();
        assert_eq!(untaken.status(), 400);
        let metrics = local.client.get("/metrics").await.text;
        assert!(metrics.contains("leasehold_streams_open 1\n"), "{metrics}");
        until_none_open(&local).await;
        connection.await.expect("it was closed");
        drop(untaken);
    }
}

/// Such a response used to count as a small one: 5,000 of one client took 830 MB.
#[tokio::test]
async fn large_responses_that_are_not_taken_count_by_their_bytes() {
    let mut settings = settings(None);
    settings.http.answers_bytes_max = 300_000;
    let local = Local::start(settings).await;
    let more = json!({"mode": "shared", "metadata": "x".repeat(16_000)});
    for n in 0..5 {
        let held = local.client.acquire("big", &format!("o{n}"), 60_000, more.clone()).await;
        assert_eq!(held.status, 200);
    }
    let n_bytes = local.client.get("/v1/locks/big").await.text.len();
    let n_allowed = 300_000 / n_bytes;
    assert!((2..10).contains(&n_allowed), "{n_bytes}");
    let (mut sender, connection) = connect(&local, 1).await;
    let mut untaken = Vec::new();
    for n in 0..=n_allowed {
        let answer = sender.send_request(get(&local, "/v1/locks/big")).await.unwrap();
        assert_eq!(answer.status(), if n < n_allowed { 200 } else { 503 });
        untaken.push(answer);
    }
    let metrics = local.client.get("/metrics").await.text;
    for line in [
        format!("leasehold_answers_bytes {}\n", n_allowed * n_bytes),
        "leasehold_limit_refusals_total{limit=\"answers-bytes-max\"} 1\n".into(),
    ] {
        assert!(metrics.contains(&line), "no {line} in {metrics}");
    }
    let refused = local.client.get("/v1/locks/big").await;
    assert_eq!((refused.status, refused.text_of("code").as_str()), (503, "OVERLOADED"));
    assert!(refused.text_of("error").contains("limit: 300000 bytes (answers-bytes-max)"));
    drop((untaken, sender));
    connection.abort();
    let is_free = async |client: &Client| {
        client.get("/metrics").await.text.contains("leasehold_answers_bytes 0\n")
    };
    local.until("nothing is counted", is_free).await;
    assert_eq!(local.client.get("/v1/locks/big").await.status, 200);
}

/// Refused requests do not count as streams. So 20,000 responses of 200 kB used to take 4 GB.
#[tokio::test]
async fn large_error_responses_that_are_not_taken_count_too() {
    let mut settings = settings(None);
    settings.http.answers_bytes_max = 300_000;
    let local = Local::start(settings).await;
    let fields: Vec<_> = (0..3000).map(|n| format!("\"a{n:04}\":0")).collect();
    let body = format!("{{{}}}", fields.join(","));
    let (mut sender, _connection) = connect(&local, 0).await;
    let mut untaken = Vec::new();
    for status in [400, 400, 400, 503] {
        let claim = hyper::Request::post(format!("http://{}/v1/claims/", local.address));
        let claim = claim.header("content-type", "application/json").body(body.clone().into());
        let answer = sender.send_request(claim.unwrap()).await.unwrap();
        assert_eq!(answer.status(), status);
        let counted = local.client.get("/metrics").await.text;
        let n_bytes = counted.lines().find_map(|l| l.strip_prefix("leasehold_answers_bytes "));
        let n_bytes: usize = n_bytes.unwrap().parse().unwrap();
        untaken.push(answer);
        let n_large = untaken.len().min(3);
        assert!((n_large * 75_000..n_large * 100_000).contains(&n_bytes), "{n_bytes}");
    }
}

#[tokio::test]
async fn a_client_that_reads_gets_all_of_a_response_whatever_its_window() {
    let local = Local::ephemeral().await;
    for n in 0..50 {
        local.client.acquire(&format!("lock-{n}"), "a", 60_000, json!({})).await;
    }
    let expected = local.client.get("/v1/locks").await.text;
    for window in [10, 1000, 1 << 20] {
        let (mut sender, _connection) = connect(&local, window).await;
        let answer = sender.send_request(get(&local, "/v1/locks")).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), expected.len(), "{window}");
    }
}

/// Returns the first HTTP/2 frames of a connection: the preface, settings, and headers with this path.
pub(super) fn opening(path: &str) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // Method, scheme, path and host in HPACK encoding.
    let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
    block.extend(path.as_bytes());
    block.extend(b"\x01\x09localhost");
    bytes.extend([0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    bytes
}

/// Incomplete headers used to have no time limit while another stream of the connection was open.
#[tokio::test]
async fn headers_of_http2_must_be_complete_in_time_beside_a_stream() {
    let mut settings = impatient();
    settings.http.answer_timeout = Duration::from_secs(3600);
    let local = Local::start(settings).await;
    let is_open = async |n: usize| {
        let line = format!("leasehold_event_streams {n}\n");
        let is_so = async |client: &Client| client.get("/metrics").await.text.contains(&line);
        local.until("the stream is there", is_so).await;
    };
    let mut raw = Raw::connect(local.address).await;
    raw.send(opening("/v1/events")).await;
    is_open(1).await;
    // A complete frame whose headers continue in a further frame.
    raw.send([0, 0, 1, 1, 0, 0, 0, 0, 3, 0x82]).await;
    raw.rest().await;
    is_open(0).await;
}
