//! HTTP/2 with prior knowledge: many requests at the same time on one connection.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// A stream on a connection that other streams can share.
#[derive(Clone)]
pub(crate) struct Stream {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
}

impl Stream {
    /// Opens a new connection, and returns a stream on it.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        let greeted = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = greeted.expect("HTTP/2");
        tokio::spawn(connection);
        Self { sender, address }
    }

    /// Returns whether the connection still works. It ends with the runtime in which it was opened.
    pub(crate) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends one request, and returns the status and body of the response.
    pub(crate) async fn post(&mut self, path: &str, body: &str) -> (u16, String) {
        let request = Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .expect("a request");
        self.sender.ready().await.expect("a connection");
        let answer = self.sender.send_request(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a whole answer").to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
}
