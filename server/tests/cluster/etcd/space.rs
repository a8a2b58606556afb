//! Tests of an etcd with a small quota: nearly full, full, and with free space again.

use std::time::Duration;

use leasehold_core::{LockKey, Revoke, Target};
use leasehold_engine::Error;
use leasehold_etcd::{Error as EtcdError, Kind, Op, RangeRequest, Txn};
use leasehold_store::etcd::Cluster;
use leasehold_store::shared::Watching;
use leasehold_testkit::{Etcd, EtcdOptions, Signal};

use crate::etcd::world::{Node, World, wait_until};

const QUOTA: u64 = 64 << 20;
/// Number of pieces per megabyte. Pieces of this size count as small.
const SMALL: usize = 16;

/// Starts an etcd with a small quota. Its nodes assume a quota of `believed` bytes.
fn small(believed: u64) -> World {
    let quota = format!("--quota-backend-bytes={QUOTA}");
    let options = EtcdOptions { flags: &[&quota], ..EtcdOptions::default() };
    let watching = Watching { quota: believed, every: Duration::from_millis(50) };
    let mut world = World::on(Etcd::cluster(1, &options));
    world.watching = Some(watching);
    world
}

impl World {
    /// Writes a megabyte as another client of etcd, in this many pieces. etcd puts large values two to a page of its
    /// file and copies both for each new value, so the file fills up long before the space in use does.
    fn fill(&self, n: u64, n_pieces: usize) -> Result<(), EtcdError> {
        let piece = vec![b'x'; (1 << 20) / n_pieces];
        let put =
            |n_piece: usize| Op::Put(format!("/fill/{n}-{n_piece}").into_bytes(), piece.clone(), 0);
        let txn = (0..n_pieces).fold(Txn::default(), |txn, piece| txn.then(put(piece)));
        self.remote().txn(txn.request()).map(drop)
    }

    /// Writes one megabyte after another until `is_enough`, and waits until the node has noticed each. Returns the
    /// number of megabytes.
    fn fill_until(&self, node: &Node, n_pieces: usize, is_enough: impl Fn() -> bool) -> u64 {
        let mut n = 0;
        while !is_enough() {
            assert!(n < 64, "etcd is full: {:?}", node.handle.health().room());
            self.fill(n, n_pieces).expect("there is room");
            n += 1;
            let in_use = n << 20;
            wait_until("it was seen", || node.handle.health().room().n_bytes_in_use >= in_use);
        }
        n
    }

    /// Frees space as an operator would: delete, compact, defragment, disarm the alarm.
    fn make_room(&self) {
        self.compact();
        self.etcd.ctl(&["defrag"]);
        self.etcd.ctl(&["alarm", "disarm"]);
    }

    /// Deletes and compacts the data of `fill`. The file keeps its size.
    fn compact(&self) {
        self.etcd.ctl(&["del", "--prefix", "/fill/"]);
        let head = RangeRequest { key: b"/test/head".to_vec(), ..RangeRequest::default() };
        let revision = self.remote().range(head).expect("an answer").revision();
        self.etcd.ctl(&["compact", "--physical", &revision.to_string()]);
    }
}

fn give_back(node: &Node, lock: &str) -> Result<bool, Error> {
    let target = Target::Lock(LockKey::new("default", lock));
    node.ask(Revoke { target, reason: "t".into() }).map(|revoked| revoked.is_ok())
}

#[test]
fn no_lock_is_granted_before_etcd_is_full_and_held_locks_can_be_released() {
    let world = small(QUOTA);
    let node = world.node("n1");
    node.leads();
    for lock in ["a", "b", "c"] {
        assert!(node.take(lock, "x").expect("an answer"));
    }
    let n = world.fill_until(&node, SMALL, || node.take("more", "x") == Err(Error::StoreFull));
    let room = node.handle.health().room();
    assert!(room.is_short && !room.is_out && room.quota == QUOTA, "{room:?}");
    assert!(room.n_bytes_in_use >= QUOTA * 8 / 10, "{room:?}");
    assert_eq!(give_back(&node, "a"), Ok(true), "releases go on");
    assert!(node.look("b").is_ok(), "reads go on");

    // The other client of etcd uses up the remaining space.
    let full = (n..256).map(|n| world.fill(n, SMALL)).find_map(Result::err).expect("it is full");
    assert_eq!(full.kind, Kind::NoSpace, "{full}");
    std::thread::scope(|scope| {
        let giving = scope.spawn(|| give_back(&node, "b"));
        wait_until("it is known", || node.handle.health().room().is_out);
        // The leader stays the leader, and new acquires get the right error.
        wait_until("newcomers are told", || node.take("d", "x") == Err(Error::StoreAlarmed));
        assert!(!node.handle.is_following());
        world.compact();
        world.etcd.ctl(&["defrag"]);
        wait_until("there is space", || node.handle.health().room().n_bytes < QUOTA / 2);
        assert_eq!(node.take("d", "x"), Err(Error::StoreAlarmed), "until an operator disarms it");
        world.etcd.ctl(&["alarm", "disarm"]);
        assert_eq!(giving.join().expect("no panic"), Ok(true), "it was done once there was room");
    });
    wait_until("there is room", || node.take("d", "x") == Ok(true));
    assert_eq!(node.holder("b"), Ok(None));
    assert_eq!(node.holder("c"), Ok(Some("x".into())));
    node.stop();
}

/// etcd's quota applies to the size of its file, even if much of it is unused.
#[test]
fn nothing_more_is_granted_while_the_file_of_etcd_is_nearly_as_large_as_it_may_be() {
    // Half of the real quota, so that enough space is left to free space.
    let believed = QUOTA / 2;
    let world = small(believed);
    let node = world.node("n1");
    node.leads();
    assert!(node.take("a", "x").expect("an answer"));
    let room = || node.handle.health().room();
    world.fill_until(&node, 1, || room().n_bytes >= believed * 91 / 100);
    world.compact();
    wait_until("most of it is empty", || room().n_bytes_in_use < believed / 2);
    assert!(room().is_short && !room().is_out, "{:?}", room());
    assert_eq!(node.take("more", "x"), Err(Error::StoreFull));
    assert_eq!(give_back(&node, "a"), Ok(true), "releases go on");
    world.make_room();
    wait_until("there is room", || node.take("a", "y") == Ok(true));
    node.stop();
}

#[test]
fn a_member_that_does_not_answer_is_counted() {
    let world = small(QUOTA);
    let node = world.node("n1");
    let n_silent = |n: u64| node.handle.health().room().n_silent == n;
    wait_until("all answer", || node.handle.health().room().quota > 0 && n_silent(0));
    world.etcd.signal(0, Signal::STOP);
    wait_until("one does not", || n_silent(1));
    world.etcd.signal(0, Signal::CONT);
    wait_until("it answers again", || n_silent(0));
}
