//! Tests of the dialect `lock` (sticky locks) over real HTTP, with a clock that the tests control.

mod input;
mod instant;
mod native;
mod page;
mod seed;
mod setting;

use hyper::Method;
use leasehold_base::clock::Clock;
use leasehold_core::Span;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Client, Local, Response, Value, json, settings};

/// 2024-01-15T10:29:30Z: a lock acquired at 0 s for 30 s then expires at the time used in the specification's examples.
const WALL_MS: i64 = 1_705_314_570_000;

/// A server that some laptops share. Its clock starts at 0 s.
struct Homelab {
    local: Local,
}

impl Homelab {
    async fn start() -> Self {
        Self::with(settings(None)).await
    }

    async fn with(settings: Settings) -> Self {
        let local = Local::start(settings).await;
        local.clock.set_wall_ms(WALL_MS);
        Self { local }
    }

    /// Advances the clock to this many milliseconds after the start.
    fn at_ms(&self, ms: u64) {
        let passed = Span::from_nanos(self.local.clock.boottime()).as_millis();
        self.local.advance_ms(ms.checked_sub(passed).expect("time only grows"));
    }

    fn at_s(&self, s: u64) {
        self.at_ms(s * 1000);
    }

    async fn post(&self, query: &str) -> Response {
        post(&self.local.client, query).await
    }

    async fn delete(&self, query: &str) -> Response {
        self.local.client.delete(&format!("/lock?{query}")).await
    }

    async fn get(&self, query: &str) -> Response {
        self.local.client.get(&format!("/lock?{query}")).await
    }

    /// Reads the lock through the native dialect.
    async fn native(&self) -> Response {
        self.local.client.get("/v1/locks/default").await
    }
}

async fn post(client: &Client, query: &str) -> Response {
    let path = format!("/lock?{query}");
    client.send(Method::POST, &path, None, "").await.expect("an answer")
}

/// Returns a time such as `10:30:05` on the day of the specification's examples.
fn time(of_day: &str) -> String {
    format!("2024-01-15T{of_day}Z")
}

/// Checks that the lock was granted with this message and token.
#[track_caller]
fn check_granted(answer: &Response, message: &str, token: u64) {
    let said = (answer.status, answer.text_of("message"), answer.get("fencing_token").as_u64());
    assert_eq!(said, (200, message.into(), Some(token)), "{answer:?}");
    check(answer, 200, answer.body.clone());
}

#[track_caller]
fn check_held(answer: &Response, holder: &str, expires_at: &str) {
    let body = json!({
        "success": false, "job": answer.get("job"), "holder": holder,
        "message": "held by another client", "expires_at": time(expires_at),
    });
    check(answer, 409, body);
}

#[track_caller]
fn check_grace(answer: &Response, holder: &str, grace_until: &str) {
    let body = json!({
        "error": "grace period active", "message": "grace period active", "success": false,
        "job": answer.get("job"), "holder": holder, "grace_until": time(grace_until),
    });
    check(answer, 409, body);
}

#[track_caller]
fn check_released(answer: &Response) {
    let job = answer.get("job");
    let body = json!({"success": true, "job": job, "holder": "", "message": "lock released"});
    check(answer, 200, body);
}

#[track_caller]
fn check_not_holder(answer: &Response) {
    check(answer, 403, json!({"error": "client does not hold the lock"}));
}

/// Checks that the lock is free and not in grace.
#[track_caller]
fn check_free(answer: &Response) {
    let job = answer.get("job");
    let body = json!({
        "success": true, "holder": "", "is_expired": true, "job": job, "message": "no lock held",
    });
    check(answer, 200, body);
}

/// Checks that the lock has expired. Its last holder is still shown.
#[track_caller]
fn check_expired(answer: &Response, holder: &str, expires_at: &str, grace_until: &str) {
    let body = json!({
        "success": true, "holder": holder, "is_expired": true, "job": answer.get("job"),
        "message": "lock held", "expires_at": time(expires_at), "grace_until": time(grace_until),
    });
    check(answer, 200, body);
}

#[track_caller]
fn check(answer: &Response, status: u16, body: Value) {
    assert_eq!((answer.status, &answer.body), (status, &body), "{answer:?}");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.headers["content-type"], "application/json");
}
