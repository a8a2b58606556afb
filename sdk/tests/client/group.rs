//! Groups: the client acquires several locks together or none.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use leasehold::api::CancelRequest;
use leasehold::{Client, Error, Lost};
use leasehold_testkit::{Local, json};

fn client(local: &Local, owner: &str) -> Client {
    Client::builder(&format!("http://{}", local.address)).owner(owner).build().unwrap()
}

#[tokio::test]
async fn one_guard_holds_and_releases_all_locks() {
    let local = Local::ephemeral().await;
    let (ann, bob) = (client(&local, "ann"), client(&local, "bob"));
    let guard = ann.locks().lock("a").shared("b").acquire().await.unwrap();
    assert_eq!((guard.fencing_token("a"), guard.fencing_token("c")), (Some(1), None));
    let refused = bob.locks().lock("x").lock("a").acquire().await.unwrap_err();
    assert!(matches!(&refused, Error::NotAcquired(no) if no.lock_name == "a"), "{refused:?}");
    let readers = bob.locks().shared("b").acquire().await.unwrap();
    guard.release().await.unwrap();
    readers.release().await.unwrap();
    assert!(!ann.look("a").await.unwrap().held);
    let dropped = ann.locks().lock("a").lock("b").acquire().await.unwrap();
    drop(dropped);
    local
        .until("it is released", async |client| {
            client.get("/v1/locks/b").await.get("held") == false
        })
        .await;
    local.stop().await;
}

#[tokio::test]
async fn work_is_done_under_several_locks_and_all_are_released() {
    let local = Local::ephemeral().await;
    let ann = client(&local, "ann");
    let is_held = async |lock: &str| ann.look(lock).await.unwrap().held;
    let both = ann.locks().lock("a").lock("b").metadata("both");
    let tokens = both.run(async |guard| {
        assert!(is_held("a").await && is_held("b").await);
        (guard.fencing_token("a"), guard.fencing_token("b"))
    });
    assert_eq!(tokens.await.unwrap(), (Some(1), Some(1)));
    assert!(!is_held("a").await && !is_held("b").await);
    let never = ann.locks().lock("a").lock("b").run(async |_| std::future::pending::<()>().await);
    assert!(tokio::time::timeout(Duration::from_millis(50), never).await.is_err());
    local
        .until("they are released", async |client| {
            client.get("/v1/locks/b").await.get("held") == false
        })
        .await;
    local.stop().await;
}

#[tokio::test]
async fn releasing_a_group_reports_a_revoked_lock() {
    let local = Local::ephemeral().await;
    let (ann, bob) = (client(&local, "ann"), client(&local, "bob"));
    let guard = ann.locks().lock("a").lock("b").acquire().await.unwrap();
    bob.revoke("b", "operator").await.unwrap();
    let _others = bob.lock("b").acquire().await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, Error::NotReleased(_)), "{error:?}");
    assert!(error.to_string().contains("the lease of \"b\" had ended"), "{error}");
    assert!(!ann.look("a").await.unwrap().held, "the other is released");
    let work = ann.locks().lock("a").lock("c").run(async |_| {
        bob.revoke("c", "operator").await.unwrap();
    });
    let error = work.await.unwrap_err();
    assert!(matches!(error, Error::NotReleased(_)), "{error:?}");
    local.stop().await;
}

#[tokio::test]
async fn several_locks_that_cannot_be_left_held_are_released() {
    let local = Local::ephemeral().await;
    let ann = client(&local, "ann");
    for (time, is_sent) in [(Duration::ZERO, false), (Duration::MAX, true)] {
        let guard = ann.locks().lock("a").lock("b").acquire().await.unwrap();
        let error = guard.leave_for(time).await.unwrap_err();
        assert_eq!(matches!(error, Error::Failed { status: 400, .. }), is_sent, "{error:?}");
        let is_free = async |client: &leasehold_testkit::Client| {
            client.get("/v1/locks/b").await.get("held") == false
        };
        local.until("they are released", is_free).await;
    }
    local.stop().await;
}

#[tokio::test]
async fn a_guard_waits_in_order_and_one_lost_lock_is_a_loss() {
    let local = Local::ephemeral().await;
    let (ann, bob) = (client(&local, "ann"), client(&local, "bob"));
    let held = ann.lock("a").acquire().await.unwrap();
    let waiting = bob.locks().lock("a").lock("b").ttl(Duration::from_secs(3));
    let waiting = tokio::spawn(waiting.wait(Duration::from_secs(60)).acquire());
    let waits = async |client: &leasehold_testkit::Client| {
        client.get("/v1/locks/b").await.get("n_waiting") == 1
    };
    local.until("it waits", waits).await;
    held.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    local.client.post("/v1/locks/b/revoke", json!({"reason": "a test"})).await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(30), guard.lost()).await.unwrap();
    assert!(matches!(lost, Lost::Ended | Lost::OutOfTime), "{lost:?}");
    let request = CancelRequest { owner_id: "bob".into(), request_id: "nothing".into() };
    assert!(!bob.cancel(&request).await.unwrap());
    local.stop().await;
}
