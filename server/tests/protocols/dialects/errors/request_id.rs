//! Tests of request ids that were used before.

use leasehold_testkit::{Response, Value, json};

use crate::dialects::errors::{Scene, check_failure, post};

/// Returns the body with which `job` was acquired, with the fields of `more` replaced.
fn first(more: Value) -> Value {
    let mut body = json!({
        "owner_id": "a", "ttl_ms": 60_000, "metadata": {"host": "a1"}, "request_id": "first",
    });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

async fn acquire(scene: &Scene, lock: &str, body: Value) -> Response {
    scene.send(post(&format!("/v1/locks/{lock}/acquire"), body.to_string())).await
}

#[tokio::test]
async fn the_same_request_again_gets_the_same_lease() {
    let scene = Scene::new().await;
    scene.local.advance_ms(10_000);
    for more in [json!({}), json!({"wait_ms": 0}), json!({"wait_ms": 5000})] {
        let again = acquire(&scene, "job", first(more)).await;
        assert_eq!(again.get("lease_id"), scene.job.get("lease_id"), "{}", again.text);
        assert_eq!((again.number("fencing_token"), again.number("expires_in_ms")), (1, 50_000));
    }
}

#[tokio::test]
async fn an_id_used_for_something_else_is_refused() {
    let scene = Scene::new().await;
    let conflict = "REQUEST_ID_CONFLICT";
    let cases = [
        json!({"ttl_ms": 60_001}),
        json!({"mode": "shared"}),
        json!({"limit": 1}),
        json!({"grace_ms": 1}),
        json!({"metadata": null}),
        json!({"metadata": {"host": "a2"}}),
        json!({"session_id": scene.session_id}),
        json!({"session_id": scene.session_id, "ttl_ms": null}),
    ];
    for more in cases {
        let ask = post("/v1/locks/job/acquire", first(more).to_string());
        scene.refuses(ask, 409, conflict, "request_id").await;
    }
    let elsewhere = post("/v1/locks/free/acquire", first(json!({})).to_string());
    scene.refuses(elsewhere, 409, conflict, "request_id").await;

    let renewed = scene.local.client.renew(&scene.job, 90_000, json!({"request_id": "r"})).await;
    assert_eq!(renewed.status, 200, "an id of another operation: {}", renewed.text);
    let other = scene.proof(json!({"extend_by_ms": 90_001, "request_id": "r"}));
    scene
        .refuses(post("/v1/locks/job/renew", other.to_string()), 409, conflict, "request_id")
        .await;
    let again = scene.local.client.renew(&scene.job, 90_000, json!({"request_id": "r"})).await;
    assert_eq!((again.status, again.number("expires_in_ms")), (200, 90_000));
}

#[tokio::test]
async fn an_id_is_its_owners_and_its_namespaces() {
    let scene = Scene::new().await;
    let other = acquire(&scene, "free", first(json!({"owner_id": "b"}))).await;
    assert_eq!(other.status, 200, "{}", other.text);
    let path = "/v1/namespaces/other/locks/job/acquire";
    let other = scene.send(post(path, first(json!({})).to_string())).await;
    assert_eq!(other.status, 200, "{}", other.text);
}

#[tokio::test]
async fn an_id_whose_lease_has_ended_is_spent() {
    for how in ["released", "expired", "revoked"] {
        let scene = Scene::new().await;
        let renewal = json!({"request_id": "r"});
        assert_eq!(scene.local.client.renew(&scene.job, 60_000, renewal).await.status, 200);
        match how {
            "released" => {
                assert_eq!(scene.local.client.release(&scene.job, json!({})).await.status, 200);
            }
            "revoked" => {
                let revoke = post("/v1/locks/job/revoke", r#"{"reason":"x"}"#);
                assert_eq!(scene.send(revoke).await.status, 200);
            }
            _ => scene.local.advance_ms(60_000),
        }
        let again = post("/v1/locks/job/acquire", first(json!({})).to_string());
        scene.refuses(again, 409, "REQUEST_ID_SPENT", "its lease has").await;
        let renewal = scene.proof(json!({"extend_by_ms": 60_000, "request_id": "r"}));
        let renewal = post("/v1/locks/job/renew", renewal.to_string());
        scene.refuses(renewal, 409, "REQUEST_ID_SPENT", "its lease has").await;
    }
}

#[tokio::test]
async fn a_repeated_release_succeeds_again_and_frees_nothing_else() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    let id = json!({"request_id": "done"});
    assert_eq!(client.release(&scene.job, id.clone()).await.body, json!({"released": true}));
    let next = client.acquire("job", "a", 1000, json!({})).await;
    assert_eq!(next.number("fencing_token"), 2);
    let before = scene.everything().await;
    assert_eq!(client.release(&scene.job, id.clone()).await.body, json!({"released": true}));
    let conflict = client.release(&next, id).await;
    check_failure("another lease", &conflict, 409, "REQUEST_ID_CONFLICT", "request_id");
    assert_eq!(scene.everything().await, before);
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_its_id() {
    let scene = Scene::new().await;
    let body = json!({"owner_id": "b", "ttl_ms": 1000, "request_id": "mine"});
    assert_eq!(acquire(&scene, "job", body.clone()).await.get("reason"), "HELD");
    assert_eq!(scene.local.client.release(&scene.job, json!({})).await.status, 200);
    assert_eq!(acquire(&scene, "job", body).await.status, 200);
}
