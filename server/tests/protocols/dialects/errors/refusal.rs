//! Tests of a refused acquire, whose response has a special shape.

use std::collections::BTreeSet;

use leasehold_core::Limits;
use leasehold_testkit::{Local, Response, Value, json};

use crate::dialects::errors::bound::with_limits;
use crate::dialects::errors::{Scene, check_failure, names};

/// Checks all fields of the refusal except the wording of its message.
#[track_caller]
fn check(response: &Response, reason: &str, owner: Value, expiry_ms: Value, retry_ms: u64) {
    let said = &response.text;
    let members = [
        "acquired",
        "current_expiry_ms",
        "current_owner_id",
        "error",
        "lock_name",
        "reason",
        "recommended_retry_ms",
    ];
    let mut members = BTreeSet::from(members);
    // The metadata of the holder, if it has any.
    members.extend(response.body.get("current_metadata").map(|_| "current_metadata"));
    assert_eq!(names(&response.body), members, "{said}");
    assert_eq!((response.status, response.get("acquired")), (409, &json!(false)), "{said}");
    assert_eq!(response.get("lock_name"), "job", "{said}");
    assert_eq!(response.get("reason"), reason, "{said}");
    assert_eq!(response.get("current_owner_id"), &owner, "{said}");
    assert_eq!(response.get("current_expiry_ms"), &expiry_ms, "{said}");
    assert_eq!(response.get("recommended_retry_ms"), retry_ms, "{said}");
    assert!(response.text_of("error").contains(' '), "in words: {said}");
}

#[tokio::test]
async fn a_held_lock_says_by_whom_and_when_to_come_back() {
    let scene = Scene::new().await;
    let before = scene.everything().await;
    for owner in ["b", "a"] {
        let refused = scene.local.client.acquire("job", owner, 1000, json!({})).await;
        check(&refused, "HELD", json!("a"), json!(60_000), 1000);
    }
    for more in [json!({"mode": "shared"}), json!({"limit": 3}), json!({"wait_ms": 0})] {
        let refused = scene.local.client.acquire("job", "b", 1000, more).await;
        check(&refused, "HELD", json!("a"), json!(60_000), 1000);
    }
    assert_eq!(scene.everything().await, before);
    let mut left_ms = 60_000;
    for (remaining_ms, retry_ms) in
        [(4004, 1000), (4000, 1000), (3999, 999), (400, 100), (104, 26), (100, 25), (1, 25)]
    {
        scene.local.advance_ms(left_ms - remaining_ms);
        left_ms = remaining_ms;
        let refused = scene.local.client.acquire("job", "b", 1000, json!({})).await;
        check(&refused, "HELD", json!("a"), json!(60_000), retry_ms);
    }
    scene.local.advance_ms(1);
    assert_eq!(scene.local.client.acquire("job", "b", 1000, json!({})).await.status, 200);
}

#[tokio::test]
async fn a_lock_held_in_a_session_is_held_as_long_as_that() {
    let scene = Scene::new().await;
    let body = json!({"owner_id": "a", "session_id": scene.session_id});
    let acquired =
        scene.local.client.post("/v1/locks/free/acquire", body).await.expect("an answer");
    assert_eq!(acquired.number("expires_in_ms"), 3_600_000, "it lasts as long as its session");
    let refused = scene.local.client.acquire("free", "b", 1000, json!({})).await;
    assert_eq!(refused.get("current_expiry_ms"), 3_600_000);
}

#[tokio::test]
async fn a_wait_that_is_over_says_who_has_the_lock() {
    let scene = Scene::new().await;
    let body = json!({"owner_id": "b", "ttl_ms": 1000, "wait_ms": 2000});
    let waiting = scene.waits("job", body, 1).await;
    scene.local.advance_ms(2000);
    scene.local.client.get("/v1/locks/job").await;
    check(&waiting.await.expect("no panic"), "WAIT_TIMEOUT", json!("a"), json!(60_000), 1000);
    let after = scene.local.client.get("/v1/locks/job").await;
    assert_eq!((after.get("queue"), after.get("owner_id")), (&json!([]), &json!("a")));
}

#[tokio::test]
async fn a_full_queue_refuses_further_waiters() {
    let limits = Limits { queue_max: 1, ..Limits::default() };
    let scene = Scene::of(Local::start(with_limits(limits)).await).await;
    let wait = json!({"owner_id": "b", "ttl_ms": 1000, "wait_ms": 5000});
    let waiting = scene.waits("job", wait, 1).await;
    let before = scene.everything().await;
    let refused = scene.local.client.acquire("job", "c", 1000, json!({"wait_ms": 5000})).await;
    check(&refused, "QUEUE_FULL", json!("a"), json!(60_000), 1000);
    let why = "the queue of this lock is full; limit: 1 (queue-max)";
    assert_eq!(refused.text_of("error"), why);
    let held = scene.local.client.acquire("job", "c", 1000, json!({})).await;
    assert_eq!(held.get("reason"), "HELD");
    assert!((500..1000).contains(&held.number("recommended_retry_ms")), "spread: {}", held.text);
    assert_eq!(scene.everything().await, before);
    assert_eq!(scene.local.client.release(&scene.job, json!({})).await.status, 200);
    assert_eq!(waiting.await.expect("no panic").number("fencing_token"), 2);
}

#[tokio::test]
async fn in_its_grace_period_a_lock_is_for_its_last_owner() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    assert_eq!(client.release(&scene.job, json!({})).await.status, 200);
    let lease = client.acquire("job", "a", 1000, json!({"grace_ms": 4000})).await;
    check(&client.acquire("job", "b", 1, json!({})).await, "HELD", json!("a"), json!(1000), 250);
    for (passed_ms, retry_ms) in [(1000, 1000), (3000, 250), (920, 25)] {
        scene.local.advance_ms(passed_ms);
        let before = scene.everything().await;
        let refused = client.acquire("job", "b", 1000, json!({})).await;
        check(&refused, "GRACE", json!("a"), json!(5000), retry_ms);
        assert_eq!(scene.everything().await, before);
    }
    let looked = client.get("/v1/locks/job").await;
    assert_eq!((looked.get("held"), looked.get("grace_owner_id")), (&json!(false), &json!("a")));
    assert_eq!(looked.number("grace_remaining_ms"), 80);
    let again = client.acquire("job", "a", 1000, json!({})).await;
    assert_eq!(again.number("fencing_token"), lease.number("fencing_token") + 1);
}

#[tokio::test]
async fn all_holders_agree_on_the_limit() {
    let scene = Scene::new().await;
    let client = &scene.local.client;
    for owner in ["b", "c"] {
        assert_eq!(client.acquire("pool", owner, 1000, json!({"limit": 2})).await.status, 200);
    }
    let before = scene.everything().await;
    for limit in [1, 3, 10_000] {
        let refused = client.acquire("pool", "d", 1000, json!({"limit": limit})).await;
        check_failure("another limit", &refused, 409, "LIMIT_DIFFERS", "limit 2");
    }
    for more in [json!({"limit": 2}), json!({}), json!({"mode": "shared"})] {
        let refused = client.acquire("pool", "d", 1000, more).await;
        assert_eq!((refused.status, refused.get("reason")), (409, &json!("HELD")));
    }
    assert_eq!(scene.everything().await, before);
}
