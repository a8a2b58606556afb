//! Tests of malformed and hostile requests. None of them changes anything.

use hyper::Method;
use leasehold_testkit::{Local, json, settings};

use crate::dialects::leases::{JSON, Scene, asking, check_error, check_free, check_lease};

/// Checks that `POST /leases/acquire` refuses this body with this status and code, and with a message that contains
/// `word`.
async fn check(scene: &Scene, text: &str, status: u16, code: &str, word: &str) {
    let path = "/leases/acquire";
    let sent = scene.local.client.send_with(Method::POST, path, &[JSON], text.to_owned());
    let answer = sent.await.expect("an answer");
    check_error(&answer, status, code);
    let message = answer.text_of("message");
    assert!(message.contains(word), "{text} should name {word}: {message}");
}

#[tokio::test]
async fn a_ttl_is_a_whole_number_within_bounds() {
    let scene = Scene::new().await;
    let huge = "1".repeat(100);
    for ttl in [
        "0",
        "9",
        "301",
        "-1",
        "-0",
        "30.0",
        "30.5",
        "3e1",
        "1e400",
        "18446744073709551616",
        &huge,
        "\"30\"",
        "null",
        "true",
        "[30]",
        "{}",
    ] {
        let text = asking("db", "a", "r1").to_string().replace(":30", &format!(":{ttl}"));
        check(&scene, &text, 400, "INVALID_TTL", "ttl_seconds").await;
        let body = format!(r#"{{"request_id":"r","owner_id":"a","ttl_seconds":{ttl}}}"#);
        let path = "/leases/x/renew";
        let sent = scene.local.client.send_with(Method::POST, path, &[JSON], body).await;
        check_error(&sent.expect("an answer"), 400, "INVALID_TTL");
    }
    check_free(&scene.look("db").await);
    for (n, ttl) in [10, 300].into_iter().enumerate() {
        let mut ask = asking(&format!("db{n}"), "a", &format!("r{n}"));
        ask["ttl_seconds"] = ttl.into();
        check_lease(&scene.post("/leases/acquire", ask).await, 201, "ACTIVE");
    }
}

#[tokio::test]
async fn the_bounds_of_a_ttl_are_settings_within_those_of_the_server() {
    let mut settings = settings(None);
    settings.dialect.leases.ttl_seconds_min = 1;
    settings.dialect.leases.ttl_seconds_max = 1_000_000;
    let scene = Scene { local: Local::start(settings).await };
    for (ttl, status) in [(0, 400), (1, 201), (86_400, 201), (86_401, 400), (1_000_001, 400)] {
        let mut ask = asking(&format!("db{ttl}"), "a", &format!("r{ttl}"));
        ask["ttl_seconds"] = ttl.into();
        let answer = scene.post("/leases/acquire", ask).await;
        assert_eq!(answer.status, status, "{ttl}: {}", answer.text);
        assert!(status == 201 || answer.text_of("code") == "INVALID_TTL", "{}", answer.text);
    }
}

#[tokio::test]
async fn every_field_is_needed_and_named_if_it_is_wrong() {
    let scene = Scene::new().await;
    let fields = [("tenant_id", 128), ("request_id", 128), ("lock_key", 512), ("owner_id", 256)];
    for (field, bytes_max) in fields {
        let wrong = [json!(null), json!(7), json!(["x"]), json!({}), json!(true), json!("")];
        for value in wrong.into_iter().chain([json!("x".repeat(bytes_max + 1))]) {
            let mut ask = asking("db", "a", "r1");
            ask[field] = value;
            check(&scene, &ask.to_string(), 400, "INVALID_REQUEST", field).await;
        }
        let mut ask = asking("db", "a", "r1");
        ask.as_object_mut().unwrap().remove(field);
        check(&scene, &ask.to_string(), 400, "INVALID_REQUEST", field).await;
        let mut longest = asking("db-long", "a", field);
        longest[field] = "x".repeat(bytes_max).into();
        let lease = scene.post("/leases/acquire", longest).await;
        check_lease(&lease, 201, "ACTIVE");
        scene.advance_seconds(30);
    }
    let mut ask = asking("db", "a", "r1");
    ask.as_object_mut().unwrap().remove("ttl_seconds");
    check(&scene, &ask.to_string(), 400, "INVALID_REQUEST", "ttl_seconds").await;
    check_free(&scene.look("db").await);
}

#[tokio::test]
async fn a_body_is_one_json_object_without_surprises() {
    let scene = Scene::new().await;
    let good = asking("db", "a", "r1").to_string();
    let unknown = good.replacen('{', r#"{"wait":1,"#, 1);
    check(&scene, &unknown, 400, "INVALID_REQUEST", "wait").await;
    let twice = good.replacen('{', r#"{"owner_id":"b","#, 1);
    check(&scene, &twice, 400, "INVALID_REQUEST", "owner_id").await;
    let twice = good.replacen('{', r#"{"ttl_seconds":20,"#, 1);
    check(&scene, &twice, 400, "INVALID_REQUEST", "ttl_seconds").await;
    for text in ["[]", "[1]", "7", "null", "\"x\""] {
        check(&scene, text, 400, "INVALID_REQUEST", "object").await;
    }
    check(&scene, &format!("[{good}]"), 400, "INVALID_REQUEST", "object").await;
    for text in ["", " ", "{", "nonsense", "{'a':1}", &good[..good.len() - 1]] {
        check(&scene, text, 400, "INVALID_JSON", "JSON").await;
    }
    check(&scene, &format!("{good} {good}"), 400, "INVALID_JSON", "JSON").await;
    check(&scene, "{}", 400, "INVALID_REQUEST", "missing field").await;
    check(&scene, &format!("{good}{}", " ".repeat(65_536)), 413, "INVALID_REQUEST", "65536").await;
    check_free(&scene.look("db").await);
}

#[tokio::test]
async fn a_body_said_to_be_something_else_is_not_read() {
    let scene = Scene::new().await;
    let good = asking("db", "a", "r1").to_string();
    let client = &scene.local.client;
    let send = async |kind| {
        let sent = client.send(Method::POST, "/leases/acquire", kind, good.clone());
        sent.await.expect("an answer")
    };
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"] {
        check_error(&send(Some(kind)).await, 415, "INVALID_JSON");
    }
    check_free(&scene.look("db").await);
    check_lease(&send(Some("Application/JSON; charset=utf-8")).await, 201, "ACTIVE");
    check_lease(&send(None).await, 201, "ACTIVE");
}

#[tokio::test]
async fn what_is_no_lease_id_is_no_lease() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    let id = lease.text_of("lease_id");
    let (padded, spaced) = (format!("0{id}0"), format!("{id}%20"));
    let huge = "9".repeat(40);
    for wrong in ["x", "1", "1.", ".", "-1.0", "%20", "acquire", &huge, &padded, &spaced] {
        let body = json!({"request_id": "r2", "owner_id": "a"});
        let answer = scene.post(&format!("/leases/{wrong}/release"), body).await;
        check_error(&answer, 404, "LEASE_NOT_FOUND");
    }
    check_lease(&scene.release(&lease, "a", "r2").await, 200, "RELEASED");
}
