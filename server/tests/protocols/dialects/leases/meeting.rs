//! Tests of one lock in two dialects: a tenant's lock is the native dialect's lock in the namespace of that name.

use leasehold_testkit::{Value, json};

use crate::dialects::leases::{Scene, check_error, check_free, check_lease};

const NATIVE: &str = "/v1/namespaces/t/locks/db";

#[tokio::test]
async fn a_lease_of_one_dialect_holds_the_lock_in_the_other() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    let ask = json!({"owner_id": "a", "ttl_ms": 60_000});
    let refused = scene.post(&format!("{NATIVE}/acquire"), ask.clone()).await;
    assert_eq!((refused.status, refused.text_of("reason").as_str()), (409, "HELD"));
    let stolen = json!({
        "owner_id": "a", "lease_id": lease.get("lease_id"), "fencing_token": 1,
    });
    let not_released = scene.post(&format!("{NATIVE}/release"), stolen).await;
    assert_eq!(not_released.status, 409, "only through the dialect that granted it");
    check_lease(&scene.release(&lease, "a", "r2").await, 200, "RELEASED");
    let native = scene.post(&format!("{NATIVE}/acquire"), ask).await;
    assert_eq!(native.number("fencing_token"), 2, "one count of tokens: {}", native.text);
    check_error(&scene.acquire("db", "a", "r3").await, 409, "LOCK_HELD");
    check_error(&scene.renew(&native, "a", "r4").await, 404, "LEASE_NOT_FOUND");
    check_error(&scene.release(&native, "a", "r5").await, 404, "LEASE_NOT_FOUND");
    let state = scene.look("db").await;
    let shown = state.get("active_lease");
    assert_eq!((&shown["owner_id"], &shown["fencing_token"]), (&"a".into(), &2.into()));
    assert_eq!((&shown["lease_id"], &shown["idempotency_key"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_grace_period_of_the_other_dialect_is_kept() {
    let scene = Scene::new().await;
    let ask = json!({"owner_id": "a", "ttl_ms": 10_000, "grace_ms": 5_000});
    assert_eq!(scene.post(&format!("{NATIVE}/acquire"), ask).await.status, 200);
    scene.advance_seconds(10);
    check_error(&scene.acquire("db", "a", "r1").await, 409, "LOCK_HELD");
    check_free(&scene.look("db").await);
    scene.advance_seconds(5);
    check_lease(&scene.acquire("db", "a", "r1").await, 201, "ACTIVE");
}

#[tokio::test]
async fn force_works_on_every_dialects_lease() {
    let scene = Scene::new().await;
    let ask = json!({"owner_id": "a", "ttl_ms": 60_000});
    assert_eq!(scene.post(&format!("{NATIVE}/acquire"), ask).await.status, 200);
    let body = json!({"tenant_id": "t", "actor": "root", "reason": "why"});
    let taken = scene.post_as("/locks/db/force-release", ("x-role", "ADMIN"), body).await;
    let shown = taken.get("active_lease");
    assert_eq!((&shown["status"], &shown["lease_id"]), (&"RELEASED".into(), &Value::Null));
    check_lease(&scene.acquire("db", "b", "r1").await, 201, "ACTIVE");
}
