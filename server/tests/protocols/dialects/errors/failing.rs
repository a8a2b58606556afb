//! Tests of a server that is busy, overloaded or stopping, or does not know whether a write succeeded.

use std::time::Duration;

use leasehold_engine as engine;
use leasehold_server::http;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Client, Local, Response, Value, folder, json, settings};
use rusqlite::Connection;

use crate::dialects::errors::raw::Raw;
use crate::dialects::errors::{Scene, check_failure};

/// Checks a 503 response, including its `Retry-After` header.
#[track_caller]
fn check(asked: &str, response: &Response, code: &str, word: &str) {
    check_failure(asked, response, 503, code, word);
    assert_eq!(response.headers["retry-after"], "1", "{asked}");
}

#[tokio::test]
async fn while_another_process_holds_the_database_nothing_is_done() {
    let folder = folder();
    let scene = Scene::of(Local::in_folder(folder.path()).await).await;
    let client = &scene.local.client;
    let before = scene.everything().await;
    let other = Connection::open(folder.path().join("journal.db")).expect("a database");
    other.busy_timeout(Duration::from_secs(10)).expect("a setting");
    other.execute_batch("BEGIN IMMEDIATE").expect("the database");

    let refused = client.acquire("free", "b", 1000, json!({})).await;
    let words = refused.text_of("error");
    let body = json!({
        "acquired": false, "lock_name": "free", "current_owner_id": null, "current_expiry_ms": null,
        "recommended_retry_ms": 50, "reason": "BUSY_RETRY", "error": words,
    });
    assert_eq!((refused.status, &refused.body), (409, &body));
    assert!(words.contains("the request had no effect"), "{words}");
    check(
        "renew",
        &client.renew(&scene.job, 90_000, json!({})).await,
        "BUSY",
        "the request had no effect",
    );
    check(
        "release",
        &client.release(&scene.job, json!({})).await,
        "BUSY",
        "the request had no effect",
    );
    check("look", &client.get("/v1/locks/job").await, "BUSY", "the request had no effect");
    check_failure("ready", &client.get("/readyz").await, 503, "BUSY", "cannot commit writes");
    for path in ["/healthz", "/livez"] {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }

    other.execute_batch("ROLLBACK").expect("the database");
    assert_eq!(scene.everything().await, before);
    let metrics = client.get("/metrics").await.text;
    for op in ["acquire", "renew", "release"] {
        assert!(metrics.contains(&format!("lock_db_busy_total{{op=\"{op}\"}} 1\n")), "{metrics}");
        assert!(metrics.contains(&format!("lock_{op}_total{{result=\"busy\"}} 1\n")), "{metrics}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_know_says_so_and_ends() {
    let folder = folder();
    let scene = Scene::of(Local::in_folder(folder.path()).await).await;
    let other = Connection::open(folder.path().join("journal.db")).expect("a database");
    other.busy_timeout(Duration::from_secs(10)).expect("a setting");
    other.execute_batch("DROP TABLE journal").expect("the database");
    let client = &scene.local.client;
    let told = client.acquire("free", "b", 1000, json!({})).await;
    check("acquire", &told, "UNKNOWN", "same request_id");
    scene.local.server.engine().stopped().await;
    assert_eq!(client.get("/v1/locks/job").await.status, 503);
}

#[tokio::test]
async fn waiters_are_answered_when_the_server_stops() {
    let scene = Scene::new().await;
    let body = json!({"owner_id": "b", "ttl_ms": 1000, "wait_ms": 60_000});
    let waiting = scene.waits("job", body, 1).await;
    scene.local.stop().await;
    check(
        "a wait",
        &waiting.await.expect("no panic"),
        "SHUTTING_DOWN",
        "the request had no effect",
    );
}

#[tokio::test]
async fn more_than_the_engine_can_queue_is_refused_at_once() {
    let engine = engine::Options { queue_max: 1, ..engine::Options::default() };
    let scene = Scene::of(Local::start(Settings { engine, ..settings(None) }).await).await;
    let burst = async |client: &Client| {
        let asks: Vec<_> = (0..64).map(|_| tokio::spawn(acquire(client.clone()))).collect();
        let mut is_seen = false;
        for ask in asks {
            let response = ask.await.expect("no panic");
            if response.status == 409 {
                assert_eq!(response.get("reason"), "HELD", "{}", response.text);
            } else {
                check("one of many", &response, "OVERLOADED", "the request had no effect");
                is_seen = true;
            }
        }
        is_seen
    };
    scene.local.until("one is too many", burst).await;
}

async fn acquire(client: Client) -> Response {
    client.acquire("job", "b", 1000, json!({})).await
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let http = http::Options { body_timeout: Duration::from_millis(1), ..settings(None).http };
    let scene = Scene::of(Local::start(Settings { http, ..settings(None) }).await).await;
    let before = scene.everything().await;
    let head = "POST /v1/locks/free/acquire HTTP/1.1\r\nhost: x\r\ncontent-length: 30\r\n\r\n{";
    let mut raw = Raw::send(scene.local.address, head).await;
    let status = raw.until("\r\n\r\n").await;
    assert!(status.starts_with("HTTP/1.1 408 ") && status.contains("retry-after: 1"), "{status}");
    let body: Value = raw.until("}").await.parse().expect("JSON");
    assert_eq!((&body["code"], &body["retryable"]), (&json!("TIMEOUT"), &json!(true)));
    assert_eq!(body["may_have_taken_effect"], false);
    assert_eq!(scene.everything().await, before);
}
