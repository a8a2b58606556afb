//! Tests of Git LFS, request by request as git-lfs 3.3 sends them. `scripts/doors` tests the real client.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod batch;
mod identity;
mod list;
mod lock;
mod object;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, Method, Response, Value, json, settings};
use sha2::{Digest, Sha256};

const KIND: &str = "application/vnd.git-lfs+json";

/// A server, and git-lfs requests to it.
struct Scene {
    local: Local,
}

impl Scene {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = settings(None);
        change(&mut settings);
        Self { local: Local::start(settings).await }
    }

    /// Sends a request as `who`. The server has no authentication and accepts any user name.
    async fn send(&self, who: &str, line: &str, body: Value) -> Response {
        let basic = format!("Basic {}", STANDARD.encode(format!("{who}:pw")));
        let proof = [("authorization", basic.as_str())];
        self.send_with(if who.is_empty() { &[] } else { &proof }, line, body).await
    }

    async fn send_with(&self, headers: &[(&str, &str)], line: &str, body: Value) -> Response {
        let (method, path) = line.split_once(' ').expect("a method");
        let method: Method = method.parse().unwrap();
        let kind =
            [("accept", KIND), ("content-type", "application/vnd.git-lfs+json; charset=utf-8")];
        let headers = [headers, &kind[..]].concat();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let answer = self.local.client.send_with(method, path, &headers, body).await.unwrap();
        assert_eq!(answer.headers["content-type"], KIND, "{line}: {answer:?}");
        answer
    }

    async fn lock(&self, who: &str, path: &str) -> Response {
        self.send(who, "POST /lfs/team/app/locks", lock_request(path)).await
    }

    async fn locks(&self, query: &str) -> Response {
        self.send("", &format!("GET /lfs/team/app/locks{query}"), Value::Null).await
    }

    async fn unlock(&self, who: &str, id: &str, force: bool) -> Response {
        let line = format!("POST /lfs/team/app/locks/{id}/unlock");
        self.send(who, &line, json!({"force": force, "ref": {"name": "refs/heads/main"}})).await
    }

    async fn batch(&self, operation: &str, objects: &[(&str, i64)]) -> Response {
        let body = batch_request(operation, objects);
        self.send("", "POST /lfs/team/app/objects/batch", body).await
    }

    /// Transfers content as git-lfs does: to the address and with the headers from the batch response.
    async fn act(
        &self,
        method: Method,
        action: &Value,
        more: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        let href = action["href"].as_str().expect("an address");
        let path = href.strip_prefix(&format!("http://{}", self.local.address)).expect("here");
        let told = action["header"].as_object().expect("headers");
        let told = told.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap()));
        let headers: Vec<_> = told.chain(more.iter().copied()).collect();
        self.local.client.send_with(method, path, &headers, body.to_vec()).await.unwrap()
    }

    /// Uploads content as a push does, and returns its object id.
    async fn push(&self, content: &[u8]) -> String {
        let oid = oid(content);
        let batch = self.batch("upload", &[(&oid, content.len() as i64)]).await;
        let actions = &batch.get("objects")[0]["actions"];
        let put = self.act(Method::PUT, &actions["upload"], &[], content).await;
        assert_eq!(put.status, 200, "{put:?}");
        let said = json!({"oid": oid, "size": content.len()}).to_string();
        let kind = [("content-type", KIND)];
        let stored = self.act(Method::POST, &actions["verify"], &kind, said.as_bytes()).await;
        assert_eq!(stored.status, 200, "{stored:?}");
        oid
    }
}

#[track_caller]
fn is(response: &Response, status: u16) {
    assert_eq!(response.status, status, "{response:?}");
}

fn lock_request(path: &str) -> Value {
    json!({"path": path, "ref": {"name": "refs/heads/main"}})
}

fn batch_request(operation: &str, objects: &[(&str, i64)]) -> Value {
    let object = |(oid, size): &(&str, i64)| json!({"oid": oid, "size": size});
    let objects: Vec<_> = objects.iter().map(object).collect();
    json!({
        "operation": operation, "objects": objects, "transfers": ["lfs-standalone-file", "basic", "ssh"],
        "ref": {"name": "refs/heads/main"}, "hash_algo": "sha256",
    })
}

fn oid(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn id_of(locked: &Response) -> String {
    locked.get("lock")["id"].as_str().expect("an id").to_owned()
}
