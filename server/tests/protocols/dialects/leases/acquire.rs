//! Tests of acquire: one holder, a token that grows by one with each grant, one lease per request id.

use leasehold_testkit::json;

use crate::dialects::leases::{Scene, asking, check_error, check_lease};

#[tokio::test]
async fn ls_acq_001_a_lock_that_is_held_is_refused() {
    let scene = Scene::new().await;
    check_lease(&scene.acquire("db", "a", "r1").await, 201, "ACTIVE");
    check_error(&scene.acquire("db", "b", "r2").await, 409, "LOCK_HELD");
    check_error(&scene.acquire("db", "a", "r3").await, 409, "LOCK_HELD");
    scene.local.advance_ms(29_999);
    check_error(&scene.acquire("db", "b", "r2").await, 409, "LOCK_HELD");
    check_lease(&scene.acquire("other", "b", "r2").await, 201, "ACTIVE");
    let mut elsewhere = asking("db", "b", "r4");
    elsewhere["tenant_id"] = "u".into();
    check_lease(&scene.post("/leases/acquire", elsewhere).await, 201, "ACTIVE");
}

#[tokio::test]
async fn ls_acq_002_a_lock_that_is_free_or_has_expired_is_given() {
    let scene = Scene::new().await;
    scene.local.clock.set_wall_ms(1_771_144_200_000);
    let first = scene.acquire("db", "a", "r1").await;
    check_lease(&first, 201, "ACTIVE");
    let time = "2026-02-15T08:30:00.000Z";
    let expected = json!({
        "lease_id": first.get("lease_id"), "tenant_id": "t", "lock_key": "db", "owner_id": "a",
        "status": "ACTIVE", "acquired_at": time, "expires_at": "2026-02-15T08:30:30.000Z",
        "last_renewed_at": time, "fencing_token": 1, "idempotency_key": "r1", "version": 1,
        "server_time": time,
    });
    assert_eq!(first.body, expected);
    scene.advance_seconds(30);
    let second = scene.acquire("db", "b", "r2").await;
    check_lease(&second, 201, "ACTIVE");
    assert_ne!(second.get("lease_id"), first.get("lease_id"));
}

/// LS-ACC-03: no other end of a lease makes a token repeat either.
#[tokio::test]
async fn ls_acq_003_and_ls_inv_002_each_token_is_one_more_than_the_last() {
    let scene = Scene::new().await;
    for n in 1..=9 {
        let lease = scene.acquire("db", "a", &format!("r{n}")).await;
        assert_eq!(lease.number("fencing_token"), n, "{}", lease.text);
        match n % 3 {
            0 => check_lease(&scene.release(&lease, "a", &format!("x{n}")).await, 200, "RELEASED"),
            1 => scene.advance_seconds(30),
            _ => {
                let body = json!({"tenant_id": "t", "actor": "root"});
                let path = "/locks/db/force-release";
                assert_eq!(scene.post_as(path, ("x-role", "ADMIN"), body).await.status, 200);
            }
        }
    }
    let refused = scene.acquire("db", "a", "r1").await;
    check_error(&refused, 409, "LEASE_NOT_ACTIVE");
    assert_eq!(scene.acquire("db", "a", "r10").await.number("fencing_token"), 10);
    assert_eq!(scene.acquire("other", "a", "r11").await.number("fencing_token"), 1);
}

/// LS-ACC-04, first half: a repeated request does not acquire a second lease.
#[tokio::test]
async fn ls_acq_004_a_repeated_request_gets_the_same_lease() {
    let scene = Scene::new().await;
    let first = scene.acquire("db", "a", "r1").await;
    scene.advance_seconds(10);
    let again = scene.acquire("db", "a", "r1").await;
    check_lease(&again, 201, "ACTIVE");
    for member in ["lease_id", "fencing_token", "version", "expires_at", "acquired_at"] {
        assert_eq!(again.get(member), first.get(member), "{member}");
    }
    assert_ne!(again.get("server_time"), first.get("server_time"), "rendered again");
    check_lease(&scene.renew(&first, "a", "r2").await, 200, "ACTIVE");
    let renewed = scene.acquire("db", "a", "r1").await;
    assert_eq!(renewed.number("version"), 2, "as it is now, not as it was");
    assert_ne!(renewed.get("expires_at"), first.get("expires_at"));
    scene.advance_seconds(60);
    check_error(&scene.acquire("db", "a", "r1").await, 409, "LEASE_NOT_ACTIVE");
    assert_eq!(scene.look("db").await.get("has_active_lease"), false, "never a second lease");
}

#[tokio::test]
async fn a_request_id_that_was_used_for_something_else_is_a_conflict() {
    let scene = Scene::new().await;
    let held = scene.acquire("db", "a", "r1").await;
    check_error(&scene.acquire("other", "a", "r1").await, 409, "REQUEST_ID_CONFLICT");
    let mut longer = asking("db", "a", "r1");
    longer["ttl_seconds"] = 31.into();
    check_error(&scene.post("/leases/acquire", longer).await, 409, "REQUEST_ID_CONFLICT");
    // Request ids are separate for each owner and for each operation.
    check_lease(&scene.acquire("third", "b", "r1").await, 201, "ACTIVE");
    check_lease(&scene.renew(&held, "a", "r1").await, 200, "ACTIVE");
    check_lease(&scene.release(&held, "a", "r1").await, 200, "RELEASED");
    check_error(&scene.acquire("db", "a", "r1").await, 409, "LEASE_NOT_ACTIVE");
}

#[tokio::test]
async fn a_refusal_uses_no_request_id_up() {
    let scene = Scene::new().await;
    scene.acquire("db", "a", "r1").await;
    check_error(&scene.acquire("db", "b", "r2").await, 409, "LOCK_HELD");
    scene.advance_seconds(30);
    check_lease(&scene.acquire("db", "b", "r2").await, 201, "ACTIVE");
}

/// LS-ACC-01, LS-CC-001, LS-INV-001: of many concurrent requests, exactly one gets the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ls_acc_01_a_hundred_at_once_and_one_winner() {
    let scene = Scene::new().await;
    let mut asks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let client = scene.local.client.clone();
        let body = asking("db", &format!("o{n}"), &format!("r{n}"));
        asks.spawn(async move { client.post("/leases/acquire", body).await.expect("an answer") });
    }
    let answers = asks.join_all().await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 201);
    assert_eq!((won.len(), lost.len()), (1, 99));
    lost.into_iter().for_each(|answer| check_error(answer, 409, "LOCK_HELD"));
    let state = scene.look("db").await;
    assert_eq!(state.get("active_lease")["lease_id"], won[0].body["lease_id"]);
    assert_eq!(state.get("active_lease")["fencing_token"], 1);
}

/// LS-ACC-04: one hundred concurrent copies of a request count as one request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ls_acc_04_the_same_request_a_hundred_times_at_once_is_one_lease() {
    let scene = Scene::new().await;
    let mut asks = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let client = scene.local.client.clone();
        let body = asking("db", "a", "r1");
        asks.spawn(async move { client.post("/leases/acquire", body).await.expect("an answer") });
    }
    let answers = asks.join_all().await;
    for answer in &answers {
        check_lease(answer, 201, "ACTIVE");
        assert_eq!(answer.get("lease_id"), answers[0].get("lease_id"));
    }
}

/// LS-FENCE-001: a resource that remembers the highest token it has seen can reject a late writer.
#[tokio::test]
async fn ls_fence_001_a_late_writer_has_the_smaller_token() {
    let scene = Scene::new().await;
    let mut highest_seen = 0;
    let mut write = |lease: &leasehold_testkit::Response| {
        let token = lease.number("fencing_token");
        let is_accepted = token >= highest_seen;
        highest_seen = highest_seen.max(token);
        is_accepted
    };
    let late = scene.acquire("db", "a", "r1").await;
    assert!(write(&late));
    scene.advance_seconds(30);
    let next = scene.acquire("db", "b", "r2").await;
    assert!(write(&next));
    assert!(!write(&late), "it slept through its deadline");
    let renewed = scene.renew(&next, "b", "r3").await;
    assert!(write(&renewed), "a renewal keeps its token");
    assert_eq!(renewed.get("fencing_token"), next.get("fencing_token"));
}
