//! A bare hyper server with the same short response to every request: the cost of HTTP alone.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::http::Connection;
use super::process::{self, Process};
use super::{Client, Peer};

const N_WORKERS: usize = 2;

pub(crate) struct Hello {
    process: Process,
}

impl Hello {
    pub(crate) fn start(data: &Path) -> Self {
        let (folder, address) = (process::empty(data, "hello"), process::free_address());
        let command = process::this("hello", address, &folder);
        Self { process: Process::start(command, address, &folder) }
    }
}

impl Peer for Hello {
    type Client = HelloClient;

    fn name(&self) -> &'static str {
        "hello (bare hyper)"
    }

    fn pid(&self) -> u32 {
        self.process.pid()
    }

    async fn connect(&self, n: usize) -> HelloClient {
        HelloClient { connection: Connection::open(self.process.address).await, n }
    }
}

/// A client that sends the same requests as a Leasehold client.
pub(crate) struct HelloClient {
    connection: Connection,
    n: usize,
}

impl Client for HelloClient {
    async fn acquire(&mut self, key: &str) {
        let body = format!("{{\"owner_id\":\"c{}\",\"ttl_ms\":60000}}", self.n);
        let (status, _) = self.connection.post(&format!("/v1/locks/{key}/acquire"), &body).await;
        assert_eq!(status, 200);
    }

    async fn release(&mut self, key: &str) {
        self.acquire(key).await;
    }
}

/// Serves until the process is stopped.
pub(super) fn serve() {
    let address: SocketAddr = process::given_address();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(N_WORKERS).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind(address).await.expect("a port");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service_fn(hello)).await;
            });
        }
    });
}

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // Reads the body of the request, as any server must.
    let _ = request.into_body().collect().await;
    Ok(Response::new(Full::new(Bytes::from_static(b"{\"hello\":\"world\"}"))))
}
