//! Every error of the native dialect over real HTTP, and everything ugly a client may send.
//!
//! Each module is one area with its tables. Whatever goes through [`Scene::refuses`] is also shown to have
//! changed nothing.

mod bound;
mod event;
mod failing;
mod field;
mod health;
mod json;
mod list;
mod metrics;
mod path;
mod proof;
mod raw;
mod refusal;
mod request_id;
mod session;

use std::collections::BTreeSet;

use hyper::Method;
use hyper::body::Bytes;
use leasehold_testkit::{Local, Response, Value, json};

/// A server with something to lose: `a` has the lock `job` and a session.
struct Scene {
    local: Local,
    /// How the lock was acquired.
    job: Response,
    session_id: String,
}

/// A request that should be refused.
struct Ask {
    method: Method,
    path: String,
    kind: Option<&'static str>,
    body: Bytes,
}

/// `POST` with JSON, or with what is no JSON at all.
fn post(path: &str, body: impl Into<Bytes>) -> Ask {
    let (method, path) = (Method::POST, path.into());
    Ask { method, path, kind: Some("application/json"), body: body.into() }
}

/// Any method, without a body.
fn bare(method: Method, path: &str) -> Ask {
    Ask { method, path: path.into(), kind: None, body: Bytes::new() }
}

fn get(path: &str) -> Ask {
    bare(Method::GET, path)
}

impl Scene {
    async fn new() -> Self {
        Self::of(Local::ephemeral().await).await
    }

    /// The same on a server with settings of its own.
    async fn of(local: Local) -> Self {
        let body = json!({"owner_id": "a", "ttl_ms": 3_600_000});
        let opened = local.client.post("/v1/sessions", body).await.expect("an answer");
        assert_eq!(opened.status, 201, "{}", opened.text);
        let metadata = json!({"metadata": {"host": "a1"}, "request_id": "first"});
        let job = local.client.acquire("job", "a", 60_000, metadata).await;
        assert_eq!(job.status, 200, "{}", job.text);
        Self { local, job, session_id: opened.text_of("session_id") }
    }

    async fn send(&self, ask: Ask) -> Response {
        let Ask { method, path, kind, body } = ask;
        self.local.client.send(method, &path, kind, body).await.expect("an answer")
    }

    /// What the lock's holder proves itself with, and whatever else is in `more`.
    fn proof(&self, more: Value) -> Value {
        let mut proof = json!({
            "owner_id": "a",
            "lease_id": self.job.get("lease_id"),
            "fencing_token": self.job.get("fencing_token"),
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            proof[name] = value.clone();
        }
        proof
    }

    /// The request fails with this status and code, in words that contain `word`, and changes nothing.
    async fn refuses(&self, ask: Ask, status: u16, code: &str, word: &str) {
        let asked = format!("{} {} {:?}", ask.method, ask.path, shortened(&ask.body));
        let before = self.everything().await;
        let response = self.send(ask).await;
        check_failure(&asked, &response, status, code, word);
        assert_eq!(self.everything().await, before, "{asked} changed something");
    }

    /// All that can be seen from outside. Time stands still, so it is the same if nothing happened.
    async fn everything(&self) -> Vec<String> {
        let session = format!("/v1/sessions/{}", self.session_id);
        let other = "/v1/namespaces/other/locks?limit=1000";
        let mut seen = Vec::new();
        for path in ["/v1/locks/job", "/v1/locks?limit=1000", other, &session] {
            let response = self.local.client.get(path).await;
            assert_eq!(response.status, 200, "{path}: {}", response.text);
            seen.push(response.text);
        }
        seen
    }

    /// Starts an acquire that waits, and returns once it is the `n`th in the queue of `lock`.
    async fn waits(
        &self,
        lock: &'static str,
        body: Value,
        n: usize,
    ) -> tokio::task::JoinHandle<Response> {
        let client = self.local.client.clone();
        let waiting = tokio::spawn(async move {
            client.post(&format!("/v1/locks/{lock}/acquire"), body).await.expect("an answer")
        });
        let path = format!("/v1/locks/{lock}");
        let is_queued = async |client: &leasehold_testkit::Client| {
            client.get(&path).await.get("queue").as_array().is_some_and(|queue| queue.len() == n)
        };
        self.local.until("it waits", is_queued).await;
        waiting
    }
}

/// The one shape of every error that has none of its own.
#[track_caller]
fn check_failure(asked: &str, response: &Response, status: u16, code: &str, word: &str) {
    let said = format!("{asked}\nwas answered {}: {}", response.status, response.text);
    assert_eq!((response.status, response.text_of("code").as_str()), (status, code), "{said}");
    assert!(response.text_of("error").contains(word), "names {word:?}: {said}");
    let members = ["code", "error", "may_have_taken_effect", "retryable"];
    assert_eq!(names(&response.body), BTreeSet::from(members), "{said}");
    let is_retryable = matches!(
        code,
        "BUSY" | "LIMIT_REACHED" | "OVERLOADED" | "SHUTTING_DOWN" | "TIMEOUT" | "UNKNOWN"
    );
    assert_eq!(response.get("retryable"), is_retryable, "{said}");
    assert_eq!(response.get("may_have_taken_effect"), code == "UNKNOWN", "{said}");
    assert_eq!(response.headers["content-type"], "application/json", "{said}");
}

/// What the members of an object are called.
fn names(body: &Value) -> BTreeSet<&str> {
    body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn shortened(body: &Bytes) -> String {
    String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned()
}
