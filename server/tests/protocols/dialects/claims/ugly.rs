//! Tests of malformed and hostile requests of the claims dialect.

use hyper::Method;
use leasehold_testkit::{Value, json};

use crate::dialects::claims::{Scene, named};

#[tokio::test]
async fn invalid_values_are_400_by_name_and_change_nothing() {
    let scene = Scene::start().await;
    for (body, expected) in [
        (r#"{"resource":"","timeout":1}"#, vec!["resource"]),
        (r#"{"resource":1,"timeout":1}"#, vec!["resource"]),
        (r#"{"resource":null,"timeout":null}"#, vec!["resource", "timeout"]),
        (r#"{"resource":["r"],"timeout":[1]}"#, vec!["resource", "timeout"]),
        (r#"{"resource":"r","timeout":"1.5"}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":true}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":-0.001}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":-1}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":86400.001}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":86400.00000000001}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":1e308}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":1e999}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":99999999999999999999999999}"#, vec!["timeout"]),
        (r#"{"resource":"r","ttl":-1}"#, vec!["ttl"]),
        (r#"{"resource":"r","resource":"r","timeout":1}"#, vec!["resource"]),
        (r#"{"resource":"r","timeout":1,"timeout":2}"#, vec!["timeout"]),
        (r#"{"resource":"r","timeout":1,"x":1,"x":1}"#, vec!["x"]),
        (r#"{"resource":"r","timeout":1,"":1}"#, vec![""]),
        (r#"{"resource":"r","timeout":1,"metadata":1e999}"#, vec!["metadata"]),
        (r#"{"resource":"r","timeout":1,"user_data":"\ud800"}"#, vec!["user_data"]),
        (r#"{"resource":"r","timeout":1,"metadata":NaN}"#, vec!["message"]),
        (r#"{"resource":"r","timeout":NaN}"#, vec!["message"]),
        (r#"{"resource":"r","timeout":Infinity}"#, vec!["message"]),
        (r#"{"resource":"r","timeout":1}x"#, vec!["message"]),
        (r#"{"resource":"r","timeout":1"#, vec!["message"]),
        (r#"["r",1]"#, vec!["message"]),
        ("null", vec!["message"]),
        ("1", vec!["message"]),
        ("", vec!["message"]),
        ("resource=r&timeout=1", vec!["message"]),
    ] {
        let answer = scene.send(Method::POST, "/v1/claims/", body).await;
        assert_eq!(named(&answer), expected, "{body}");
    }
    let deep = nested(65);
    assert_eq!(named(&scene.send(Method::POST, "/v1/claims/", &deep).await), ["metadata"]);
    for (name, length) in [("resource", 513), ("metadata", 20_000)] {
        let mut body = json!({"resource": "r", "timeout": 1});
        body[name] = Value::String("x".repeat(length));
        assert_eq!(named(&scene.post(body).await), [name]);
    }
    assert!(scene.list("").await.is_empty());
}

/// Returns a claim with metadata nested `n` levels deep.
fn nested(n: usize) -> String {
    let (before, after) = ("[".repeat(n), "]".repeat(n));
    format!(r#"{{"resource":"deep","timeout":1,"metadata":{before}{after}}}"#)
}

#[tokio::test]
async fn metadata_that_is_accepted_can_be_read_back_in_a_list() {
    let scene = Scene::start().await;
    assert_eq!(scene.send(Method::POST, "/v1/claims/", &nested(64)).await.status, 201);
    assert_eq!(scene.list("").await, [1]);
}

#[tokio::test]
async fn everything_else_that_is_json_is_metadata() {
    let scene = Scene::start().await;
    for (n, text) in [
        "1",
        "\"\"",
        "[]",
        "false",
        "123456789012345678901234567890",
        "1.10",
        r#"{"b": 1, "a": "\u00fc"}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let body = format!(r#"{{"resource":"{n}","timeout":1,"metadata":{text}}}"#);
        let answer = scene.send(Method::POST, "/v1/claims", &body).await;
        assert_eq!(answer.status, 201);
        let shown = format!(r#""metadata":{text},"user_data":{text}"#);
        assert!(answer.text.contains(&shown), "as it was written: {}", answer.text);
    }
}

#[tokio::test]
async fn a_body_that_is_not_utf_8_is_400() {
    let scene = Scene::start().await;
    for body in [
        &b"{\"resource\":\"\xff\",\"timeout\":1}"[..],
        b"{\"resource\":\"r\",\"timeout\":1,\"metadata\":\"\xff\"}",
        b"\xff\xfe",
    ] {
        let kind = Some("application/json");
        let sent = scene.local.client.send(Method::POST, "/v1/claims/", kind, body.to_vec());
        assert_eq!(sent.await.unwrap().status, 400);
    }
    assert!(scene.list("").await.is_empty());
}

#[tokio::test]
async fn another_content_type_is_415_and_none_is_json() {
    let scene = Scene::start().await;
    let body = r#"{"resource":"r","timeout":1}"#;
    for (kind, status) in [
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (Some("application/json; charset=utf-8"), 201),
        (None, 202),
    ] {
        let sent = scene.local.client.send(Method::POST, "/v1/claims", kind, body);
        let answer = sent.await.unwrap();
        assert_eq!(answer.status, status, "{kind:?}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_413() {
    let scene = Scene::start().await;
    let answer = scene.send(Method::POST, "/v1/claims/", &" ".repeat(4 << 20)).await;
    assert_eq!(answer.status, 413);
    assert!(!answer.text_of("message").is_empty());
}

#[tokio::test]
async fn head_is_get_and_other_methods_are_405_with_allow() {
    let scene = Scene::start().await;
    let id = scene.claim("r", 10.0).await;
    for path in ["/v1/claims", "/v1/claims/"] {
        assert_eq!(scene.send(Method::HEAD, path, "").await.status, 200);
        for method in [Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
            let answer = scene.send(method, path, "").await;
            assert_eq!(answer.status, 405);
            assert_eq!(answer.headers["allow"], "GET,HEAD,POST");
            let allowed = "method not allowed; allowed: GET, HEAD, POST";
            assert!(answer.text.contains(allowed), "{}", answer.text);
        }
    }
    for path in [format!("/v1/claims/{id}"), format!("/v1/claims/{id}/")] {
        assert_eq!(scene.send(Method::HEAD, &path, "").await.status, 200);
        for method in [Method::POST, Method::DELETE, Method::OPTIONS] {
            let answer = scene.send(method, &path, "").await;
            assert_eq!(answer.status, 405);
            assert_eq!(answer.headers["allow"], "GET,HEAD,PATCH,PUT");
        }
    }
    assert_eq!(scene.status(id).await, "active");
}
