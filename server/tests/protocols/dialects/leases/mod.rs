//! Tests of the dialect `leases` (LS-SPEC-001) over real HTTP. Each requirement has a test that names its id.

mod acquire;
mod identity;
mod lock;
mod meeting;
mod release;
mod renew;
mod restart;
mod setting;
mod trace;
mod ugly;

use std::collections::BTreeSet;

use hyper::Method;
use leasehold_testkit::{Local, Response, Value, json};

const LEASE: [&str; 12] = [
    "lease_id",
    "tenant_id",
    "lock_key",
    "owner_id",
    "status",
    "acquired_at",
    "expires_at",
    "last_renewed_at",
    "fencing_token",
    "idempotency_key",
    "version",
    "server_time",
];
const ERROR: [&str; 4] = ["code", "message", "status", "server_time"];
const JSON: (&str, &str) = ("content-type", "application/json");

/// A server, and short methods for its clients' requests. The tenant is `t` unless a method says otherwise.
struct Scene {
    local: Local,
}

impl Scene {
    async fn new() -> Self {
        Self { local: Local::ephemeral().await }
    }

    fn advance_seconds(&self, seconds: u64) {
        self.local.advance_ms(seconds * 1000);
    }

    async fn post(&self, path: &str, body: Value) -> Response {
        self.local.client.post(path, body).await.expect("an answer")
    }

    async fn post_as(&self, path: &str, header: (&str, &str), body: Value) -> Response {
        let headers = [JSON, header];
        let sent = self.local.client.send_with(Method::POST, path, &headers, body.to_string());
        sent.await.expect("an answer")
    }

    async fn acquire(&self, lock_key: &str, owner_id: &str, request_id: &str) -> Response {
        self.post("/leases/acquire", asking(lock_key, owner_id, request_id)).await
    }

    async fn renew(&self, lease: &Response, owner_id: &str, request_id: &str) -> Response {
        let body = json!({"request_id": request_id, "owner_id": owner_id, "ttl_seconds": 60});
        self.post(&format!("/leases/{}/renew", lease.text_of("lease_id")), body).await
    }

    async fn release(&self, lease: &Response, owner_id: &str, request_id: &str) -> Response {
        let body = json!({"request_id": request_id, "owner_id": owner_id});
        self.post(&format!("/leases/{}/release", lease.text_of("lease_id")), body).await
    }

    async fn look(&self, lock_key: &str) -> Response {
        self.local.client.get(&format!("/locks/{lock_key}?tenant_id=t")).await
    }
}

/// Returns the body of an acquire for 30 seconds.
fn asking(lock_key: &str, owner_id: &str, request_id: &str) -> Value {
    json!({
        "tenant_id": "t",
        "request_id": request_id,
        "lock_key": lock_key,
        "owner_id": owner_id,
        "ttl_seconds": 30,
    })
}

/// Checks that the response is a complete lease with this status.
#[track_caller]
fn check_lease(response: &Response, http_status: u16, status: &str) {
    assert_eq!(response.status, http_status, "{}", response.text);
    assert_eq!(names(&response.body), BTreeSet::from(LEASE), "{}", response.text);
    assert_eq!(response.get("status"), status, "{}", response.text);
}

/// Checks that the response is an error of the common shape with this status and code, and with a message.
#[track_caller]
fn check_error(response: &Response, status: u16, code: &str) {
    let said = &response.text;
    assert_eq!((response.status, response.text_of("code").as_str()), (status, code), "{said}");
    assert_eq!(names(&response.body), BTreeSet::from(ERROR), "{said}");
    assert_eq!(response.get("status"), status, "{said}");
    assert!(!response.text_of("message").is_empty(), "{said}");
    assert!(response.text_of("server_time").ends_with('Z'), "{said}");
    assert_eq!(response.headers["content-type"], "application/json", "{said}");
}

/// Checks that the lock is free.
#[track_caller]
fn check_free(state: &Response) {
    assert_eq!(state.status, 200, "{}", state.text);
    assert_eq!(state.get("has_active_lease"), false, "{}", state.text);
    assert_eq!(state.get("active_lease"), &Value::Null, "{}", state.text);
}

fn names(body: &Value) -> BTreeSet<&str> {
    body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}
