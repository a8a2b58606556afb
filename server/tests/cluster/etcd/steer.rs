//! Tests of operator commands for the cluster, and of which versions can take part.

use std::time::Duration;

use leasehold_store::Error;
use leasehold_store::shared::Operator;
use leasehold_testkit::folder;

use crate::etcd::world::{Node, World, wait_until};

/// Sets the store's format number, as a server of another version would.
fn set_format(world: &World, format: u32) {
    let id = world.etcd.ctl(&["get", "--print-value-only", "/test/id"]);
    let known = world.status().format;
    let (from, to) = (format!("\"format\":{known}"), format!("\"format\":{format}"));
    world.etcd.ctl(&["put", "/test/id", id.trim().replace(&from, &to).as_str()]);
}

#[test]
fn a_version_that_cannot_read_the_format_neither_leads_nor_follows() {
    let world = World::new();
    let (first, second) = world.pair();
    set_format(&world, 9);
    first.stop();
    std::thread::sleep(Duration::from_secs(1));
    assert!(second.handle.is_following(), "it must not lead what it cannot read");
    let Err(Error::Refused(why)) = Node::start(&world, "n3", folder(), true) else {
        panic!("it cannot read it");
    };
    assert!(why.contains("has format 9") && why.contains("newer version"), "{why}");
    let refused = world.operate(Operator::finish_upgrade).expect_err("it is too old");
    assert!(refused.to_string().contains("has format 9"), "{refused}");
    set_format(&world, 1);
    second.leads();
    assert_eq!(second.holder("db"), Ok(Some("a".into())));
    second.stop();
}

#[test]
fn an_upgrade_is_finished_once_every_server_can_read_the_format() {
    let world = World::new();
    assert_eq!(world.operate(Operator::finish_upgrade).expect("nothing to do"), (1, 1));
    set_format(&world, 0);
    let refused = world.operate(Operator::finish_upgrade).expect_err("it has no leader");
    assert!(refused.to_string().contains("the cluster has no leader"), "{refused}");
    let first = world.node("n1");
    first.leads();
    let says = |node: &str, formats: &str| {
        let value = format!(
            r#"{{"instance":"i","process":"p","address":"http://{node}","peer":"","version":"0.1",
                "formats":{formats},"seq":1}}"#
        );
        world.etcd.ctl(&["put", &format!("/test/node/{node}"), &value]);
    };
    let refused = world.operate(Operator::finish_upgrade).expect_err("n1 does not say");
    assert!(refused.to_string().contains("the leader n1 does not report"), "{refused}");
    says("n1", "[0,1]");
    says("n2", "[0]");
    let refused = world.operate(Operator::finish_upgrade).expect_err("n2 is too old");
    assert!(refused.to_string().contains("n2 (version 0.1)"), "{refused}");
    assert_eq!(world.status().format, 0, "nothing was changed");
    world.operate(|operator| operator.forget("n2")).expect("forgotten");
    assert_eq!(world.operate(Operator::finish_upgrade).expect("finished"), (0, 1));
    assert_eq!(world.status().format, 1);
    assert!(first.take("db", "a").expect("an answer"), "who leads goes on");
    first.stop();
}

/// Another client of etcd writes invalid values under the store's keys.
#[test]
fn a_key_that_cannot_be_read_is_told_and_can_be_deleted() {
    let world = World::new();
    let (first, second) = world.pair();
    world.etcd.ctl(&["put", "/test/node/n9", "garbage"]);
    world.etcd.ctl(&["put", "/test/manifest", "garbage"]);
    let told = world.status().unreadable;
    let [manifest, n9] = told.as_slice() else { panic!("two: {told:?}") };
    assert!(manifest.remedy.contains("leasehold restore"), "{manifest:?}");
    assert_eq!(n9.key, "/test/node/n9");
    assert!(n9.remedy.contains("forget-node n9"), "{n9:?}");
    let refused = world.operate(Operator::finish_upgrade).expect("nothing to finish");
    assert_eq!(refused, (1, 1));
    world.operate(|operator| operator.forget("n9")).expect("forgotten");
    world.etcd.ctl(&["del", "/test/manifest"]);
    assert_eq!(world.status().unreadable, []);

    assert!(!world.operate(Operator::clear_seat).expect("an answer"), "n1 leads");
    world.etcd.ctl(&["put", "/test/leader", "garbage"]);
    first.follows();
    let status = world.status();
    let [seat] = status.unreadable.as_slice() else { panic!("one: {status:?}") };
    assert!(status.leader.is_none() && seat.remedy.contains("step-down deletes it"), "{seat:?}");
    assert!(world.operate(Operator::clear_seat).expect("an answer"));
    wait_until("a server leads", || [&first, &second].iter().any(|it| !it.handle.is_following()));
    first.stop();
    second.stop();
    let id = world.etcd.ctl(&["get", "--print-value-only", "/test/id"]);
    world.etcd.ctl(&["put", "/test/id", "garbage"]);
    let why = world.operate(Operator::status).expect_err("which store is it?").to_string();
    assert!(why.contains("etcdctl del /test/id) and restore a backup"), "{why}");
    world.etcd.ctl(&["put", "/test/id", id.trim()]);
    world.status();
}
