//! Tests of bodies that are not JSON, lack the JSON content type, are too large, or are not an object.

use hyper::Method;
use leasehold_testkit::json;

use crate::dialects::errors::{Ask, Scene, post};

const ACQUIRE: &str = "/v1/locks/free/acquire";
const GOOD: &str = r#"{"owner_id":"b","ttl_ms":1000}"#;

#[tokio::test]
async fn what_is_no_json_is_told_so() {
    let scene = Scene::new().await;
    let deep = format!(
        r#"{{"owner_id":"b","ttl_ms":1,"metadata":{}1{}}}"#,
        "[".repeat(200),
        "]".repeat(200)
    );
    let bodies: &[&[u8]] = &[
        b"",
        b" ",
        b"owner_id=b&ttl_ms=1000",
        b"{",
        br#"{"owner_id":"b","ttl_ms":1000"#,
        br#"{"owner_id":"b","ttl_ms":1000,}"#,
        br#"{'owner_id':'b','ttl_ms':1000}"#,
        br#"{"owner_id":"b","ttl_ms":1000} x"#,
        br#"{"owner_id":"b","ttl_ms":1000}{}"#,
        br#"{"owner_id":"b","ttl_ms":NaN}"#,
        br#"{"owner_id":"b","ttl_ms":Infinity}"#,
        br#"{"owner_id":"b","ttl_ms":-}"#,
        br#"{"owner_id":"b","ttl_ms":01}"#,
        br#"{"owner_id":"b","ttl_ms":1e999}"#,
        br#"{"owner_id":"\ud800","ttl_ms":1000}"#,
        b"{\"owner_id\":\"\xff\",\"ttl_ms\":1000}",
        b"{\"owner_id\":\"a\nb\",\"ttl_ms\":1000}",
        b"\xef\xbb\xbf{\"owner_id\":\"b\",\"ttl_ms\":1000}",
        b"{\0\"\0o\0",
        b"\xff\xfe\x00",
    ];
    for path in [ACQUIRE, "/v1/sessions"] {
        for body in bodies {
            scene.refuses(post(path, body.to_vec()), 400, "INVALID_JSON", "not JSON").await;
        }
    }
    for path in ["/v1/locks/job/renew", "/v1/locks/job/release", "/v1/fence/check"] {
        for body in &bodies[..4] {
            scene.refuses(post(path, body.to_vec()), 400, "INVALID_JSON", "not JSON").await;
        }
    }
    scene.refuses(post(ACQUIRE, deep), 400, "INVALID_REQUEST", "deeper than 127 levels").await;
}

#[tokio::test]
async fn a_body_that_is_no_object_is_refused() {
    let scene = Scene::new().await;
    for path in [ACQUIRE, "/v1/locks/job/renew", "/v1/locks/job/release", "/v1/fence/check"] {
        for body in ["null", "true", "5", "1.5", r#""owner_id""#, "[]", "[1]", "[[]]", "[{}]"] {
            scene.refuses(post(path, body), 400, "INVALID_REQUEST", "").await;
        }
    }
}

#[tokio::test]
async fn a_body_said_to_be_something_else_is_refused() {
    let scene = Scene::new().await;
    let form = "application/x-www-form-urlencoded";
    for kind in
        ["text/plain", form, "application/jsonx", "application/xml", "json", "text/json", ""]
    {
        let kind = Some(kind);
        let ask = Ask { method: Method::POST, path: ACQUIRE.into(), kind, body: GOOD.into() };
        scene.refuses(ask, 415, "UNSUPPORTED_MEDIA_TYPE", "application/json").await;
    }
}

#[tokio::test]
async fn a_body_of_a_kind_that_is_json_or_unsaid_is_taken() {
    let scene = Scene::new().await;
    let json = "application/json; charset=utf-8";
    for kind in [None, Some(json), Some("APPLICATION/JSON"), Some("application/vnd.x+json")] {
        let ask = Ask { method: Method::POST, path: ACQUIRE.into(), kind, body: GOOD.into() };
        let acquired = scene.send(ask).await;
        assert_eq!(acquired.status, 200, "{kind:?}: {}", acquired.text);
        assert_eq!(scene.local.client.release(&acquired, json!({})).await.status, 200);
    }
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit_and_no_larger() {
    let scene = Scene::new().await;
    let padded = |n_bytes: usize| format!("{}{GOOD}", " ".repeat(n_bytes - GOOD.len()));
    for n_bytes in [65_537, 200_000] {
        scene.refuses(post(ACQUIRE, padded(n_bytes)), 413, "BODY_TOO_LARGE", "65536 bytes").await;
    }
    assert_eq!(scene.send(post(ACQUIRE, padded(65_536))).await.status, 200);
}

#[tokio::test]
async fn an_array_is_not_taken_for_an_object_with_its_members_in_order() {
    let scene = Scene::new().await;
    for path in ["/v1/locks/free/acquire", "/v1/locks/job/renew", "/v1/sessions", "/v1/fence/check"]
    {
        let ask = post(path, r#"["a", 1000]"#);
        scene.refuses(ask, 400, "INVALID_REQUEST", "must be a JSON object").await;
    }
}

#[tokio::test]
async fn an_array_is_not_taken_for_a_lock_or_a_lease_either() {
    let scene = Scene::new().await;
    for lock in [r#"["free"]"#, r#"["free","shared",null,1]"#, "[]", "5"] {
        let body = format!(r#"{{"owner_id":"b","ttl_ms":1000,"locks":[{lock}]}}"#);
        let word = "locks[0]: must be an object, got ";
        scene.refuses(post("/v1/acquire", body), 400, "INVALID_REQUEST", word).await;
    }
    for path in ["/v1/renew", "/v1/release"] {
        let extend = if path == "/v1/renew" { r#""extend_by_ms":5,"# } else { "" };
        let body = format!(r#"{{"owner_id":"a",{extend}"leases":[["job","1.0",1]]}}"#);
        let word = "leases[0]: must be an object, got an array";
        scene.refuses(post(path, body), 400, "INVALID_REQUEST", word).await;
    }
}

#[tokio::test]
async fn a_mode_that_is_no_text_is_named() {
    let scene = Scene::new().await;
    for mode in ["5", "null_", "{\"shared\":null}", "[\"shared\"]", "\"both\""] {
        let body = format!("{{\"owner_id\":\"b\",\"ttl_ms\":1000,\"mode\":{mode}}}");
        let (code, word) = if mode == "null_" {
            ("INVALID_JSON", "not JSON")
        } else {
            ("INVALID_REQUEST", "mode")
        };
        scene.refuses(post("/v1/locks/free/acquire", body), 400, code, word).await;
    }
}
