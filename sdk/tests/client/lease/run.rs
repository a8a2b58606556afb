//! Work under a lock: the lock is released however the work ends.

use std::time::Duration;

use leasehold::{Error, Lost};
use leasehold_testkit::json;

use crate::lease::{TTL, World};

impl World {
    async fn is_free(&self) -> bool {
        !self.client.look("orders").await.unwrap().held
    }
}

#[tokio::test]
async fn the_work_is_done_under_the_lock_and_the_lock_is_released() {
    let world = World::new().await;
    let request = world.client.lock("orders").ttl(TTL);
    let token = request.run(async |guard| {
        assert!(!world.is_free().await);
        guard.fencing_token()
    });
    assert_eq!(token.await.unwrap(), 1);
    assert!(world.is_free().await);
    // `run` returns the result of the work, including its failures.
    let failed: Result<(), &str> =
        world.client.lock("orders").run(async |_| Err("no")).await.unwrap();
    assert_eq!(failed, Err("no"));
    assert!(world.is_free().await);
}

#[tokio::test]
async fn a_panic_and_a_dropped_future_give_the_lock_back() {
    let world = World::new().await;
    let client = world.client.clone();
    let work = async move { client.lock("orders").run(async |_| panic!("on purpose")).await };
    assert!(
        tokio::spawn(async { drop::<Result<(), _>>(work.await) }).await.unwrap_err().is_panic()
    );
    world.until("it is released", async || world.is_free().await).await;
    let never = world.client.lock("orders").run(async |_| std::future::pending::<()>().await);
    assert!(tokio::time::timeout(Duration::from_millis(50), never).await.is_err());
    world.until("it is released", async || world.is_free().await).await;
}

#[tokio::test]
async fn work_whose_lock_is_lost_is_stopped_and_told_so() {
    let world = World::new().await;
    let client = world.client.clone();
    let work = tokio::spawn(async move {
        client.lock("orders").ttl(TTL).run(async |_| std::future::pending::<()>().await).await
    });
    world.until("it is held", async || !world.is_free().await).await;
    let reason = json!({"reason": "test"});
    world.local.client.post("/v1/locks/orders/revoke", reason).await.unwrap();
    world.advance(TTL / 3);
    let lost = work.await.unwrap().unwrap_err();
    assert!(matches!(lost, Error::Lost { lost: Lost::Ended, .. }), "{lost}");
    assert!(!lost.is_retryable());
    assert!(lost.to_string().starts_with("lost \"orders\": "), "{lost}");
}

#[tokio::test]
async fn work_under_watched_locks_is_told_which_of_them_was_revoked_and_why() {
    let world = World::new().await;
    let locks = world.client.locks().lock("stock").lock("orders").ttl(TTL).watched();
    // A client cannot see whether the watch of its lease has started. Without the watch there is no reason, so this is
    // repeated.
    let revoked = async || {
        let work = tokio::spawn(locks.clone().run(async |_| std::future::pending::<()>().await));
        world.until("it is held", async || !world.is_free().await).await;
        world.client.revoke("orders", "by an operator").await.unwrap();
        let lost = work.await.unwrap().unwrap_err().to_string();
        assert!(lost.starts_with("lost \"stock\", \"orders\": "), "{lost}");
        lost.ends_with("(\"orders\" was revoked: by an operator)")
    };
    world.until("the reason is told", revoked).await;
}

#[tokio::test]
async fn a_lock_that_cannot_be_left_held_is_released() {
    let world = World::new().await;
    for (time, is_sent) in [(Duration::ZERO, false), (Duration::MAX, true)] {
        let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
        let error = guard.leave_for(time).await.unwrap_err();
        assert_eq!(matches!(error, Error::Failed { status: 400, .. }), is_sent, "{error:?}");
        world.until("it is released", async || world.is_free().await).await;
    }
}

#[tokio::test]
async fn a_lock_that_was_taken_away_before_the_work_was_done_is_no_success() {
    let world = World::new().await;
    let revoked = world.client.lock("orders").ttl(TTL).run(async |_| {
        let reason = json!({"reason": "test"});
        world.local.client.post("/v1/locks/orders/revoke", reason).await.unwrap();
    });
    let error = revoked.await.unwrap_err();
    assert!(
        matches!(error, Error::NotReleased(_) | Error::Lost { lost: Lost::Ended, .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_lock_can_be_left_held_for_a_while() {
    let world = World::new().await;
    let guard = world.client.lock("orders").ttl(TTL).acquire().await.unwrap();
    guard.leave_for(3 * TTL).await.unwrap();
    world.advance(2 * TTL);
    assert!(!world.is_free().await);
    assert_eq!(world.n_renewals().await, 1);
    world.advance(TTL);
    assert!(world.is_free().await);
}
