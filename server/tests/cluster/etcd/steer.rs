//! Tests of operator commands for the cluster, and of which versions can take part.

use std::time::Duration;

use leasehold_store::Error;
use leasehold_store::etcd::Operator;
use leasehold_store::status::Status;
use leasehold_testkit::folder;

use crate::etcd::world::{Node, PREFIX, World, wait_until};

impl World {
    fn operate<T>(&self, work: impl FnOnce(&Operator) -> Result<T, Error>) -> Result<T, Error> {
        work(&Operator::new(self.remote(), PREFIX))
    }

    fn status(&self) -> Status {
        self.operate(Operator::status).expect("a status")
    }

    fn leader(&self) -> Option<String> {
        self.status().leader.map(|leader| leader.node)
    }
}

/// Starts two nodes, of which the first leads, and acquires a lock.
fn pair(world: &World) -> (Node, Node) {
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("db", "a").expect("an answer"));
    (first, second)
}

#[test]
fn who_steps_down_leaves_the_seat_to_another() {
    let world = World::new();
    let (first, second) = pair(&world);
    assert_eq!(world.leader().as_deref(), Some("n1"));
    assert_eq!(world.operate(Operator::step_down).expect("done"), "n1");
    second.leads();
    assert!(first.handle.is_following());
    assert!(!first.handle.health().pulse().is_drained(), "it takes connections");
    assert_eq!(second.holder("db"), Ok(Some("a".into())));
    assert_eq!(world.leader().as_deref(), Some("n2"));
    assert_eq!(world.status().drained, [("n1".to_owned(), "step-down".to_owned())]);
    first.stop();
    second.stop();
    let nobody = world.operate(Operator::step_down).expect_err("nobody leads");
    assert!(nobody.to_string().contains("the cluster has no leader"), "{nobody}");
}

#[test]
fn who_is_drained_leads_no_more_until_it_is_resumed() {
    let world = World::new();
    let (first, second) = pair(&world);
    world.operate(|operator| operator.drain("n1")).expect("drained");
    second.leads();
    wait_until("it is known", || first.handle.health().pulse().is_drained());
    second.stop();
    std::thread::sleep(Duration::from_secs(1));
    assert!(first.handle.is_following());
    assert!(world.operate(|operator| operator.resume(Some("n1"))).expect("resumed"));
    first.leads();
    assert_eq!(first.holder("db"), Ok(Some("a".into())));
    assert!(!world.operate(|operator| operator.resume(Some("n1"))).expect("an answer"));
    let resume = |operator: &Operator, node: &str| operator.resume(Some(node)).map(drop);
    for wrong in [Operator::drain, Operator::forget, resume] {
        let unknown = world.operate(|operator| wrong(operator, "n9")).expect_err("unknown");
        assert!(unknown.to_string().contains("no server is named \"n9\""), "{unknown}");
    }
    let leads = world.operate(|operator| operator.forget("n1")).expect_err("it leads");
    assert!(leads.to_string().contains("n1 leads"), "{leads}");
    first.stop();
}

#[test]
fn no_server_leads_a_paused_cluster() {
    let world = World::new();
    let (first, second) = pair(&world);
    world.operate(Operator::pause).expect("paused");
    assert!(first.take("other", "a").expect("an answer"), "who leads goes on");
    first.stop();
    std::thread::sleep(Duration::from_secs(1));
    assert!(second.handle.is_following() && world.status().paused);
    assert!(world.operate(|operator| operator.resume(None)).expect("resumed"));
    second.leads();
    assert_eq!(second.holder("other"), Ok(Some("a".into())));
    second.stop();
}

#[test]
fn who_never_leads_only_follows() {
    let world = World { never_leads: "n2", ..World::new() };
    let (first, second) = pair(&world);
    let folder = first.stop();
    std::thread::sleep(Duration::from_secs(1));
    assert!(second.handle.is_following() && world.leader().is_none());
    let first = Node::start(&world, "n1", folder, false).expect("a start");
    first.leads();
    first.stop();
    second.stop();
}

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
    let (first, second) = pair(&world);
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
    let refused = world.operate(Operator::finish_upgrade).expect_err("nobody leads");
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
    let (first, second) = pair(&world);
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
