//! The peer: a bare hyper server that answers everything with the same few bytes.

use std::convert::Infallible;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Prints its port and serves until it is killed.
#[expect(clippy::print_stdout, reason = "the port is what the parent waits for")]
pub(crate) fn serve() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address").port());
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
    // Reads what was sent, as any server must.
    let _ = http_body_util::BodyExt::collect(request.into_body()).await;
    Ok(Response::new(Full::new(Bytes::from_static(b"{\"hello\":\"world\"}"))))
}
