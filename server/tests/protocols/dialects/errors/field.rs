//! Tests that a field that is missing, unknown, duplicated or of the wrong type is named in the error.

use leasehold_testkit::{Value, json};

use crate::dialects::errors::{Scene, post};

/// A call, a valid body, and the expectations for its fields.
struct Call {
    path: &'static str,
    good: Value,
    required: &'static [&'static str],
    numbers: &'static [&'static str],
    texts: &'static [&'static str],
}

fn calls(scene: &Scene) -> [Call; 6] {
    let call = |path, good, required, numbers, texts| Call { path, good, required, numbers, texts };
    [
        call(
            "/v1/locks/free/acquire",
            json!({"owner_id": "b", "ttl_ms": 1000}),
            &["owner_id"],
            &["ttl_ms", "wait_ms", "limit", "grace_ms"],
            &["owner_id", "request_id", "session_id"],
        ),
        call(
            "/v1/locks/job/renew",
            scene.proof(json!({"extend_by_ms": 90_000})),
            &["owner_id", "lease_id", "fencing_token", "extend_by_ms"],
            &["fencing_token", "extend_by_ms"],
            &["owner_id", "lease_id", "request_id"],
        ),
        call(
            "/v1/locks/job/release",
            scene.proof(json!({})),
            &["owner_id", "lease_id", "fencing_token"],
            &["fencing_token"],
            &["owner_id", "lease_id", "request_id"],
        ),
        call("/v1/locks/job/revoke", json!({"reason": "x"}), &["reason"], &[], &["reason"]),
        call(
            "/v1/sessions",
            json!({"owner_id": "b", "ttl_ms": 1000}),
            &["owner_id", "ttl_ms"],
            &["ttl_ms"],
            &["owner_id"],
        ),
        call(
            "/v1/fence/check",
            json!({"lock_name": "job", "fencing_token": 1}),
            &["lock_name", "fencing_token"],
            &["fencing_token"],
            &["lock_name", "namespace"],
        ),
    ]
}

const NO_NUMBERS: [&str; 11] = [
    r#""5""#,
    r#""1.5""#,
    r#""""#,
    "1.5",
    "1.0",
    "1e3",
    "-1",
    "18446744073709551616",
    "true",
    "[5]",
    r#"{"ms":5}"#,
];
const NO_TEXTS: [&str; 6] = ["5", "-1", "1.5", "true", r#"["b"]"#, "{}"];

/// Returns the body with this field added in front, in exactly this JSON text.
fn with_field(good: &Value, field: &str, written: &str) -> String {
    let mut rest = good.clone();
    rest.as_object_mut().expect("an object").remove(field);
    format!(r#"{{"{field}":{written},{}"#, &rest.to_string()[1..]).replace(",}", "}")
}

#[tokio::test]
async fn a_missing_field_is_named() {
    let scene = Scene::new().await;
    for Call { path, good, required, .. } in calls(&scene) {
        scene.refuses(post(path, "{}"), 400, "INVALID_REQUEST", required[0]).await;
        for field in required {
            let mut body = good.clone();
            body.as_object_mut().expect("an object").remove(*field);
            scene.refuses(post(path, body.to_string()), 400, "INVALID_REQUEST", field).await;
            let null = with_field(&good, field, "null");
            scene.refuses(post(path, null), 400, "INVALID_REQUEST", field).await;
        }
    }
}

#[tokio::test]
async fn a_field_of_the_wrong_type_is_named() {
    let scene = Scene::new().await;
    for Call { path, good, numbers, texts, .. } in calls(&scene) {
        let bad_numbers = numbers.iter().flat_map(|field| NO_NUMBERS.map(|bad| (field, bad)));
        let bad_texts = texts.iter().flat_map(|field| NO_TEXTS.map(|bad| (field, bad)));
        for (field, bad) in bad_numbers.chain(bad_texts) {
            let body = with_field(&good, field, bad);
            scene.refuses(post(path, body), 400, "INVALID_REQUEST", field).await;
        }
    }
}

#[tokio::test]
async fn an_unknown_field_is_named() {
    let scene = Scene::new().await;
    for Call { path, good, .. } in calls(&scene) {
        for field in ["colour", "Owner_Id", "owner_id ", "ttl", ""] {
            let body = with_field(&good, field, "1");
            scene.refuses(post(path, body), 400, "INVALID_REQUEST", field).await;
        }
    }
}

#[tokio::test]
async fn a_field_that_is_there_twice_is_named() {
    let scene = Scene::new().await;
    for Call { path, good, required, .. } in calls(&scene) {
        for field in required {
            let body = good.to_string();
            let twice = format!(r#"{{"{field}":{},{}"#, good[*field], &body[1..]);
            scene.refuses(post(path, twice), 400, "INVALID_REQUEST", field).await;
        }
    }
}

#[tokio::test]
async fn an_optional_field_that_is_null_is_as_if_it_were_not_there() {
    let scene = Scene::new().await;
    let body = json!({
        "owner_id": "b", "ttl_ms": 1000, "request_id": null, "wait_ms": null, "mode": null,
        "limit": null, "grace_ms": null, "metadata": null, "session_id": null,
    });
    let acquired = scene.send(post("/v1/locks/free/acquire", body.to_string())).await;
    assert_eq!(acquired.status, 200, "{}", acquired.text);
    let looked = scene.local.client.get("/v1/locks/free").await;
    assert_eq!(looked.body["holders"][0]["mode"], "exclusive");
    assert_eq!(looked.get("metadata"), &Value::Null);
}
