//! Leasehold over HTTP/2: many requests at once on few connections, as clients with many locks ask it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::Path;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::http::cut;
use super::{Client, Leasehold, Peer};

/// So many ask over one connection.
const STREAMS: usize = 64;

pub(crate) struct LeaseholdHttp2 {
    leasehold: Leasehold,
    /// The connection that is shared by those who come next.
    shared: RefCell<Option<SendRequest<Full<Bytes>>>>,
}

impl LeaseholdHttp2 {
    pub(crate) fn start(data: &Path, binary: &str) -> Self {
        let leasehold = Leasehold::start(&data.join("http2"), binary);
        Self { leasehold, shared: RefCell::new(None) }
    }
}

impl Peer for LeaseholdHttp2 {
    type Client = Http2Client;

    fn name(&self) -> &'static str {
        "leasehold, HTTP/2"
    }

    fn pid(&self) -> u32 {
        self.leasehold.pid()
    }

    async fn connect(&self, n: usize) -> Http2Client {
        if n.is_multiple_of(STREAMS) {
            let opened = open(self.leasehold.process.address).await;
            self.shared.replace(Some(opened));
        }
        let requests = self.shared.borrow().clone().expect("the first one opened it");
        let authority = self.leasehold.process.address;
        Http2Client { requests, authority, n, proof: String::new() }
    }
}

async fn open(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("a socket");
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (requests, connection) = handshake.expect("HTTP/2");
    tokio::spawn(connection);
    requests
}

pub(crate) struct Http2Client {
    requests: SendRequest<Full<Bytes>>,
    authority: SocketAddr,
    n: usize,
    /// Owner, lease and token of what was taken last, as JSON members.
    proof: String,
}

impl Http2Client {
    async fn post(&mut self, path: &str, body: String) -> (u16, String) {
        let request = Request::post(format!("http://{}{path}", self.authority))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        let response = self.requests.send_request(request).await.expect("an answer");
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
}

impl Client for Http2Client {
    async fn acquire(&mut self, key: &str) {
        let body = format!("{{\"owner_id\":\"c{}\",\"ttl_ms\":60000}}", self.n);
        let (status, answer) = self.post(&format!("/v1/locks/{key}/acquire"), body).await;
        assert_eq!(status, 200, "{answer}");
        let id = cut(&answer, "\"lease_id\":\"", '"');
        let token = cut(&answer, "\"fencing_token\":", ',');
        self.proof =
            format!("\"owner_id\":\"c{}\",\"lease_id\":\"{id}\",\"fencing_token\":{token}", self.n);
    }

    async fn release(&mut self, key: &str) {
        let body = format!("{{{}}}", self.proof);
        let (status, answer) = self.post(&format!("/v1/locks/{key}/release"), body).await;
        assert_eq!(status, 200, "{answer}");
    }
}
