//! Tests of renew: only the owner can renew, only in time, and to exactly now + `ttl_seconds`.

use leasehold_testkit::json;

use crate::dialects::leases::{Scene, check_error, check_free, check_lease};

/// LS-INV-003 and LS-ACC-02, for renewals.
#[tokio::test]
async fn ls_rnw_001_only_the_owner_in_time_renews() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    check_error(&scene.renew(&lease, "b", "r2").await, 409, "OWNER_MISMATCH");
    scene.local.advance_ms(29_999);
    let renewed = scene.renew(&lease, "a", "r3").await;
    check_lease(&renewed, 200, "ACTIVE");
    assert_eq!(renewed.get("idempotency_key"), "r1", "the acquire's");
    assert_eq!((renewed.number("version"), renewed.number("fencing_token")), (2, 1));
    scene.advance_seconds(60);
    check_error(&scene.renew(&lease, "a", "r4").await, 409, "LEASE_EXPIRED");
    let unknown = format!("/leases/99.{}/renew", "0".repeat(32));
    let body = json!({"request_id": "r5", "owner_id": "a", "ttl_seconds": 60});
    check_error(&scene.post(&unknown, body.clone()).await, 404, "LEASE_NOT_FOUND");
    // The number part of the lease id is not a proof.
    let (number, _) = lease.get("lease_id").as_str().and_then(|id| id.split_once('.')).unwrap();
    let guessed = format!("/leases/{number}.{}/renew", "0".repeat(32));
    check_error(&scene.post(&guessed, body).await, 404, "LEASE_NOT_FOUND");
}

#[tokio::test]
async fn ls_rnw_002_the_new_end_is_now_and_the_ttl_even_if_that_is_sooner() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    scene.advance_seconds(5);
    let path = format!("/leases/{}/renew", lease.text_of("lease_id"));
    for (n, ttl_seconds, end) in [(1, 300, "00:05:05"), (2, 10, "00:00:15")] {
        let id = format!("renewal-{n}");
        let body = json!({"request_id": id, "owner_id": "a", "ttl_seconds": ttl_seconds});
        let renewed = scene.post(&path, body).await;
        check_lease(&renewed, 200, "ACTIVE");
        assert_eq!(renewed.text_of("expires_at"), format!("1970-01-01T{end}.000Z"));
        assert_eq!(renewed.text_of("last_renewed_at"), "1970-01-01T00:00:05.000Z");
        assert_eq!(renewed.text_of("acquired_at"), "1970-01-01T00:00:00.000Z");
    }
    scene.advance_seconds(10);
    check_free(&scene.look("db").await);
}

#[tokio::test]
async fn ls_rnw_003_a_repeated_renewal_renews_once() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    let first = scene.renew(&lease, "a", "r2").await;
    scene.advance_seconds(20);
    let again = scene.renew(&lease, "a", "r2").await;
    check_lease(&again, 200, "ACTIVE");
    for member in ["expires_at", "last_renewed_at", "version"] {
        assert_eq!(again.get(member), first.get(member), "{member}");
    }
    let other = json!({"request_id": "r2", "owner_id": "a", "ttl_seconds": 61});
    let path = format!("/leases/{}/renew", lease.text_of("lease_id"));
    check_error(&scene.post(&path, other).await, 409, "REQUEST_ID_CONFLICT");
    let elsewhere = scene.acquire("other", "a", "r3").await;
    check_error(&scene.renew(&elsewhere, "a", "r2").await, 409, "REQUEST_ID_CONFLICT");
    scene.advance_seconds(40);
    check_error(&scene.renew(&lease, "a", "r2").await, 409, "LEASE_EXPIRED");
}

#[tokio::test]
async fn a_renewal_of_what_was_released_is_refused_and_so_is_its_replay() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    check_lease(&scene.renew(&lease, "a", "r2").await, 200, "ACTIVE");
    check_lease(&scene.release(&lease, "a", "r3").await, 200, "RELEASED");
    check_error(&scene.renew(&lease, "a", "r2").await, 409, "LEASE_NOT_ACTIVE");
    check_error(&scene.renew(&lease, "a", "r4").await, 409, "LEASE_NOT_ACTIVE");
}
