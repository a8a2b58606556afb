//! The client for programs without async.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use leasehold::api::EventKind;
use leasehold::{Error, Watched, blocking};
use leasehold_testkit::{Local, json};
use tokio::runtime::Runtime;

struct World {
    runtime: Runtime,
    local: Local,
    client: blocking::Client,
}

impl World {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let local = runtime.block_on(Local::ephemeral());
        let client = blocking::Client::new(&format!("http://{}", local.address)).unwrap();
        Self { runtime, local, client }
    }

    fn is_held(&self, lock: &str) -> bool {
        self.client.wait_for(self.client.inner().look(lock)).unwrap().held
    }
}

#[test]
fn a_lock_is_held_until_it_is_released_or_dropped() {
    let world = World::new();
    let guard = world.client.lock("orders").ttl(Duration::from_secs(60)).acquire().unwrap();
    assert_eq!((guard.name(), guard.fencing_token()), ("orders", 1));
    assert!(world.client.lock("orders").acquire().unwrap_err().is_conflict());
    assert_eq!(guard.lost_within(Duration::from_millis(1)), None);
    guard.release().unwrap();
    assert!(!world.is_held("orders"));
    drop(world.client.lock("orders").acquire().unwrap());
    // The next acquire waits for the release in the background.
    let wait = Duration::from_secs(20);
    world.client.lock("orders").wait(wait).acquire().unwrap().release().unwrap();
}

#[test]
fn renewals_go_on_while_the_program_is_busy() {
    let world = World::new();
    let guard = world.client.lock("orders").ttl(Duration::from_secs(6)).acquire().unwrap();
    world.local.advance_ms(5000);
    // This thread does not run the client in the meantime.
    world.runtime.block_on(world.local.until("it is renewed", async |client| {
        let metrics = client.get("/metrics").await.text;
        metrics.contains("lock_renew_total{result=\"success\"} 1")
    }));
    world.local.advance_ms(5000);
    assert!(guard.is_held() && world.is_held("orders"), "it was renewed in between");
}

#[test]
fn work_is_done_under_a_lock_and_told_if_that_was_lost() {
    let world = World::new();
    assert_eq!(world.client.lock("orders").run(|guard| guard.fencing_token()).unwrap(), 1);
    assert!(!world.is_held("orders"));
    let lost = world.client.lock("orders").run(|_| {
        let reason = json!({"reason": "test"});
        world.runtime.block_on(world.local.client.post("/v1/locks/orders/revoke", reason)).unwrap();
    });
    assert!(matches!(lost, Err(Error::NotReleased(_) | Error::Lost { .. })), "{lost:?}");
}

#[test]
fn several_locks_are_held_together_and_released_together() {
    let world = World::new();
    let both = || world.client.locks().lock("a").shared("b");
    let guard = both().ttl(Duration::from_secs(60)).acquire().unwrap();
    assert_eq!((guard.fencing_token("a"), guard.leases().len()), (Some(1), 2));
    assert!(both().acquire().unwrap_err().is_conflict());
    assert_eq!(guard.lost_within(Duration::from_millis(1)), None);
    guard.release().unwrap();
    assert_eq!(both().run(|guard| guard.fencing_token("b")).unwrap(), Some(2));
    assert!(!world.is_held("a") && !world.is_held("b"));
}

#[test]
fn events_are_an_iterator() {
    let world = World::new();
    let mut events = world.client.watch("");
    events.connect().unwrap();
    world.client.lock("orders").acquire().unwrap().release().unwrap();
    let kinds = events.take(2).map(|watched| match watched.unwrap() {
        Watched::Event { event, .. } => event.kind,
        other => panic!("{other:?}"),
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [EventKind::Granted, EventKind::Released]);
}
