//! Tests of several nodes on one etcd: those that every shared store has to pass, and those of etcd itself.

mod chronicle;
mod damage;
mod space;
mod steer;
mod transfer;
mod world;

use std::time::Duration;

use leasehold_store as store;
use leasehold_store::shared;
use leasehold_testkit::folder;

use world::{Node, PREFIX, World, wait_until};

leasehold_testkit::leadership_tests!(World::shared);

#[test]
fn a_store_is_made_once_and_never_by_itself() {
    let world = World::new();
    let again = shared::init(&world.under(PREFIX)).expect_err("it is there");
    assert!(again.to_string().contains("2 keys"), "{again}");
    // A store inside the key range of another store would be deleted along with that store's keys.
    for within in ["test/j", "test/a/b"] {
        let among = shared::init(&world.under(within)).expect_err("it is not apart");
        assert!(among.to_string().contains("the store under /test/"), "{among}");
    }
    shared::init(&world.under("test2/a")).expect("apart");
    assert!(shared::init(&world.under("test2")).is_err(), "there is a store in it");
    world.etcd.ctl(&["del", "/test/id"]);
    let Err(store::Error::Refused(why)) = Node::start(&world, "n1", folder(), true) else {
        panic!("there is nothing to start from");
    };
    assert!(why.contains("there is no store under /test/"), "{why}");
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
    let mut other = World::new();
    other.compact_every = Duration::from_millis(100);
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
