//! Tests of whole stores copied out of etcd and into it: backup, restore and check.

use std::path::Path;

use leasehold_base::clock::SystemClock;
use leasehold_core::Token;
use leasehold_store::shared::{self, Checked};
use leasehold_store::{self as store, sqlite};
use leasehold_testkit::{TempDir, folder};

use crate::etcd::world::{Node, PREFIX, World, wait_until};

/// By how much a restore raises tokens. No server grants that many after one backup.
const RAISE: u64 = 1 << 40;

impl World {
    fn check(&self) -> Result<Checked, store::Error> {
        shared::check(&*self.connect(), &SystemClock::new())
    }

    fn back_up(&self, target: &Path) {
        let whole = self.check().expect("a sound store").whole;
        sqlite::Arrival::backup(target, &whole).and_then(|made| made.complete()).expect("a backup");
    }

    fn restore(&self, backup: &Path) -> Result<(), store::Error> {
        shared::restore(&*self.connect(), sqlite::read_backup(backup)?)
    }

    fn has(&self, key: &str) -> bool {
        !self.etcd.ctl(&["get", &format!("/{PREFIX}/{key}")]).is_empty()
    }

    /// Simulates an etcd restore to the time when `head` was its head.
    fn put_back(&self, head: &str, next: u64) {
        self.etcd.ctl(&["put", "/test/head", head.trim()]);
        self.etcd.ctl(&["del", &format!("/test/j/{next:016x}"), "/test/j0"]);
    }
}

fn token(node: &Node, lock: &str) -> u64 {
    node.look(lock).expect("an answer").last_token.get()
}

#[test]
fn a_backup_is_the_way_out_of_a_store_that_was_put_back() {
    let (world, backups) = (World::new(), folder());
    let backup = backups.path().join("backup");
    let first = world.node("n1");
    first.leads();
    assert!(first.take("db", "a").expect("an answer"));
    world.back_up(&backup);
    assert!(sqlite::verify(&backup).expect("a sound backup").is_backup);
    let head = world.etcd.ctl(&["get", "--print-value-only", "/test/head"]);
    let seq: u64 = head.split([':', ',']).nth(1).and_then(|seq| seq.parse().ok()).expect("a head");
    assert!(first.take("later", "a").expect("an answer"));
    let generation = first.handle.generation();
    let refused = world.restore(&backup).expect_err("a server leads");
    assert!(refused.to_string().contains("n1 leads"), "{refused}");
    let n1 = first.stop();
    world.put_back(&head, seq + 1);
    assert!(Node::start(&world, "n1", n1, false).is_err(), "it remembers more");
    assert!(world.has("rewound") && world.check().expect("sound").is_rewound);
    // This node follows the whole time and does not know the lost records.
    let follower = world.node("n2");
    world.restore(&backup).expect("a restored store");
    assert!(!world.has("rewound"));
    follower.leads();
    assert_ne!(follower.handle.generation(), generation);
    assert_eq!(follower.holder("db"), Ok(None), "whatever was held has ended");
    assert!(follower.take("db", "b").expect("an answer"));
    assert!(token(&follower, "db") > RAISE);
    assert!(!world.has("rewound"), "no server found a problem");
    follower.stop();
    world.check().expect("a sound store");
}

/// A node that has seen more records than a restored store contains continues with the restored store.
#[test]
fn who_remembers_a_generation_that_is_over_follows_the_next() {
    let (world, backups) = (World::new(), folder());
    let [old, new] = ["old", "new"].map(|name| backups.path().join(name));
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("db", "a").expect("an answer"));
    world.back_up(&old);
    for n in 0..5 {
        assert!(first.take(&format!("lock-{n}"), "a").expect("an answer"));
    }
    world.back_up(&new);
    let n1 = first.stop();
    second.leads();
    let n2 = second.stop();
    world.restore(&old).expect("a restored store");
    let once = world.check().expect("sound").whole.n_restores;
    let first = Node::start(&world, "n1", n1, false).expect("a start");
    first.leads();
    assert!(first.take("db", "b").expect("an answer"));
    let granted = token(&first, "db");
    assert!(RAISE < granted && granted < 2 * RAISE, "{granted}");
    first.stop();
    // The same backup is restored again. It does not contain the grants made since the first restore.
    world.restore(&old).expect("a restored store");
    let again = Node::start(&world, "n2", n2, false).expect("a start");
    again.leads();
    assert!(again.take("db", "c").expect("an answer"));
    assert!(token(&again, "db") > granted, "{granted} was granted before");
    again.stop();
    assert_eq!((once, world.check().expect("sound").whole.n_restores), (1, 2));
    assert!(token_of(&world, "db") <= Token::MAX.get());
}

fn token_of(world: &World, lock: &str) -> u64 {
    let whole = world.check().expect("sound").whole;
    let key = leasehold_core::LockKey::new("default", lock);
    whole.machine.export().iter().fold(0, |found, row| match row {
        leasehold_core::Row::Lock(record) if record.lock == key => record.last_token.get(),
        _ => found,
    })
}

#[test]
fn a_backup_is_restored_where_nothing_is_and_not_over_another_store() {
    let (world, other, backups) = (World::new(), World::new(), folder());
    let backup = backups.path().join("backup");
    let node = world.node("n1");
    node.leads();
    assert!(node.take("db", "a").expect("an answer"));
    node.stop();
    world.back_up(&backup);
    let refused = other.restore(&backup).expect_err("another store");
    assert!(
        refused.to_string().contains("not the one that the backup was taken from"),
        "{refused}"
    );
    other.etcd.ctl(&["del", "--prefix", "/test/"]);
    other.restore(&backup).expect("a restored store");
    let node = other.node("n1");
    node.leads();
    assert!(node.take("db", "b").expect("an answer"));
    assert!(token(&node, "db") > RAISE);
    node.stop();
}

/// Returns a copy of the node directory with the same memory of the store.
fn copy_of(node: &TempDir) -> TempDir {
    let copy = folder();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(copy.path(), private).expect("rights");
    std::fs::copy(node.path().join("node.json"), copy.path().join("node.json")).expect("a memory");
    copy
}

#[test]
fn who_remembers_a_store_that_is_gone_asks_for_a_backup() {
    let (world, backups) = (World::new(), folder());
    let backup = backups.path().join("backup");
    let node = world.node("n1");
    node.leads();
    assert!(node.take("db", "a").expect("an answer"));
    let n1 = node.stop();
    world.back_up(&backup);
    let start = || match Node::start(&world, "n1", copy_of(&n1), true) {
        Err(store::Error::Refused(why)) => why,
        _ => panic!("its store is gone"),
    };
    let seq = world.check().expect("sound").whole.place.seq;
    world.etcd.ctl(&["del", "/test/head"]);
    let Err(why) = world.check() else { panic!("it has no head") };
    assert!(why.to_string().contains("missing from etcd; restore a backup"), "{why}");
    world.etcd.ctl(&["del", "--prefix", "/test/"]);
    let why = start();
    assert!(why.contains(&format!("up to record {seq}; restore a backup")), "{why}");
    assert!(!why.contains("leasehold init"), "{why}");
    // An operator creates a new store nevertheless.
    shared::init(&*world.connect()).expect("a new store");
    let why = start();
    assert!(why.contains("belongs to another store"), "{why}");
    assert!(why.contains("restore a backup of the other one"), "{why}");
    world.etcd.ctl(&["del", "--prefix", "/test/"]);
    world.restore(&backup).expect("a restored store");
    let node = Node::start(&world, "n1", n1, false).expect("a start");
    node.leads();
    assert!(node.take("db", "b").expect("an answer"));
    assert!(token(&node, "db") > RAISE);
    node.stop();
}

#[test]
fn a_store_that_contradicts_itself_is_not_sound() {
    let world = World::new();
    let node = world.node("n1");
    node.leads();
    assert!(node.take("db", "a").expect("an answer"));
    node.stop();
    let Checked { n_records, whole, .. } = world.check().expect("sound");
    assert_eq!((n_records, whole.machine.counts().n_active), (whole.place.seq, 1));
    let damaged = format!("/test/j/{:016x}", whole.place.seq);
    world.etcd.ctl(&["put", &damaged, "nonsense"]);
    let Err(why) = world.check() else { panic!("a record is damaged") };
    assert!(why.to_string().contains("is damaged"), "{why}");
    world.etcd.ctl(&["del", &damaged]);
    let Err(why) = world.check() else { panic!("a record is missing") };
    assert!(why.to_string().contains("are missing"), "{why}");
}

/// A restore must work the same for followers as for the former leader.
#[test]
fn a_restore_under_followers_is_seen_by_all_of_them() {
    let (world, backups) = (World::new(), folder());
    let backup = backups.path().join("backup");
    let first = world.node("n1");
    first.leads();
    world.back_up(&backup);
    let others = ["n2", "n3"].map(|name| world.node(name));
    for n in 0..5 {
        assert!(first.take(&format!("lock-{n}"), "a").expect("an answer"));
    }
    first.link.is_cut.store(true, std::sync::atomic::Ordering::SeqCst);
    others
        .iter()
        .for_each(|node| node.link.is_cut.store(true, std::sync::atomic::Ordering::SeqCst));
    wait_until("no server leads", || !world.has("leader"));
    world.restore(&backup).expect("a restored store");
    first.link.is_cut.store(false, std::sync::atomic::Ordering::SeqCst);
    others
        .iter()
        .for_each(|node| node.link.is_cut.store(false, std::sync::atomic::Ordering::SeqCst));
    let nodes = || others.iter().chain([&first]);
    wait_until("a server leads", || nodes().any(|node| !node.handle.is_following()));
    let generation = world.check().expect("sound").whole.generation;
    wait_until("all have seen it", || nodes().all(|node| node.handle.generation() == generation));
    assert!(!world.has("rewound"));
    first.stop();
    others.into_iter().for_each(|node| drop(node.stop()));
}

#[test]
fn a_backup_is_the_way_out_of_a_store_that_was_deleted_under_its_servers() {
    let (world, backups) = (World::new(), folder());
    let backup = backups.path().join("backup");
    let node = world.node("n1");
    node.leads();
    assert!(node.take("db", "a").expect("an answer"));
    world.back_up(&backup);
    world.etcd.ctl(&["del", "--prefix", "/test/"]);
    node.follows();
    world.restore(&backup).expect("a restored store");
    node.leads();
    assert!(node.take("db", "b").expect("an answer"));
    assert!(token(&node, "db") > RAISE);
    node.stop();
}
