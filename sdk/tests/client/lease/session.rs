//! Sessions: many locks with one keep-alive.

use leasehold::{Error, Lost};

use crate::lease::{TTL, World};

#[tokio::test]
async fn one_keep_alive_holds_many_locks() {
    let world = World::new().await;
    let session = world.client.session().ttl(TTL).open().await.unwrap();
    let mut guards = Vec::new();
    for n in 0..20 {
        guards.push(session.lock(format!("shard-{n}")).acquire().await.unwrap());
    }
    for _ in 0..9 {
        let before = session.deadline();
        world.advance(TTL / 3);
        world.until("it is kept alive", async || session.deadline() > before).await;
    }
    assert!(guards.iter().all(|guard| guard.is_held()));
    assert_eq!(guards[0].deadline(), session.deadline());
    assert_eq!(world.n_renewals().await, 0, "leases of a session are not renewed one by one");

    let lost = guards[1].lost();
    guards.remove(0).release().await.unwrap();
    assert!(session.check().is_ok() && guards[0].is_held());
    session.close().await.unwrap();
    assert_eq!(lost.await, Lost::Released);
    assert!(!world.client.look("shard-7").await.unwrap().held);
}

#[tokio::test]
async fn a_session_that_is_over_takes_its_locks_along() {
    let world = World::new().await;
    let session = world.client.session().ttl(TTL).open().await.unwrap();
    let guard = session.lock("shard").acquire().await.unwrap();
    world.client.close_session(session.id()).await.unwrap();
    world.advance(TTL / 3);
    assert_eq!(guard.lost().await, Lost::Ended);
    assert_eq!(session.check(), Err(Lost::Ended));
    assert!(matches!(session.lock("more").acquire().await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_dropped_session_is_closed() {
    let world = World::new().await;
    let session = world.client.session().owner("three").ttl(TTL).open().await.unwrap();
    let guard = session.lock("shard").acquire().await.unwrap();
    assert_eq!((guard.owner(), session.owner()), ("three", "three"));
    drop(session);
    assert_eq!(guard.check(), Err(Lost::Released));
    world.until("it is free", async || !world.client.look("shard").await.unwrap().held).await;
}

#[tokio::test]
async fn a_lock_of_a_session_has_no_ttl_of_its_own() {
    let world = World::new().await;
    let session = world.client.session().ttl(TTL).open().await.unwrap();
    let asked = session.lock("shard").ttl(TTL).acquire().await.unwrap_err();
    assert!(matches!(asked, Error::Invalid(_)), "{asked}");
}

#[tokio::test]
async fn nothing_that_proves_anything_is_shown_for_debugging() {
    let world = World::new().await;
    let key = "a-secret-key";
    let builder = leasehold::Client::builder("http://127.0.0.1:1").api_key(key);
    let session = world.client.session().ttl(TTL).open().await.unwrap();
    let request = session.lock("shard");
    let guard = request.clone().acquire().await.unwrap();
    let client = builder.clone().build().unwrap();
    let shown = format!("{builder:?} {client:?} {session:?} {request:?} {guard:?}");
    for secret in [key, session.id(), guard.lease_id()] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}
