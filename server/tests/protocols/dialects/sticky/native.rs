//! Tests of the same lock through this dialect and the native one: one lock, one holder, one sequence of tokens.

use leasehold_testkit::json;

use crate::dialects::sticky::{
    Homelab, check_free, check_grace, check_granted, check_held, check_not_holder, check_released,
    time,
};

#[tokio::test]
async fn the_native_dialect_sees_the_lock_held() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1").await;
    let seen = lab.native().await;
    let said = (seen.get("held"), seen.text_of("owner_id"), seen.number("fencing_token"));
    assert_eq!(said, (&json!(true), "laptop1".into(), 1));
    assert_eq!(seen.get("holders")[0]["expires_in_ms"], 30_000);
    lab.at_s(31);
    let seen = lab.native().await;
    assert_eq!(
        (seen.get("held"), seen.text_of("grace_owner_id")),
        (&json!(false), "laptop1".into())
    );
    assert_eq!(seen.number("grace_remaining_ms"), 4_000);
}

#[tokio::test]
async fn the_native_owner_of_the_same_name_is_another_owner() {
    let lab = Homelab::start().await;
    lab.post("client=laptop1").await;
    let native = &lab.local.client;
    let refused = native.acquire("default", "laptop1", 1000, json!({})).await;
    assert_eq!((refused.status, refused.text_of("reason").as_str()), (409, "HELD"));
    lab.at_s(31);
    let refused = native.acquire("default", "laptop1", 1000, json!({})).await;
    assert_eq!((refused.status, refused.text_of("reason").as_str()), (409, "GRACE"));
    check_granted(&lab.post("client=laptop1").await, "acquired", 2);
}

#[tokio::test]
async fn what_the_native_dialect_holds_is_held_by_another_client() {
    let lab = Homelab::start().await;
    let native = &lab.local.client;
    let held = native.acquire("default", "laptop1", 30_000, json!({"grace_ms": 2_000})).await;
    assert_eq!(held.status, 200);
    let shown = lab.get("").await;
    assert_eq!(
        (shown.text_of("holder"), shown.get("is_expired")),
        ("laptop1".into(), &json!(false))
    );
    check_held(&lab.post("client=laptop1").await, "laptop1", "10:30:00");
    check_not_holder(&lab.delete("client=laptop1").await);
    lab.at_s(31);
    check_grace(&lab.post("client=laptop1").await, "laptop1", "10:30:02");
    check_not_holder(&lab.delete("client=laptop1").await);
    let shown = lab.get("").await;
    assert_eq!(
        (shown.text_of("grace_until"), shown.get("is_expired")),
        (time("10:30:02"), &json!(true))
    );
    lab.at_s(32);
    check_free(&lab.get("").await);
    check_granted(&lab.post("client=laptop2").await, "acquired from laptop1", 2);
}

#[tokio::test]
async fn the_token_continues() {
    let lab = Homelab::start().await;
    let native = &lab.local.client;
    check_granted(&lab.post("client=laptop1").await, "acquired", 1);
    check_released(&lab.delete("client=laptop1").await);
    let held = native.acquire("default", "worker", 1000, json!({})).await;
    assert_eq!(held.number("fencing_token"), 2);
    assert_eq!(native.release(&held, json!({})).await.status, 200);
    check_granted(&lab.post("client=laptop1").await, "acquired", 3);
}

#[tokio::test]
async fn shared_native_holders_are_in_the_way_too() {
    let lab = Homelab::start().await;
    let native = &lab.local.client;
    for owner in ["reader1", "reader2"] {
        let held = native.acquire("default", owner, 30_000, json!({"mode": "shared"})).await;
        assert_eq!(held.status, 200);
    }
    check_held(&lab.post("client=laptop1").await, "reader2", "10:30:00");
}

async fn n_waiting(lab: &Homelab) -> Option<u64> {
    lab.native().await.get("n_waiting").as_u64()
}

/// Starts a native waiter for the lock that `laptop1` holds until 30 s.
async fn waiter(lab: &Homelab) -> tokio::task::JoinHandle<leasehold_testkit::Response> {
    check_granted(&lab.post("client=laptop1&ttl=30s").await, "acquired", 1);
    let native = lab.local.client.clone();
    let waiting = tokio::spawn(async move {
        native.acquire("default", "waiter", 60_000, json!({"wait_ms": 600_000})).await
    });
    lab.local.until("it waits", async |_| n_waiting(lab).await == Some(1)).await;
    waiting
}

#[tokio::test]
async fn a_native_waiter_gets_the_lock_when_the_grace_is_over() {
    let lab = Homelab::start().await;
    let waiting = waiter(&lab).await;
    for ms in [29_999, 30_000, 34_999] {
        lab.at_ms(ms);
        assert_eq!(n_waiting(&lab).await, Some(1), "{ms}");
    }
    check_grace(&lab.post("client=laptop2").await, "laptop1", "10:30:05");
    lab.at_ms(35_000);
    // The waiter came first, so it gets the lock before a client that sends its request at this very instant.
    check_held(&lab.post("client=laptop2").await, "waiter", "10:31:05");
    let granted = waiting.await.expect("no panic");
    assert_eq!((granted.status, granted.number("fencing_token")), (200, 2));
}

#[tokio::test]
async fn a_native_waiter_stands_behind_the_last_holder_in_grace() {
    let lab = Homelab::start().await;
    let waiting = waiter(&lab).await;
    lab.at_s(34);
    check_granted(&lab.post("client=laptop1&ttl=30s").await, "acquired", 2);
    assert_eq!(n_waiting(&lab).await, Some(1));
    check_released(&lab.delete("client=laptop1").await);
    assert_eq!(waiting.await.expect("no panic").number("fencing_token"), 3);
}

#[tokio::test]
async fn a_native_waiter_gets_the_lock_at_once_when_the_grace_is_given_up() {
    let lab = Homelab::start().await;
    let waiting = waiter(&lab).await;
    lab.at_s(31);
    check_released(&lab.delete("client=laptop1").await);
    assert_eq!(waiting.await.expect("no panic").number("fencing_token"), 2);
    assert_eq!(lab.get("").await.text_of("holder"), "waiter");
}

#[tokio::test]
async fn a_revoke_clears_the_last_holder_and_its_grace() {
    for s in [31, 3600] {
        let lab = Homelab::start().await;
        lab.post("client=laptop1&ttl=30s").await;
        lab.at_s(s);
        assert_eq!(lab.get("").await.text_of("holder"), "laptop1");
        let revoke = json!({"reason": "the laptop is gone"});
        let revoked = lab.local.client.post("/v1/locks/default/revoke", revoke).await;
        assert_eq!(revoked.expect("an answer").status, 200);
        check_free(&lab.get("").await);
        check_granted(&lab.post("client=laptop2").await, "acquired", 2);
    }
}
