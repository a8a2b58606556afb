//! Tests of store data lost from etcd while a leader still has all of it in memory.

use std::time::Duration;

use leasehold_base::clock::SystemClock;
use leasehold_store as store;
use leasehold_store::shared::{Snapshots, check};
use leasehold_testkit::folder;

use crate::etcd::world::{Node, World, wait_until};

const CHECK_EVERY: Duration = Duration::from_millis(200);

impl World {
    fn value(&self, key: &str) -> String {
        self.etcd.ctl(&["get", "--print-value-only", &format!("/test/{key}")])
    }

    fn is_sound(&self) -> bool {
        check(&*self.connect(), &SystemClock::new()).is_ok()
    }
}

#[test]
fn a_lost_record_does_not_stop_a_leader() {
    let mut world = World::new();
    let never = Snapshots::every(u64::MAX);
    world.snapshots = never;
    let first = world.node("n1");
    first.leads();
    for n in 0..5 {
        assert!(first.take(&format!("lock-{n}"), "a").expect("an answer"));
    }
    world.etcd.ctl(&["del", "/test/j/0000000000000003"]);
    let Err(store::Error::Refused(why)) = Node::start(&world, "n2", folder(), false) else {
        panic!("it cannot be read");
    };
    assert!(why.contains("is damaged in etcd: journal record 3 is missing"), "{why}");
    assert_eq!(world.value("rewound"), "", "nothing was put back");
    assert!(first.take("more", "a").expect("it goes on"));
    let folder = first.stop();

    // The leader has stopped, so no node has the lost record in memory any more.
    let refused = Node::start(&world, "n1", folder, false);
    assert!(matches!(refused, Err(store::Error::Refused(_))));
}

#[test]
fn a_leader_counts_the_keys_in_etcd_and_rewrites_lost_ones() {
    let mut world = World::new();
    world.snapshots = Snapshots { check_every: CHECK_EVERY, ..Snapshots::every(u64::MAX) };
    let first = world.node("n1");
    first.leads();
    for n in 0..5 {
        assert!(first.take(&format!("lock-{n}"), "a").expect("an answer"));
    }
    world.etcd.ctl(&["del", "/test/j/0000000000000003"]);
    wait_until("a snapshot is there", || world.is_sound());
    let second = world.node("n2");
    // Now the snapshot itself is lost.
    let name = |manifest: String| manifest.split("\"name\":").nth(1).map(str::to_owned);
    let before = name(world.value("manifest"));
    world.etcd.ctl(&["del", "--prefix", "/test/snap/"]);
    wait_until("another is there", || name(world.value("manifest")) != before && world.is_sound());
    assert!(first.take("more", "a").expect("it goes on"));
    let third = world.node("n3");
    first.stop();
    wait_until("another leads", || [&second, &third].iter().any(|n| !n.handle.is_following()));
    let leads = if second.handle.is_following() { &third } else { &second };
    for lock in ["lock-0", "lock-4", "more"] {
        assert_eq!(leads.holder(lock), Ok(Some("a".into())), "{lock}");
    }
    second.stop();
    third.stop();
}
