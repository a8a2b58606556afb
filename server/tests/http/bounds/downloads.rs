//! Tests of downloads: how many can be in progress, and how long a client can leave one unread.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_server::http::Options;
use leasehold_testkit::{Client, Local, json, settings};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::bounds::metric;

/// More bytes than fit into the buffers of a client that does not read.
const FILE_BYTES: usize = 1 << 20;
const NO_OBJECT: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Starts a server with a file and a Terraform state.
async fn start(set: impl FnOnce(&mut Options)) -> Local {
    let mut settings = settings(None);
    settings.dialect.files.free_space_min = Some(0);
    set(&mut settings.http);
    let local = Local::start(settings).await;
    for (method, path) in [(Method::PUT, "/dav/f"), (Method::POST, "/terraform/s")] {
        let sent = local.client.send(method, path, None, vec![b'x'; FILE_BYTES]).await.unwrap();
        assert!(matches!(sent.status, 200 | 201), "{sent:?}");
    }
    local
}

/// An HTTP/2 client with such a small window that it accepts almost nothing of a response before it reads the body.
#[derive(Clone)]
struct Slow {
    sender: SendRequest<Full<Bytes>>,
    address: std::net::SocketAddr,
}

impl Slow {
    async fn connect(local: &Local) -> Self {
        let stream = TcpStream::connect(local.address).await.unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let builder = builder.initial_stream_window_size(1024);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, address: local.address }
    }

    async fn get(&mut self, path: &str) -> Response<Incoming> {
        self.send(Method::GET, path, "").await.unwrap()
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> hyper::Result<Response<Incoming>> {
        let request = Request::builder().method(method);
        let request = request.uri(format!("http://{}{path}", self.address));
        let request = request.body(Full::new(body.into())).unwrap();
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }
}

async fn n_downloads(local: &Local) -> u64 {
    metric(local, "leasehold_downloads").await
}

#[tokio::test]
async fn only_so_many_files_are_sent_at_once_in_every_protocol() {
    let local = start(|http| {
        http.downloads_max = 2;
        http.answer_timeout = Duration::from_secs(3600);
    })
    .await;
    let opened = local.client.post("/auth/session", json!({})).await.unwrap();
    let session = format!("Bearer {}", opened.text_of("sessionId"));
    let session = [("authorization", session.as_str())];
    let mut slow = Slow::connect(&local).await;
    let begun = [slow.get("/dav/f").await, slow.get("/terraform/s").await];
    assert!(begun.iter().all(|answer| answer.status() == 200), "{begun:?}");
    assert_eq!(n_downloads(&local).await, 2);
    let object = format!("/lfs/repository/objects/{NO_OBJECT}");
    let paths = ["/f", "/dav/f", "/terraform/s", "/terraform/s/versions/1", &object];
    for path in paths {
        let asked = local.client.send_with(Method::GET, path, &session, "");
        let refused = asked.await.unwrap();
        assert_eq!((refused.status, &refused.headers["retry-after"]), (503, &"1".parse().unwrap()));
        assert!(refused.text.contains("limit: 2 (downloads-max)"), "{path}: {refused:?}");
    }
    let refusals = "leasehold_limit_refusals_total{limit=\"downloads-max\"}";
    assert_eq!(metric(&local, refusals).await, paths.len() as u64);
    assert_eq!(local.client.acquire("l", "a", 1000, json!({})).await.status, 200);
    drop(begun);
    local.until("both have ended", async |_| n_downloads(&local).await == 0).await;
    let read = local.client.get("/dav/f").await;
    assert_eq!((read.status, read.text.len()), (200, FILE_BYTES));
    local.stop().await;
}

#[tokio::test]
async fn one_address_has_a_share_of_downloads() {
    let local = start(|http| {
        http.principal_downloads_max = 1;
        http.connections_per_peer_exempt = [].into();
        http.answer_timeout = Duration::from_secs(3600);
    })
    .await;
    let _first = Slow::connect(&local).await.get("/dav/f").await;
    let refused = local.client.get("/dav/f").await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert!(refused.text.contains("limit: 1 (principal-downloads-max)"), "{refused:?}");
}

/// An exempt address can use all uploads. Any other address can use only its share.
#[tokio::test]
async fn one_address_has_a_share_of_uploads() {
    for (is_exempt, status) in [(true, 200), (false, 503)] {
        let local = start(|http| {
            http.uploads_max = 2;
            if !is_exempt {
                http.connections_per_peer_exempt = [].into();
            }
        })
        .await;
        let mut unfinished = TcpStream::connect(local.address).await.unwrap();
        let head = b"POST /terraform/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{";
        unfinished.write_all(head).await.unwrap();
        let has_begun = async |_: &Client| metric(&local, "leasehold_uploads").await == 1;
        local.until("the upload has begun", has_begun).await;
        let sent = local.client.post("/terraform/b", json!({"serial": 1})).await.unwrap();
        assert_eq!(sent.status, status, "{sent:?}");
    }
}

#[tokio::test]
async fn a_download_of_which_nothing_is_taken_ends() {
    let local = start(|http| {
        http.downloads_max = 1;
        http.answer_timeout = Duration::from_millis(50);
    })
    .await;
    let held = local.client.acquire("l", "a", 3_600_000, json!({})).await;
    let mut slow = Slow::connect(&local).await;
    let mut waiter = slow.clone();
    let wait = json!({"owner_id": "w", "ttl_ms": 60_000, "wait_ms": 3_600_000}).to_string();
    let waiting =
        tokio::spawn(async move { waiter.send(Method::POST, "/v1/locks/l/acquire", wait).await });
    local.until("it waits", async |_| metric(&local, "leasehold_waiters").await == 1).await;
    let stalled = slow.get("/dav/f").await;
    assert_eq!(stalled.status(), 200);
    local.until("its file is closed", async |_| n_downloads(&local).await == 0).await;
    // The HTTP/2 stream is still open.
    let is_answered = async |client: &leasehold_testkit::Client| {
        let asked = client.send(Method::GET, "/dav/f", None, "").await;
        asked.is_ok_and(|read| (read.status, read.text.len()) == (200, FILE_BYTES))
    };
    local.until("another is answered", is_answered).await;
    // The connection still buffers a part of the response, so it accepts no more requests. It is closed after its last
    // request.
    let is_refused = async |_: &_| slow.send(Method::GET, "/healthz", "").await.is_err();
    local.until("the connection takes no more requests", is_refused).await;
    assert!(stalled.into_body().collect().await.is_err(), "it must not look complete");
    assert_eq!(local.client.release(&held, json!({})).await.status, 200);
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200, "requests in progress go on");
    let n_streams = async || metric(&local, "leasehold_streams_open").await;
    local.until("the connection is closed", async |_| n_streams().await == 0).await;
}
