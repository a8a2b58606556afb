//! The guard of one lock: its deadline, its renewals and its end.

use std::time::Duration;

use leasehold::clock::Clock;
use leasehold::{Error, Lost, Retry};
use leasehold_testkit::json;

use crate::lease::{TTL, World};

/// Gives all tasks time to run, so that a wrong request would be sent.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

#[tokio::test]
async fn a_guard_tells_what_it_has_and_until_when() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    assert_eq!((guard.name(), guard.owner(), guard.fencing_token()), ("orders", "one", 1));
    let now = world.clock.now();
    assert_eq!(guard.end(), now + Duration::from_millis(29_700));
    assert_eq!(guard.deadline(), now + Duration::from_millis(29_450));
    assert_eq!(guard.check(), Ok(()));
    let refused = world.other().lock("orders").acquire().await.unwrap_err();
    assert!(refused.is_conflict(), "{refused}");
}

#[tokio::test]
async fn a_lease_is_renewed_after_a_third_and_lives_on() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    world.advance(TTL / 3 - Duration::from_millis(1));
    settle().await;
    assert_eq!(world.n_renewals().await, 0);
    world.advance_and_renew(Duration::from_millis(1), &guard).await;
    for _ in 2..=12 {
        world.advance_and_renew(TTL / 3, &guard).await;
    }
    assert_eq!(world.n_renewals().await, 12);
    assert_eq!(guard.check(), Ok(()));
    assert_eq!(guard.fencing_token(), 1, "a renewal keeps the token");
}

#[tokio::test]
async fn nothing_is_renewed_after_a_release() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    world.advance_and_renew(TTL / 3, &guard).await;
    let lost = guard.lost();
    guard.release().await.unwrap();
    assert_eq!(lost.await, Lost::Released);
    for _ in 0..6 {
        world.advance(TTL / 3);
        settle().await;
    }
    assert_eq!(world.n_renewals().await, 1);
    assert!(!world.client.look("orders").await.unwrap().held);
}

#[tokio::test]
async fn a_dropped_guard_renews_no_more_and_gives_back() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    drop(guard);
    world.until("it is free", async || !world.client.look("orders").await.unwrap().held).await;
    world.advance(TTL / 3);
    settle().await;
    assert_eq!(world.n_renewals().await, 0);
}

#[tokio::test]
async fn a_guard_whose_server_is_gone_is_lost_before_its_lease_can_end() {
    let world = World::new().await;
    let acquired_at = world.clock.now();
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    let World { local, clock, .. } = world;
    local.stop().await;
    let lost = tokio::spawn(guard.lost());
    // In small steps, so that every possible renewal is tried.
    while guard.is_held() {
        clock.advance(TTL / 100);
        tokio::task::yield_now().await;
    }
    assert_eq!(lost.await.unwrap(), Lost::OutOfTime);
    assert!(clock.now() < acquired_at + TTL, "{:?} is too late", clock.now());
    assert!(clock.now() >= guard.deadline());
}

#[tokio::test]
async fn after_a_pause_past_the_end_the_guard_is_lost_and_nothing_is_renewed() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    world.advance(TTL * 2);
    assert_eq!(guard.check(), Err(Lost::OutOfTime));
    assert_eq!(guard.lost().await, Lost::OutOfTime);
    settle().await;
    assert_eq!(world.n_renewals().await, 0);
    let late = guard.release().await.unwrap_err();
    assert!(matches!(late, Error::NotReleased(_)), "{late}");
}

#[tokio::test]
async fn a_revoked_lease_is_lost_with_the_next_renewal() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    world.client.revoke("orders", "test").await.unwrap();
    assert_eq!(guard.check(), Ok(()), "the loss was not reported yet");
    world.advance(TTL / 3);
    assert_eq!(guard.lost().await, Lost::Ended);
}

#[tokio::test]
async fn a_margin_moves_the_deadline_and_not_the_end() {
    let world = World::new().await;
    let margin = Duration::from_secs(5);
    let guard = world.client.lock("orders").ttl(TTL).margin(margin).acquire().await.unwrap();
    assert_eq!(guard.deadline() + margin, guard.end());
    let much = world.client.lock("b").ttl(TTL).margin(TTL).acquire().await.unwrap_err();
    assert!(matches!(much, Error::Invalid(_)), "{much}");
}

#[tokio::test]
async fn shared_and_counted_leases_stand_beside_each_other() {
    let world = World::new().await;
    let other = world.other();
    let _reader = world.client.lock("table").shared().acquire().await.unwrap();
    let _too = other.lock("table").shared().acquire().await.unwrap();
    assert!(other.lock("table").acquire().await.unwrap_err().is_conflict());
    let _first = world.client.lock("pool").limit(2).metadata(json!(1)).acquire().await.unwrap();
    let _second = other.lock("pool").limit(2).acquire().await.unwrap();
    assert!(other.lock("pool").limit(2).acquire().await.unwrap_err().is_conflict());
}

#[tokio::test]
async fn coming_back_gets_the_lock_when_it_is_free_and_gives_up_in_the_end() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    let retry = Retry { attempts_max: 3, ..Retry::default() };
    let patient = world.other().lock("orders").retry(retry);
    let asking = tokio::spawn(patient.clone().acquire_with_retry());
    while !asking.is_finished() {
        world.advance(Duration::from_millis(50));
        settle().await;
    }
    assert!(asking.await.unwrap().unwrap_err().is_conflict());
    let asking = tokio::spawn(patient.acquire_with_retry());
    settle().await;
    guard.release().await.unwrap();
    while !asking.is_finished() {
        world.advance(Duration::from_millis(50));
        settle().await;
    }
    assert_eq!(asking.await.unwrap().unwrap().fencing_token(), 2);
}

#[tokio::test]
async fn a_watched_guard_hears_of_a_revocation_without_a_renewal() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).watched().acquire().await.unwrap();
    // Events of other locks and leases do not affect the guard.
    world.other().lock("orders-2").acquire().await.unwrap().release().await.unwrap();
    assert_eq!(guard.check(), Ok(()));
    let reason = json!({"reason": "test"});
    world.local.client.post("/v1/locks/orders/revoke", reason).await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(20), guard.lost()).await;
    assert_eq!(lost, Ok(Lost::Ended));
    assert_eq!(world.n_renewals().await, 0);
}

#[tokio::test]
async fn a_lease_that_was_over_before_it_could_be_watched_is_noticed() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).watched().acquire().await.unwrap();
    let reason = json!({"reason": "test"});
    world.local.client.post("/v1/locks/orders/revoke", reason).await.unwrap();
    assert_eq!(guard.lost().await, Lost::Ended);
}

#[tokio::test]
async fn a_watched_lock_of_a_session_is_lost_alone() {
    let world = World::new().await;
    let session = world.client.session().ttl(TTL).open().await.unwrap();
    let guard = session.lock("orders").watched().acquire().await.unwrap();
    let other = session.lock("stock").acquire().await.unwrap();
    let reason = json!({"reason": "test"});
    world.local.client.post("/v1/locks/orders/revoke", reason).await.unwrap();
    assert_eq!(guard.lost().await, Lost::Ended);
    assert_eq!(other.check(), Ok(()));
}
