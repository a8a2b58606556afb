//! The fenced resource, which the locks protect.
//!
//! It behaves as every protected resource should: it stores the highest token it has seen, and rejects a write with a
//! lower one, both in one step.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// An attempted write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// The token of the write.
    pub token: u64,
    /// The written value.
    pub value: String,
    /// Whether it was accepted.
    pub is_accepted: bool,
}

#[derive(Default)]
struct Kept {
    highest: u64,
    writes: Vec<Write>,
}

/// A resource with an address. Dropping this value closes it.
pub struct Resource {
    address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
    serving: JoinHandle<()>,
}

impl Resource {
    /// Opens an empty resource on a free port.
    pub async fn open() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let kept = Arc::<Mutex<Kept>>::default();
        let served = kept.clone();
        let serving = tokio::spawn(serve(listener, served));
        Ok(Self { address, kept, serving })
    }

    /// Returns the URL to write to.
    pub fn url(&self) -> String {
        format!("http://{}/resource", self.address)
    }

    /// Writes on behalf of an owner that the harness plays. Returns whether the write was accepted.
    pub fn write(&self, token: u64, value: &str) -> bool {
        write(&self.kept, token, value)
    }

    /// Returns all attempted writes, oldest first.
    pub fn writes(&self) -> Vec<Write> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).writes.clone()
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn write(kept: &Mutex<Kept>, token: u64, value: &str) -> bool {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let is_accepted = token >= kept.highest;
    kept.highest = kept.highest.max(token);
    kept.writes.push(Write { token, value: value.into(), is_accepted });
    is_accepted
}

async fn serve(listener: TcpListener, kept: Arc<Mutex<Kept>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let kept = kept.clone();
        tokio::spawn(async move {
            let kept = &kept;
            let service =
                service_fn(
                    |request| async move { Ok::<_, Infallible>(answer(kept, request).await) },
                );
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(kept: &Mutex<Kept>, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let (status, said) = match (asked["fencing_token"].as_u64(), asked["value"].as_str()) {
        (Some(token), Some(value)) => {
            let is_accepted = write(kept, token, value);
            (if is_accepted { 200 } else { 409 }, json!({"accepted": is_accepted}))
        }
        _ => (400, json!({"error": "fencing_token and value are required"})),
    };
    let mut response = Response::new(Full::new(said.to_string().into()));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
}
