//! Tests of sessions that never existed, that have ended, or that belong to another owner.

use hyper::Method;
use leasehold_testkit::{Value, json};

use crate::dialects::errors::{Ask, Scene, bare, post};

const NO_SESSION: &str = "NO_SUCH_SESSION";

/// Returns one request for each use of a session.
fn uses(session_id: &str) -> [Ask; 4] {
    let path = format!("/v1/sessions/{session_id}");
    let acquire = json!({"owner_id": "a", "session_id": session_id});
    [
        post("/v1/locks/free/acquire", acquire.to_string()),
        bare(Method::POST, &format!("{path}/keepalive")),
        bare(Method::GET, &path),
        bare(Method::DELETE, &path),
    ]
}

async fn open(scene: &Scene, owner: &str, ttl_ms: u64) -> String {
    let body = json!({"owner_id": owner, "ttl_ms": ttl_ms}).to_string();
    let opened = scene.send(post("/v1/sessions", body)).await;
    let session_id = opened.text_of("session_id");
    let whole = json!({
        "session_id": session_id, "owner_id": owner, "expires_in_ms": ttl_ms,
        "expires_after_send_ms": ttl_ms,
    });
    assert_eq!((opened.status, opened.body), (201, whole));
    session_id
}

async fn acquire(scene: &Scene, lock: &str, session_id: &str) -> leasehold_testkit::Response {
    let body = json!({"owner_id": "a", "session_id": session_id}).to_string();
    scene.send(post(&format!("/v1/locks/{lock}/acquire"), body)).await
}

#[tokio::test]
async fn an_unknown_session_is_not_found() {
    let scene = Scene::new().await;
    let almost = &scene.session_id[1..];
    for session_id in ["x", "0", almost, &"f".repeat(64), &"f".repeat(5000)] {
        for ask in uses(session_id) {
            scene.refuses(ask, 404, NO_SESSION, "session not found").await;
        }
    }
    let empty = json!({"owner_id": "a", "session_id": ""}).to_string();
    scene.refuses(post("/v1/locks/free/acquire", empty), 404, NO_SESSION, "session_id").await;
}

#[tokio::test]
async fn a_session_that_is_over_is_not_found() {
    let scene = Scene::new().await;
    let expired = open(&scene, "a", 1000).await;
    let closed = open(&scene, "a", 5000).await;
    let gone = scene.send(bare(Method::DELETE, &format!("/v1/sessions/{closed}"))).await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    scene.local.advance_ms(1000);
    for ask in uses(&expired).into_iter().chain(uses(&closed)) {
        scene.refuses(ask, 404, NO_SESSION, "session not found").await;
    }
}

#[tokio::test]
async fn a_session_of_another_principal_cannot_be_used() {
    let scene = Scene::new().await;
    for more in [json!({}), json!({"ttl_ms": 1000}), json!({"wait_ms": 1000})] {
        for lock in ["free", "job"] {
            let mut body = json!({"owner_id": "b", "session_id": scene.session_id});
            body.as_object_mut().expect("an object").extend(more.as_object().expect("it").clone());
            let ask = post(&format!("/v1/locks/{lock}/acquire"), body.to_string());
            scene.refuses(ask, 404, NO_SESSION, "session not found").await;
        }
    }
}

#[tokio::test]
async fn one_keep_alive_holds_every_lease_and_the_end_ends_them_all() {
    for (how, reason) in [("closed", "NOT_OWNER"), ("expired", "EXPIRED")] {
        let scene = Scene::new().await;
        let client = &scene.local.client;
        let session_id = open(&scene, "a", 5000).await;
        let leases =
            [acquire(&scene, "x", &session_id).await, acquire(&scene, "y", &session_id).await];
        scene.local.advance_ms(4000);
        assert_eq!(client.get("/v1/locks/x").await.body["holders"][0]["expires_in_ms"], 1000);
        let path = format!("/v1/sessions/{session_id}");
        let kept = scene.send(bare(Method::POST, &format!("{path}/keepalive"))).await;
        assert_eq!(
            (kept.status, kept.body),
            (200, json!({"expires_in_ms": 5000, "expires_after_send_ms": 5000}))
        );
        scene.local.advance_ms(4000);
        assert_eq!(client.get("/v1/locks/y").await.get("held"), true);
        match how {
            "closed" => assert_eq!(client.delete(&path).await.status, 204),
            _ => scene.local.advance_ms(1000),
        }
        for lease in &leases {
            let lock = client.get(&format!("/v1/locks/{}", lease.text_of("lock_name"))).await;
            assert_eq!(lock.get("held"), false, "{how}");
            let released = client.release(lease, json!({})).await;
            assert_eq!((released.status, released.get("reason")), (409, &Value::from(reason)));
            assert_eq!(client.renew(lease, 1000, json!({})).await.status, 409);
        }
    }
}
