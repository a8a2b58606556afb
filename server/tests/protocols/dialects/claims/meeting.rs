//! Tests of claims and the native dialect using the same lock.

use leasehold_core::Span;
use leasehold_server::dialect::Dialect;
use leasehold_testkit::{Local, json, settings};

use crate::dialects::claims::Scene;

#[tokio::test]
async fn a_claim_and_a_native_lease_of_one_name_exclude_each_other() {
    let scene = Scene::start().await;
    let client = &scene.local.client;
    let claim = scene.claim("x", 10.0).await;
    let refused = client.acquire("x", "a", 10_000, json!({})).await;
    assert_eq!((refused.status, refused.text_of("reason")), (409, "HELD".into()));
    assert_eq!(refused.text_of("current_owner_id"), format!("claim:{claim}"));
    scene.local.advance_ms(10_000);
    let held = client.acquire("x", "a", 10_000, json!({})).await;
    assert_eq!((held.status, held.number("fencing_token")), (200, 2), "the tokens continue");
    let waiting = scene.claim("x", 10.0).await;
    let answer = scene.set(waiting, "active").await;
    assert_eq!(answer.status, 409);
    assert!(answer.get("active_claim_id").is_null(), "the holder is no claim");
    assert_eq!(client.release(&held, json!({})).await.status, 200);
    let claim = scene.get(waiting).await;
    assert_eq!((claim.text_of("status"), claim.number("fencing_token")), ("active".into(), 3));
}

#[tokio::test]
async fn one_queue_serves_both() {
    let scene = Scene::start().await;
    let first = scene.claim("x", 10.0).await;
    let client = scene.local.client.clone();
    let native =
        tokio::spawn(
            async move { client.acquire("x", "a", 10_000, json!({"wait_ms": 60_000})).await },
        );
    scene
        .local
        .until("it waits", async |client| client.get("/v1/locks/x").await.get("n_waiting") == 1)
        .await;
    let last = scene.claim("x", 10.0).await;
    scene.set(first, "released").await;
    let native = native.await.unwrap();
    assert_eq!(native.status, 200);
    assert_eq!(scene.status(last).await, "waiting");
    scene.local.advance_ms(10_000);
    assert_eq!(scene.status(last).await, "active");
}

#[tokio::test]
async fn a_number_of_another_dialects_lease_is_404() {
    let scene = Scene::start().await;
    let held = scene.local.client.acquire("x", "a", 10_000, json!({})).await;
    let number: u64 = held.text_of("lease_id").split('.').next().unwrap().parse().unwrap();
    assert_eq!(scene.get(number).await.status, 404);
    for body in [
        json!({"status": "active"}),
        json!({"status": "released"}),
        json!({"ttl": 1}),
        json!({"status": "revoked"}),
        json!({"timeout": 1}),
    ] {
        assert_eq!(scene.patch(number, body).await.status, 404);
    }
    assert!(scene.list("").await.is_empty());
    assert_eq!(scene.local.client.release(&held, json!({})).await.status, 200);
}

#[tokio::test]
async fn in_another_owners_grace_a_post_waits_and_a_patch_to_active_is_409() {
    let scene = Scene::start().await;
    let client = &scene.local.client;
    client.acquire("x", "a", 1000, json!({"grace_ms": 5000})).await;
    scene.local.advance_ms(1000);
    let answer = scene.post(json!({"resource": "x", "timeout": 10})).await;
    assert_eq!((answer.status, answer.text_of("status")), (202, "waiting".into()));
    let id = crate::dialects::claims::id(&answer);
    let answer = scene.set(id, "active").await;
    assert_eq!(answer.status, 409);
    assert!(answer.get("active_claim_id").is_null());
    scene.local.advance_ms(5000);
    assert_eq!(scene.set(id, "active").await.status, 200);
}

#[tokio::test]
async fn a_native_revoke_shows_as_revoked() {
    let scene = Scene::start().await;
    let id = scene.claim("x", 10.0).await;
    let next = scene.claim("x", 10.0).await;
    let revoke = scene.local.client.post("/v1/locks/x/revoke", json!({"reason": "why not"})).await;
    assert_eq!(revoke.unwrap().status, 200);
    assert_eq!(scene.status(id).await, "revoked");
    assert_eq!(scene.status(next).await, "active");
}

#[tokio::test]
async fn the_namespace_is_a_setting() {
    let mut settings = settings(None);
    settings.dialect.claims.namespace = "claims".into();
    settings.dialect.claims.wait_max = Span::from_secs(60);
    let scene = Scene { local: Local::start(settings).await };
    scene.claim("x", 10.0).await;
    let client = &scene.local.client;
    assert_eq!(client.acquire("x", "a", 1000, json!({})).await.status, 200);
    let shown = client.get("/v1/namespaces/claims/locks/x").await;
    assert_eq!(shown.text_of("owner_id"), "claim:1");
}

#[tokio::test]
async fn switched_off_it_is_not_there() {
    let mut settings = settings(None);
    settings.dialects = vec![Dialect::Native];
    let scene = Scene { local: Local::start(settings).await };
    assert_eq!(scene.post(json!({"resource": "x", "timeout": 1})).await.status, 404);
    assert_eq!(scene.get(1).await.status, 404);
    assert_eq!(scene.local.client.get("/v1/claims/").await.status, 404);
}
