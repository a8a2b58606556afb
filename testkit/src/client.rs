//! A client that keeps its connections and returns the status and JSON of a response.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// An HTTP client of one server.
#[derive(Clone)]
pub struct Client {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or `null` if it is not JSON.
    pub body: Value,
    /// The body as text.
    pub text: String,
}

impl Response {
    /// Returns a member of the body.
    pub fn get(&self, name: &str) -> &Value {
        &self.body[name]
    }

    /// Returns a text in the body, or an empty text if it is missing.
    pub fn text_of(&self, name: &str) -> String {
        self.body[name].as_str().unwrap_or_default().into()
    }

    /// Returns a number in the body.
    pub fn number(&self, name: &str) -> u64 {
        self.body[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {self:?}"))
    }
}

/// The error if the server could not be reached or the response was cut off.
pub type Broken = Box<dyn std::error::Error + Send + Sync>;

impl Client {
    /// Creates a client of the server at `address`.
    pub fn new(address: SocketAddr) -> Self {
        let http = HyperClient::builder(TokioExecutor::new()).build(HttpConnector::new());
        Self { http, address }
    }

    /// Creates a client that sends concurrent requests over one HTTP/2 connection.
    pub fn over_http2(address: SocketAddr) -> Self {
        let mut builder = HyperClient::builder(TokioExecutor::new());
        let http = builder.http2_only(true).build(HttpConnector::new());
        Self { http, address }
    }

    /// Sends a request and waits for the whole response.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        kind: Option<&str>,
        body: impl Into<Bytes>,
    ) -> Result<Response, Broken> {
        let kind = kind.map(|kind| (CONTENT_TYPE.as_str(), kind));
        self.send_with(method, path, kind.as_slice(), body).await
    }

    /// Sends a request with any headers.
    pub async fn send_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Response, Broken> {
        let uri = format!("http://{}{path}", self.address);
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.http.request(request.body(Full::new(body.into()))?).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let bytes = response.into_body().collect().await?.to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Response { status: StatusCode::as_u16(&status), headers, body, text })
    }

    /// Sends a `POST` request with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> Result<Response, Broken> {
        self.send(Method::POST, path, Some("application/json"), body.to_string()).await
    }

    /// Sends a `GET` request.
    pub async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, None, "").await.expect("an answer")
    }

    /// Sends a `DELETE` request.
    pub async fn delete(&self, path: &str) -> Response {
        self.send(Method::DELETE, path, None, "").await.expect("an answer")
    }

    /// Acquires `lock` for `owner`, with the additional fields in `more`.
    pub async fn acquire(&self, lock: &str, owner: &str, ttl_ms: u64, more: Value) -> Response {
        self.try_acquire(lock, owner, ttl_ms, more).await.expect("an answer")
    }

    /// Acquires a lock from a server that might be gone.
    pub async fn try_acquire(
        &self,
        lock: &str,
        owner: &str,
        ttl_ms: u64,
        more: Value,
    ) -> Result<Response, Broken> {
        let body = with(json!({"owner_id": owner, "ttl_ms": ttl_ms}), more);
        self.post(&format!("/v1/locks/{lock}/acquire"), body).await
    }

    /// Renews a lease, given the response to its acquire.
    pub async fn renew(&self, acquired: &Response, extend_by_ms: u64, more: Value) -> Response {
        self.try_renew(acquired, extend_by_ms, more).await.expect("an answer")
    }

    /// Renews a lease of a server that might be gone.
    pub async fn try_renew(
        &self,
        acquired: &Response,
        extend_by_ms: u64,
        more: Value,
    ) -> Result<Response, Broken> {
        let body = with(proof(acquired), with(json!({"extend_by_ms": extend_by_ms}), more));
        let path = format!("/v1/locks/{}/renew", acquired.text_of("lock_name"));
        self.post(&path, body).await
    }

    /// Releases a lease, given the response to its acquire.
    pub async fn release(&self, acquired: &Response, more: Value) -> Response {
        self.try_release(acquired, more).await.expect("an answer")
    }

    /// Releases a lease of a server that might be gone.
    pub async fn try_release(&self, acquired: &Response, more: Value) -> Result<Response, Broken> {
        let path = format!("/v1/locks/{}/release", acquired.text_of("lock_name"));
        self.post(&path, with(proof(acquired), more)).await
    }
}

fn proof(acquired: &Response) -> Value {
    json!({
        "owner_id": acquired.get("owner_id"),
        "lease_id": acquired.get("lease_id"),
        "fencing_token": acquired.get("fencing_token"),
    })
}

/// Merges the members of two objects.
fn with(mut body: Value, more: Value) -> Value {
    if let (Value::Object(body), Value::Object(more)) = (&mut body, more) {
        body.extend(more);
    }
    body
}
