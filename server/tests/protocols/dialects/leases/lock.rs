//! Tests of reading a lock, force-releasing it, and the remaining paths.

use std::collections::BTreeSet;

use hyper::Method;
use leasehold_testkit::{Local, Response, Value, json, settings};

use crate::dialects::leases::{LEASE, Scene, asking, check_error, check_free, check_lease, names};

const STATE: [&str; 5] =
    ["tenant_id", "lock_key", "has_active_lease", "active_lease", "server_time"];
const ADMIN: (&str, &str) = ("x-role", "ADMIN");

#[track_caller]
fn check_state(state: &Response, has_active_lease: bool) {
    assert_eq!(state.status, 200, "{}", state.text);
    assert_eq!(names(&state.body), BTreeSet::from(STATE), "{}", state.text);
    assert_eq!(state.get("has_active_lease"), has_active_lease, "{}", state.text);
}

#[tokio::test]
async fn a_lock_is_shown_with_its_active_lease_and_nothing_else() {
    let scene = Scene::new().await;
    check_free(&scene.look("db").await);
    let lease = scene.acquire("db", "a", "r1").await;
    let state = scene.look("db").await;
    check_state(&state, true);
    assert_eq!(state.get("active_lease"), &lease.body, "time stands still");
    let elsewhere = scene.local.client.get("/locks/db?tenant_id=u").await;
    check_state(&elsewhere, false);
    scene.advance_seconds(30);
    check_free(&scene.look("db").await);
}

#[tokio::test]
async fn force_release_takes_the_lock_away_and_shows_what_it_took() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    let body = json!({"tenant_id": "t", "actor": "root", "reason": "host is gone"});
    let path = "/locks/db/force-release";
    let taken = scene.post_as(path, ADMIN, body.clone()).await;
    check_state(&taken, false);
    let shown = taken.get("active_lease");
    assert_eq!(names(shown), BTreeSet::from(LEASE));
    assert_eq!(&shown["lease_id"], lease.get("lease_id"));
    assert_eq!((&shown["status"], &shown["idempotency_key"]), (&"RELEASED".into(), &"r1".into()));
    check_error(&scene.renew(&lease, "a", "r2").await, 409, "LEASE_NOT_ACTIVE");
    check_error(&scene.release(&lease, "a", "r3").await, 409, "LEASE_NOT_ACTIVE");
    check_error(&scene.acquire("db", "a", "r1").await, 409, "LEASE_NOT_ACTIVE");
    let again = scene.post_as(path, ADMIN, body).await;
    check_state(&again, false);
    assert_eq!(again.get("active_lease"), &Value::Null);
    check_lease(&scene.acquire("db", "b", "r4").await, 201, "ACTIVE");
    let silent = json!({"tenant_id": "t", "actor": "root", "reason": null});
    let taken = scene.post_as(path, ADMIN, silent).await;
    assert_eq!(taken.get("active_lease")["owner_id"], "b");
    let long = json!({"tenant_id": "t", "actor": "root", "reason": "x".repeat(1024)});
    check_error(&scene.post_as(path, ADMIN, long).await, 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn any_key_can_be_written_in_a_path() {
    let scene = Scene::new().await;
    for (key, path) in [
        ("a/b", "a%2Fb"),
        ("acquire", "acquire"),
        ("force-release", "force-release"),
        ("10 % of ä?", "10%20%25%20of%20%C3%A4%3F"),
        ("..", "%2E%2E"),
    ] {
        let lease = scene.acquire(key, "a", key).await;
        check_lease(&lease, 201, "ACTIVE");
        let state = scene.look(path).await;
        check_state(&state, true);
        assert_eq!(state.get("lock_key"), key);
        assert_eq!(&state.get("active_lease")["lease_id"], lease.get("lease_id"));
        let body = json!({"tenant_id": "t", "actor": "root"});
        let taken = scene.post_as(&format!("/locks/{path}/force-release"), ADMIN, body).await;
        assert_eq!(taken.get("active_lease")["lock_key"], key);
    }
    for path in ["%", "a%2", "a%zz", "%FF"] {
        check_error(&scene.look(path).await, 400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn the_query_names_the_tenant_and_nothing_else() {
    let scene = Scene::new().await;
    let twice = "?tenant_id=t&tenant_id=u";
    for query in ["", "?tenant_id=", "?tenant=t", "?tenant_id=t&x=1", twice] {
        let answer = scene.local.client.get(&format!("/locks/db{query}")).await;
        check_error(&answer, 400, "INVALID_REQUEST");
        let names_it = answer.text_of("message").contains("tenant");
        assert!(names_it || query.contains("x=1"), "{}", answer.text);
    }
    let long = format!("/locks/{}?tenant_id=t", "k".repeat(513));
    check_error(&scene.local.client.get(&long).await, 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_in_the_same_shape() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    for path in [
        "/leases",
        "/leases/",
        "/leases/x/y",
        "/leases/x/renew/",
        "/locks",
        "/locks/",
        "/locks/a/b",
    ] {
        check_error(&client.get(path).await, 404, "NOT_FOUND");
    }
    for (method, path, allow) in [
        (Method::GET, "/leases/acquire", "POST"),
        (Method::DELETE, "/leases/x/release", "POST"),
        (Method::PUT, "/locks/db", "GET,HEAD"),
        (Method::POST, "/health", "GET,HEAD"),
    ] {
        let answer = client.send(method, path, None, "").await.expect("an answer");
        check_error(&answer, 405, "INVALID_REQUEST");
        assert_eq!(answer.headers["allow"], allow);
    }
}

#[tokio::test]
async fn health_is_told_and_a_dialect_that_is_off_is_not_there() {
    let scene = Scene::new().await;
    let health = scene.local.client.get("/health").await;
    assert_eq!((health.status, health.text_of("status").as_str()), (200, "ok"));
    let mut settings = settings(None);
    settings.dialects.retain(|dialect| dialect.name() != "leases");
    let local = Local::start(settings).await;
    for path in ["/health", "/locks/db?tenant_id=t", "/leases/acquire"] {
        assert_eq!(local.client.get(path).await.status, 404, "{path}");
    }
    let answer = local.client.post("/leases/acquire", asking("db", "a", "r1")).await;
    assert_eq!(answer.expect("an answer").status, 404);
}

#[tokio::test]
async fn a_server_that_cannot_answer_says_when_to_come_back() {
    let scene = Scene::new().await;
    scene.local.server.engine().stop();
    scene.local.server.engine().stopped().await;
    let refused = scene.acquire("db", "a", "r1").await;
    check_error(&refused, 503, "UNAVAILABLE");
    assert_eq!(refused.headers["retry-after"], "1");
    check_error(&scene.look("db").await, 503, "UNAVAILABLE");
}
