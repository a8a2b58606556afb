//! Tests of every error of the native dialect over real HTTP, including malformed and hostile requests.
//!
//! Each module covers one area with tables of cases. [`Scene::refuses`] also checks that a refused request changed
//! nothing.

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

/// A server with existing state: `a` holds the lock `job` and has a session.
struct Scene {
    local: Local,
    /// The response to the acquire of `job`.
    job: Response,
    session_id: String,
}

/// A request that the server is expected to refuse.
struct Ask {
    method: Method,
    path: String,
    kind: Option<&'static str>,
    body: Bytes,
}

/// Returns a `POST` with the JSON content type. The body need not be valid JSON.
fn post(path: &str, body: impl Into<Bytes>) -> Ask {
    let (method, path) = (Method::POST, path.into());
    Ask { method, path, kind: Some("application/json"), body: body.into() }
}

/// Returns a request without a body.
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

    /// Sets up the scene on a server with other settings.
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

    /// Returns the proof of the holder of `job`, with the fields of `more` added.
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

    /// Checks that the request fails with this status and code and a message that contains `word`, and that it changes
    /// nothing.
    async fn refuses(&self, ask: Ask, status: u16, code: &str, word: &str) {
        let asked = format!("{} {} {:?}", ask.method, ask.path, shortened(&ask.body));
        let before = self.everything().await;
        let response = self.send(ask).await;
        check_failure(&asked, &response, status, code, word);
        assert_eq!(self.everything().await, before, "{asked} changed something");
    }

    /// Returns all state that is visible from outside. The clock stands still, so the state stays equal unless a
    /// request changes it.
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

/// Checks the common error shape, which all errors without a special shape use.
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

/// Returns the member names of an object.
fn names(body: &Value) -> BTreeSet<&str> {
    body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn shortened(body: &Bytes) -> String {
    String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned()
}
