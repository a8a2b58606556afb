//! Tests that secrets do not leak and that nothing a client sends reaches an operator's terminal. Every call of every
//! dialect is made with canary values, which must not appear in any log, metric, error, event or list.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod keyed;
mod log;

use std::collections::BTreeSet;
use std::time::Duration;

use keyed::Keyed;
use leasehold_testkit::{Client, Local, Method, Response, Value, json};
use log::Log;

/// A name with terminal control characters and line breaks.
const NASTY: &str = "evil\u{1b}[2J\u{9b}31m\r\nFORGED line\u{202e}";
const NASTY_ENCODED: &str = "evil%1B%5B2J%C2%9B31m%0D%0AFORGED%20line%E2%80%AE";
/// A value for fields that hold secrets. Even a wrong value could be another client's secret.
const CANARY: &str = "c0ffee5ec7e7c0ffee5ec7e7c0ffee5ec7e7";
/// How long to read a response that might never end.
const STREAM_MAX: Duration = Duration::from_secs(2);
/// Test timeout, longer than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(180);

/// A client that makes calls and remembers the secrets it got.
struct Caller {
    client: Client,
    secrets: BTreeSet<String>,
    /// Values that locks of the dialect `leases` show as specified, but which must not be logged.
    shown: BTreeSet<String>,
    /// The text of all responses that other clients could read.
    seen: String,
}

impl Caller {
    async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Option<Response> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let headers =
            [&[("x-request-id", "trace\u{9b}1"), ("content-type", "application/json")], headers];
        let headers = headers.concat();
        self.client.send_with(method, path, &headers, body).await.ok()
    }

    /// Sends a request and records the part of the response that is secret.
    async fn learn(&mut self, path: &str, body: Value, secret: &str) -> Response {
        let answer = self.call("POST", path, &[], &body).await.expect("an answer");
        assert!(answer.status < 300, "{path}: {answer:?}");
        self.secrets.insert(answer.text_of(secret));
        answer
    }

    /// Sends a request whose response other clients could read.
    async fn see(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &Value) {
        let call = self.call(method, path, headers, body);
        if let Ok(Some(answer)) = tokio::time::timeout(STREAM_MAX, call).await {
            self.seen.push_str(&answer.text);
        }
    }
}

/// Returns every path and method of the contract.
async fn operations(client: &Client) -> Vec<(String, String)> {
    operations_of(&client.get("/openapi.json").await)
}

fn operations_of(document: &Response) -> Vec<(String, String)> {
    let paths = document.body["paths"].as_object().unwrap();
    let mut operations = Vec::new();
    for (path, methods) in paths {
        for method in methods.as_object().unwrap().keys().filter(|name| *name != "parameters") {
            operations.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(operations.len() > 40, "{operations:?}");
    operations
}

/// Fills in a path's parameters with canaries: ids are proofs, everything else is a name.
fn filled(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment.strip_prefix('{') {
        Some(name) if name.contains("session") || name.contains("lease") => CANARY,
        Some(_) => NASTY_ENCODED,
        None => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Creates real secrets in every dialect that has some.
async fn tell_a_story(caller: &mut Caller) {
    let session = json!({"owner_id": NASTY, "ttl_ms": 60_000});
    let session = caller.learn("/v1/sessions", session, "session_id").await;
    let session = session.text_of("session_id");
    let lock = format!("/v1/locks/{NASTY_ENCODED}");
    let acquire = json!({
        "owner_id": NASTY, "ttl_ms": 60_000, "session_id": session, "metadata": {"a": NASTY},
        "request_id": NASTY,
    });
    let held = caller.learn(&format!("{lock}/acquire"), acquire.clone(), "lease_id").await;
    let proof = json!({
        "owner_id": NASTY, "lease_id": held.get("lease_id"), "fencing_token": 1, "extend_by_ms": 60_000,
    });
    caller.see("POST", &format!("{lock}/renew"), &[], &proof).await;
    caller.see("POST", &format!("/v1/sessions/{session}/keepalive"), &[], &Value::Null).await;
    caller.see("GET", &lock, &[], &Value::Null).await;
    caller.see("POST", &format!("{lock}/revoke"), &[], &json!({"reason": NASTY})).await;
    caller.see("POST", &format!("{lock}/renew"), &[], &proof).await;
    let lease = json!({
        "tenant_id": NASTY, "request_id": "r", "lock_key": NASTY, "owner_id": NASTY, "ttl_seconds": 30,
    });
    let lease = caller.learn("/leases/acquire", lease, "lease_id").await.text_of("lease_id");
    caller.secrets.remove(&lease);
    caller.shown.insert(lease);
    let force = json!({"tenant_id": NASTY, "actor": NASTY, "reason": NASTY});
    let path = format!("/locks/{NASTY_ENCODED}/force-release");
    caller.see("POST", &path, &[("x-role", "ADMIN")], &force).await;
    let editor = caller.learn("/auth/session", Value::Null, "sessionId").await.text_of("sessionId");
    let bearer = format!("Bearer {editor}");
    for (method, path) in [("PUT", "/a.txt"), ("POST", "/b.txt?lock=acquire"), ("GET", "/a.txt")] {
        caller.see(method, path, &[("authorization", &bearer)], &json!("content")).await;
    }
    let cookie = format!("hengdang_session={editor}");
    caller.see("GET", "/b.txt?lock=status", &[("cookie", &cookie)], &Value::Null).await;
    let claim = json!({"resource": NASTY, "timeout": 10, "metadata": {"a": NASTY}});
    caller.see("POST", "/v1/claims/", &[], &claim).await;
    caller.see("POST", &format!("/lock?client={NASTY_ENCODED}&ttl=5s"), &[], &Value::Null).await;
}

/// Returns a body with every known field, each holding a canary.
fn body_of_canaries() -> Value {
    json!({
        "owner_id": NASTY, "ttl_ms": 1000, "lease_id": CANARY, "session_id": CANARY, "fencing_token": 1,
        "request_id": NASTY, "reason": NASTY, "tenant_id": NASTY, "lock_key": NASTY, "ttl_seconds": 30,
        "resource": NASTY, "timeout": 1, "lock_name": NASTY, "extend_by_ms": 1000, "unknown": CANARY,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_seen_and_no_name_writes_on_a_terminal() {
    let log = Log::begin();
    let local = Local::ephemeral().await;
    let client = local.client.clone();
    let mut caller = Caller {
        client,
        secrets: [CANARY.into()].into(),
        shown: BTreeSet::new(),
        seen: String::new(),
    };
    tell_a_story(&mut caller).await;
    let (bearer, cookie) = (format!("Bearer {CANARY}"), format!("hengdang_session={CANARY}"));
    let query = format!("?token={CANARY}&unknown={NASTY_ENCODED}");
    for (method, path) in operations(&local.client).await {
        let path = filled(&path);
        for body in [body_of_canaries(), json!({"lease_id": CANARY}), Value::Null] {
            let headers = [("authorization", bearer.as_str()), ("cookie", &cookie)];
            caller.see(&method, &path, &headers, &body).await;
        }
        caller.see(&method, &format!("{path}{query}"), &[("x-role", "ADMIN")], &Value::Null).await;
        caller.see("BREW", &format!("/{CANARY}{path}"), &[], &Value::Null).await;
    }
    for list in
        ["/v1/locks", "/metrics", "/v1/claims/", "/lock/page", "/admin/locks", "/auth/sessions"]
    {
        caller.see("GET", list, &[], &Value::Null).await;
    }
    caller.seen.push_str(&events(&local).await);
    assert!(caller.secrets.len() >= 4, "{:?}", caller.secrets);
    let mut keyed = Keyed::start().await;
    keyed.live().await;
    let (audit, keyed_seen) = (keyed.audit(), &keyed.seen);
    let (lines, objects) = log.end();
    assert!(lines.len() > 500, "{} lines", lines.len());
    for secret in caller.secrets.iter().chain(&keyed.secrets) {
        for seen in [&caller.seen, keyed_seen, &audit] {
            assert!(!seen.contains(secret.as_str()), "{secret} in {}", around(seen, secret));
        }
        let leak = lines.iter().chain(&objects).find(|line| line.contains(secret.as_str()));
        assert_eq!(leak, None, "a secret is in the log");
    }
    log::check_harmless(&lines, &objects);
}

/// Returns the first events that a new reader of the event stream gets.
async fn events(local: &Local) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(local.address).await.unwrap();
    let ask = "GET /v1/events?since=0-0-0 HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    let has_events = |seen: &[u8]| String::from_utf8_lossy(seen).contains("event: ");
    let until_some =
        async { while !has_events(&seen) && stream.read_buf(&mut seen).await.unwrap_or(0) > 0 {} };
    tokio::time::timeout(PATIENCE, until_some).await.expect("events");
    assert!(has_events(&seen), "{}", String::from_utf8_lossy(&seen));
    // The rest of the events arrives immediately.
    let reading = async { while stream.read_buf(&mut seen).await.unwrap_or(0) > 0 {} };
    let _ = tokio::time::timeout(STREAM_MAX, reading).await;
    String::from_utf8_lossy(&seen).into_owned()
}

fn around(text: &str, secret: &str) -> String {
    let at = text.find(secret).unwrap_or(0);
    text.chars().skip(at.saturating_sub(300)).take(600).collect()
}
