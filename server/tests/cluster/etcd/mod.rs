//! Tests of several nodes on one etcd: one node leads, and everything it acknowledged survives it.

#![allow(clippy::print_stdout, reason = "how long it takes is worth seeing")]

mod chronicle;
mod damage;
mod lapse;
mod space;
mod steer;
mod transfer;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use leasehold_core::{LockKey, Revoke, Target};
use leasehold_engine::{Error, Probe};
use leasehold_store as store;
use leasehold_store::etcd::{self, Snapshots};
use leasehold_testkit::folder;

use world::{Node, PREFIX, World, wait_until};

#[test]
fn a_store_is_made_once_and_never_by_itself() {
    let world = World::new();
    let again = etcd::init(&world.remote(), PREFIX).expect_err("it is there");
    assert!(again.to_string().contains("2 keys"), "{again}");
    // A store inside the key range of another store would be deleted along with that store's keys.
    for within in ["test/j", "test/a/b"] {
        let among = etcd::init(&world.remote(), within).expect_err("it is not apart");
        assert!(among.to_string().contains("the store under /test/"), "{among}");
    }
    etcd::init(&world.remote(), "test2/a").expect("apart");
    assert!(etcd::init(&world.remote(), "test2").is_err(), "there is a store in it");
    world.etcd.ctl(&["del", "/test/id"]);
    let Err(store::Error::Refused(why)) = Node::start(&world, "n1", folder(), true) else {
        panic!("there is nothing to start from");
    };
    assert!(why.contains("there is no store under /test/"), "{why}");
}

#[test]
fn who_follows_goes_on_at_once_when_the_leader_stops() {
    let world = World::new();
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("db", "a").expect("an answer"));
    assert_eq!(second.take("db", "b"), Err(Error::NotLeading));
    let token = first.look("db").expect("an answer").last_token;
    // Wait until the second node has received the record.
    wait_until("it is known", || second.handle.now() > first.handle.now() || memory(&second) >= 2);
    let began = Instant::now();
    first.stop();
    second.leads();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(second.holder("db"), Ok(Some("a".into())));
    assert!(!second.take("db", "b").expect("an answer"), "it is held");
    let revoke = Revoke { target: Target::Lock(LockKey::new("default", "db")), reason: "t".into() };
    second.ask(revoke).expect("an answer").expect("revoked");
    assert!(second.take("db", "b").expect("an answer"));
    assert!(second.look("db").expect("an answer").last_token > token);
    second.stop();
}

/// Returns the number of the last record that a node has noted in `node.json`.
fn memory(node: &Node) -> u64 {
    let text = std::fs::read_to_string(node.folder.path().join("node.json")).unwrap_or_default();
    let number = text.split("\"seq\":").nth(1).and_then(|rest| rest.split(',').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[test]
fn a_leader_that_was_cut_off_answers_nothing_more_and_follows() {
    let world = World::new();
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("db", "a").expect("an answer"));
    first.link.is_cut.store(true, SeqCst);
    assert_eq!(first.holder("db"), Err(Error::StoreSilent), "no server could check that");
    second.leads();
    assert!(second.take("other", "b").expect("an answer"));
    first.link.is_cut.store(false, SeqCst);
    wait_until("it knows that another server leads", || match first.holder("other") {
        Err(Error::NotLeading) => true,
        // Before etcd answers.
        Err(Error::StoreSilent) => false,
        told => panic!("{told:?}"),
    });
    first.follows();
    second.stop();
    first.leads();
    assert_eq!(first.holder("other"), Ok(Some("b".into())));
    assert_eq!(first.holder("db"), Ok(Some("a".into())));
    first.stop();
}

#[test]
fn a_write_without_a_response_counts_once() {
    // With such a long tick, nothing else is written during the test.
    let world = World { tick: Duration::from_secs(600), ..World::new() };
    let node = world.node("n1");
    node.leads();
    // More often than the store retries immediately.
    node.link.n_unanswered.store(3, SeqCst);
    assert!(node.take("db", "a").expect("an answer in the end"));
    node.link.n_lost.store(3, SeqCst);
    assert!(node.take("other", "a").expect("an answer in the end"));
    assert_eq!(node.holder("db"), Ok(Some("a".into())));
    let slots = world.etcd.ctl(&["get", "--prefix", "--keys-only", "/test/j/"]);
    let n_slots = slots.lines().filter(|line| !line.is_empty()).count();
    let folder = node.stop();
    let node = Node::start(&world, "n1", folder, false).expect("a start");
    node.leads();
    assert_eq!(node.holder("db"), Ok(Some("a".into())));
    assert_eq!(node.holder("other"), Ok(Some("a".into())));
    // The first record of the epoch, and two grants.
    assert_eq!(n_slots, 3);
    node.stop();
}

#[test]
fn a_leader_that_etcd_does_not_confirm_is_counted_as_none() {
    let world = World::new();
    let node = world.node("n1");
    let roles = || {
        let text = node.metrics.render();
        let is = |role| text.contains(&format!("leasehold_cluster_role{{role=\"{role}\"}} 1"));
        (is("leader"), is("follower"))
    };
    wait_until("it leads", || roles() == (true, false));
    node.link.is_cut.store(true, SeqCst);
    assert_eq!(node.holder("db"), Err(Error::StoreSilent));
    assert_eq!(roles(), (false, false));
    node.link.is_cut.store(false, SeqCst);
    wait_until("it leads again, or follows", || roles() != (false, false));
    node.stop();
}

#[test]
fn what_was_not_known_when_another_took_over_is_told_as_unknown() {
    let world = World::new();
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("db", "a").expect("an answer"));
    let cut = first.link.clone();
    cut.n_lost.store(usize::MAX, SeqCst);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| first.take("other", "a"));
        // The transaction was sent and then lost.
        wait_until("it is lost", || cut.n_lost.load(SeqCst) < usize::MAX);
        cut.is_cut.store(true, SeqCst);
        second.leads();
        cut.is_cut.store(false, SeqCst);
        assert_eq!(asking.join().expect("no panic"), Err(Error::Unknown));
    });
    cut.n_lost.store(0, SeqCst);
    first.follows();
    assert_eq!(second.holder("other"), Ok(None));
    assert_eq!(second.holder("db"), Ok(Some("a".into())));
    second.stop();
    first.stop();
}

#[test]
fn a_node_without_memory_does_not_lead_what_it_does_not_know() {
    let world = World::new();
    let first = world.node("n1");
    first.leads();
    assert!(first.take("db", "a").expect("an answer"));
    let folder = first.stop();
    let fresh = world.node("n2");
    std::thread::sleep(Duration::from_secs(1));
    assert!(fresh.handle.is_following());
    assert_eq!(fresh.ask(Probe), Err(Error::NotLeading));
    let again = Node::start(&world, "n1", folder, false).expect("a start");
    again.leads();
    assert_eq!(again.holder("db"), Ok(Some("a".into())));
    // The restarted node continues after the last record.
    assert!(again.take("other", "a").expect("an answer"));
    wait_until("it was followed", || memory(&fresh) >= memory(&again).max(3));
    again.stop();
    fresh.leads();
    assert_eq!(fresh.holder("other"), Ok(Some("a".into())));
    fresh.stop();
}

#[test]
fn no_server_leads_a_journal_that_was_rolled_back() {
    let world = World::new();
    let first = world.node("n1");
    first.leads();
    let head = world.etcd.ctl(&["get", "--print-value-only", "/test/head"]);
    assert!(first.take("db", "a").expect("an answer"));
    let folder = first.stop();
    // Simulates an etcd restore: the old head, and no later record.
    world.etcd.ctl(&["put", "/test/head", head.trim()]);
    world.etcd.ctl(&["del", "/test/j/0000000000000002", "/test/j0"]);
    let Err(store::Error::Refused(why)) = Node::start(&world, "n1", folder, false) else {
        panic!("it is not what it was");
    };
    assert!(why.contains("was rolled back or replaced"), "{why}");
    assert!(world.etcd.ctl(&["get", "/test/rewound"]).contains("n1"));
    // A node without memory of the later records does not lead either.
    let fresh = Node::start(&world, "n2", leasehold_testkit::folder(), true).expect("a start");
    std::thread::sleep(Duration::from_secs(1));
    assert!(fresh.handle.is_following());
    fresh.stop();
}

#[test]
fn the_journal_does_not_grow_for_ever() {
    let mut world = World::new();
    world.snapshots = Snapshots::every(20);
    let first = world.node("n1");
    first.leads();
    assert!(first.take("kept", "a").expect("an answer"));
    let n_keys = |prefix: &str| {
        let keys = world.etcd.ctl(&["get", "--prefix", "--keys-only", prefix]);
        keys.lines().filter(|line| !line.is_empty()).count()
    };
    let revoke = |node: &Node| {
        let target = Target::Lock(LockKey::new("default", "db"));
        node.ask(Revoke { target, reason: "t".into() }).expect("an answer").expect("revoked");
    };
    for _ in 0..100 {
        assert!(first.take("db", "a").expect("an answer"));
        revoke(&first);
    }
    // Snapshots are taken in the background, and later writes delete the records in them.
    wait_until("several are taken and the records in them are deleted", || {
        assert!(first.take("db", "a").expect("an answer"));
        revoke(&first);
        let manifest = world.etcd.ctl(&["get", "--print-value-only", "/test/manifest"]);
        manifest.contains("\"previous\":\"") && n_keys("/test/j/") < 120
    });
    assert!((1..=3).contains(&n_keys("/test/snap/")), "{} chunks", n_keys("/test/snap/"));
    let token = first.look("db").expect("an answer").last_token;
    // A node without memory reads the snapshot and the records after it.
    let second = Node::start(&world, "n2", folder(), true).expect("a start");
    first.stop();
    second.leads();
    assert_eq!(second.holder("kept"), Ok(Some("a".into())));
    assert!(second.take("db", "b").expect("an answer"));
    assert!(second.look("db").expect("an answer").last_token > token);
    second.stop();
}

#[test]
fn who_comes_back_after_records_are_gone_reads_the_snapshot() {
    let mut world = World::new();
    world.snapshots = Snapshots::every(10);
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("kept", "a").expect("an answer"));
    second.link.is_cut.store(true, SeqCst);
    let first_record = || world.etcd.ctl(&["get", "/test/j/0000000000000001"]);
    let n_taken = AtomicUsize::new(0);
    wait_until("the first record is deleted", || {
        let n = n_taken.fetch_add(1, SeqCst);
        assert!(first.take(&format!("lock-{n}"), "a").expect("an answer"));
        n > 60 && first_record().is_empty()
    });
    second.link.is_cut.store(false, SeqCst);
    let seq = memory(&first);
    wait_until("it has caught up", || memory(&second) >= seq.max(60));
    first.stop();
    second.leads();
    assert_eq!(second.holder("lock-60"), Ok(Some("a".into())));
    assert_eq!(second.holder("kept"), Ok(Some("a".into())));
    second.stop();
}

#[test]
fn etcd_is_compacted_unless_another_program_uses_it() {
    let mut world = World::new();
    world.compact_every = Duration::from_millis(100);
    let at = |revision: &str| {
        let get = ["get", "--rev", revision, "--print-value-only", "/test/head"];
        world.etcd.try_ctl(&get)
    };
    let node = world.node("n1");
    node.leads();
    assert!(node.take("a", "a").expect("an answer"));
    wait_until("it is forgotten", || at("3").is_err_and(|why| why.contains("compacted")));
    node.stop();
    let other = World { compact_every: Duration::from_millis(100), ..World::new() };
    other.etcd.ctl(&["put", "/another/program", "x"]);
    let node = other.node("n1");
    node.leads();
    for n in 0..8 {
        assert!(node.take(&format!("lock-{n}"), "a").expect("an answer"));
        // The leader checks every two thirds of a second whether it can compact.
        std::thread::sleep(Duration::from_millis(250));
    }
    let get = ["get", "--rev", "3", "--print-value-only", "/test/head"];
    assert!(other.etcd.try_ctl(&get).is_ok(), "it is not ours to compact");
    node.stop();
}

#[test]
fn no_server_leads_a_journal_that_is_rolled_back_under_a_follower() {
    let world = World::new();
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    let head = world.etcd.ctl(&["get", "--print-value-only", "/test/head"]);
    for n in 0..3 {
        assert!(first.take(&format!("lock-{n}"), "a").expect("an answer"));
    }
    wait_until("it was followed", || memory(&second) >= 2);
    // etcd is restored while no node can reach it: the leader key and the last records are gone.
    first.link.is_cut.store(true, SeqCst);
    second.link.is_cut.store(true, SeqCst);
    world.etcd.ctl(&["put", "/test/head", head.trim()]);
    world.etcd.ctl(&["del", "/test/j/0000000000000002", "/test/j0"]);
    world.etcd.ctl(&["del", "/test/leader"]);
    first.link.is_cut.store(false, SeqCst);
    second.link.is_cut.store(false, SeqCst);
    first.follows();
    wait_until("the rollback is noticed", || !world.etcd.ctl(&["get", "/test/rewound"]).is_empty());
    std::thread::sleep(Duration::from_secs(3));
    assert!(first.handle.is_following() && second.handle.is_following());
    assert_eq!(first.take("db", "b"), Err(Error::NotLeading));
    assert_eq!(second.take("db", "b"), Err(Error::NotLeading));
    first.stop();
    second.stop();
}

/// Measures how long the cluster has no leader after a leader stops gracefully.
#[test]
fn a_seat_that_is_given_up_is_taken_at_once() {
    let world = World::new();
    let mut nodes: Vec<_> = ["n1", "n2", "n3"].map(|name| Some(world.node(name))).into();
    let mut took = Vec::new();
    for round in 0..2 {
        let leads =
            || nodes.iter().position(|n| n.as_ref().is_some_and(|n| !n.handle.is_following()));
        wait_until("a server leads", || leads().is_some());
        let leader = leads().expect("a server leads");
        let node = nodes[leader].take().expect("it leads");
        assert!(node.take(&format!("lock-{round}"), "a").expect("an answer"));
        let seq = 2 + round;
        let others = || nodes.iter().flatten().all(|other| memory(other) >= seq);
        wait_until("it was followed", others);
        let began = Instant::now();
        node.stop();
        wait_until("another leads", || nodes.iter().flatten().any(|n| !n.handle.is_following()));
        took.push(began.elapsed());
    }
    // It takes 200 ms on an idle machine.
    assert!(took.iter().all(|took| *took < Duration::from_secs(20)), "{took:?}");
    println!("{took:?}");
    nodes.into_iter().flatten().for_each(|node| drop(node.stop()));
}
