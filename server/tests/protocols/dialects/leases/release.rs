//! Tests of release, and of requests after the end of a lease.

use crate::dialects::leases::{Scene, check_error, check_free, check_lease};

/// LS-INV-003 and LS-ACC-02, for releases.
#[tokio::test]
async fn ls_rel_001_only_the_owner_in_time_releases() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    check_error(&scene.release(&lease, "b", "r2").await, 409, "OWNER_MISMATCH");
    assert_eq!(scene.look("db").await.get("has_active_lease"), true);
    scene.local.advance_ms(29_999);
    let released = scene.release(&lease, "a", "r3").await;
    check_lease(&released, 200, "RELEASED");
    assert_eq!((released.number("version"), released.get("idempotency_key")), (2, &"r1".into()));
}

#[tokio::test]
async fn ls_rel_002_a_released_lock_is_free() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    check_lease(&scene.release(&lease, "a", "r2").await, 200, "RELEASED");
    check_free(&scene.look("db").await);
    check_lease(&scene.acquire("db", "b", "r3").await, 201, "ACTIVE");
}

/// LS-ACC-04, second half: a repeated release frees nothing a second time.
#[tokio::test]
async fn ls_rel_003_a_repeated_release_succeeds_again_and_frees_no_other_lease() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    let first = scene.release(&lease, "a", "r2").await;
    let next = scene.acquire("db", "b", "r3").await;
    scene.advance_seconds(1);
    let again = scene.release(&lease, "a", "r2").await;
    check_lease(&again, 200, "RELEASED");
    for member in ["lease_id", "version", "expires_at"] {
        assert_eq!(again.get(member), first.get(member), "{member}");
    }
    check_error(&scene.release(&lease, "a", "r4").await, 409, "LEASE_NOT_ACTIVE");
    let state = scene.look("db").await;
    assert_eq!(&state.get("active_lease")["lease_id"], next.get("lease_id"));
}

#[tokio::test]
async fn ls_inv_004_what_has_expired_is_neither_renewed_nor_released() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    scene.advance_seconds(30);
    check_error(&scene.renew(&lease, "a", "r2").await, 409, "LEASE_EXPIRED");
    check_error(&scene.release(&lease, "a", "r3").await, 409, "LEASE_EXPIRED");
    let next = scene.acquire("db", "b", "r4").await;
    check_lease(&next, 201, "ACTIVE");
    check_error(&scene.release(&lease, "a", "r3").await, 409, "LEASE_EXPIRED");
    assert_eq!(scene.look("db").await.get("has_active_lease"), true);
}

#[tokio::test]
async fn ls_exp_001_expiring_again_changes_nothing() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    scene.advance_seconds(30);
    for _ in 0..3 {
        check_free(&scene.look("db").await);
        check_error(&scene.renew(&lease, "a", "r2").await, 409, "LEASE_EXPIRED");
        scene.advance_seconds(30);
    }
    assert_eq!(scene.acquire("db", "b", "r3").await.number("fencing_token"), 2);
    let text = scene.local.client.get("/metrics").await.text;
    assert!(text.contains("lock_expired_total 1\n"), "{text}");
}

#[tokio::test]
async fn a_lease_long_over_is_no_lease() {
    let scene = Scene::new().await;
    let lease = scene.acquire("db", "a", "r1").await;
    check_lease(&scene.release(&lease, "a", "r2").await, 200, "RELEASED");
    scene.advance_seconds(2 * 3600);
    // Ended leases are forgotten by a later request, or by the server's own periodic sweep. Time alone does not forget
    // them.
    let is_gone = async |_: &leasehold_testkit::Client| {
        scene.release(&lease, "a", "r3").await.text_of("code") == "LEASE_NOT_FOUND"
    };
    scene.local.until("it is forgotten", is_gone).await;
}
