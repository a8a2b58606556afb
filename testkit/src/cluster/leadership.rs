//! What every shared store has to make true: one server leads, and everything it acknowledged survives it. Each
//! function is a test of a new store; [`leadership_tests`](crate::leadership_tests) makes tests of all of them.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use leasehold_core::{LockKey, Revoke, Target};
use leasehold_engine::{Error, Probe};
use leasehold_store as store;
use leasehold_store::shared::{Operator, Snapshots};

pub use super::lapse::*;
use super::{Node, World, wait_until};
use crate::folder;

/// Makes a test of each function in [`leadership`](crate::cluster::leadership), on the stores that this function
/// returns.
#[macro_export]
macro_rules! leadership_tests {
    ($world:expr) => {
        $crate::leadership_tests! { $world;
            a_follower_takes_over_when_the_leader_stops
            a_leader_that_is_cut_off_answers_nothing_more_and_follows
            a_record_whose_response_is_lost_is_written_once
            a_leader_that_the_store_does_not_confirm_counts_as_none
            an_unsettled_request_is_unknown_after_a_leader_change
            a_node_without_memory_does_not_lead_what_it_does_not_know
            a_store_that_was_rolled_back_has_no_leader
            a_store_that_is_rolled_back_under_a_follower_has_no_leader
            snapshots_keep_the_journal_short
            a_follower_that_missed_deleted_records_reads_the_snapshot
            a_leadership_that_is_given_up_is_taken_at_once
            a_leader_that_steps_down_leaves_the_leadership_to_another
            a_drained_server_does_not_lead_until_it_is_resumed
            no_server_takes_over_while_leader_changes_are_paused
            a_server_that_never_leads_only_follows
            an_unconfirmed_leader_ends_every_wait_and_the_clients_keep_their_order
            a_place_is_kept_over_a_leader_change_for_longer_than_over_a_broken_connection
        }
    };
    ($world:expr; $($name:ident)*) => { $(
        #[test]
        fn $name() {
            let world = $world;
            $crate::cluster::leadership::$name(world());
        }
    )* };
}

/// A follower takes over when the leader stops, with everything that the leader acknowledged.
pub fn a_follower_takes_over_when_the_leader_stops(world: World) {
    let (first, second) = world.pair();
    assert_eq!(second.take("db", "b"), Err(Error::NotLeading));
    let token = first.look("db").expect("an answer").last_token;
    // Wait until the second node has received the record.
    let is_known = || second.handle.now() > first.handle.now() || second.remembers() >= 2;
    wait_until("it is known", is_known);
    let began = Instant::now();
    first.stop();
    second.leads();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(second.holder("db"), Ok(Some("a".into())));
    assert!(!second.take("db", "b").expect("an answer"), "it is held");
    revoke(&second, "db");
    assert!(second.take("db", "b").expect("an answer"));
    assert!(second.look("db").expect("an answer").last_token > token);
    second.stop();
}

fn revoke(node: &Node, lock: &str) {
    let target = Target::Lock(LockKey::new("default", lock));
    node.ask(Revoke { target, reason: "t".into() }).expect("an answer").expect("revoked");
}

/// A leader that does not reach the store answers nothing more. Once it reaches the store again, it follows.
pub fn a_leader_that_is_cut_off_answers_nothing_more_and_follows(world: World) {
    let (first, second) = world.pair();
    first.link.is_cut.store(true, SeqCst);
    assert_eq!(first.holder("db"), Err(Error::StoreSilent), "it cannot know whether that is true");
    second.leads();
    assert!(second.take("other", "b").expect("an answer"));
    first.link.is_cut.store(false, SeqCst);
    wait_until("it knows that another server leads", || match first.holder("other") {
        Err(Error::NotLeading) => true,
        // Before the store answers.
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

/// A record is written once, even if its responses are lost, or earlier attempts do not arrive.
pub fn a_record_whose_response_is_lost_is_written_once(mut world: World) {
    // With such a long tick, nothing else is written during the test.
    world.tick = Duration::from_secs(600);
    let node = world.node("n1");
    node.leads();
    // More often than the store retries immediately.
    node.link.n_unanswered.store(3, SeqCst);
    assert!(node.take("db", "a").expect("an answer in the end"));
    node.link.n_lost.store(3, SeqCst);
    assert!(node.take("other", "a").expect("an answer in the end"));
    assert_eq!(node.holder("db"), Ok(Some("a".into())));
    let n_records = world.n_records();
    let folder = node.stop();
    let node = Node::start(&world, "n1", folder, false).expect("a start");
    node.leads();
    assert_eq!(node.holder("db"), Ok(Some("a".into())));
    assert_eq!(node.holder("other"), Ok(Some("a".into())));
    // The first record of the epoch, and two grants.
    assert_eq!(n_records, 3);
    node.stop();
}

/// The metrics of a leader that the store does not confirm show neither a leader nor a follower.
pub fn a_leader_that_the_store_does_not_confirm_counts_as_none(world: World) {
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

/// A request whose record was still unsettled when another server took over gets the error "unknown".
pub fn an_unsettled_request_is_unknown_after_a_leader_change(world: World) {
    let (first, second) = world.pair();
    let cut = first.link.clone();
    cut.n_lost.store(usize::MAX, SeqCst);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| first.take("other", "a"));
        // The record was sent and then lost.
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

/// A node leads only after it has followed a leader, or if it remembers the journal.
pub fn a_node_without_memory_does_not_lead_what_it_does_not_know(world: World) {
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
    wait_until("it was followed", || fresh.remembers() >= again.remembers().max(3));
    again.stop();
    fresh.leads();
    assert_eq!(fresh.holder("other"), Ok(Some("a".into())));
    fresh.stop();
}

/// A node that remembers later records notices that the store was rolled back, and no node leads from then on.
pub fn a_store_that_was_rolled_back_has_no_leader(world: World) {
    let first = world.node("n1");
    first.leads();
    let roll_back = world.copy();
    assert!(first.take("db", "a").expect("an answer"));
    let folder = first.stop();
    roll_back();
    let Err(store::Error::Refused(why)) = Node::start(&world, "n1", folder, false) else {
        panic!("it is not what it was");
    };
    assert!(why.contains("was rolled back or replaced"), "{why}");
    assert!(world.status().rewound);
    // A node without memory of the later records does not lead either.
    let fresh = Node::start(&world, "n2", crate::folder(), true).expect("a start");
    std::thread::sleep(Duration::from_secs(1));
    assert!(fresh.handle.is_following());
    fresh.stop();
}

/// Nodes that run notice that the store was rolled back, and no node leads from then on.
pub fn a_store_that_is_rolled_back_under_a_follower_has_no_leader(world: World) {
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    let roll_back = world.copy();
    for n in 0..3 {
        assert!(first.take(&format!("lock-{n}"), "a").expect("an answer"));
    }
    wait_until("it was followed", || second.remembers() >= 2);
    // The store is rolled back while no node can reach it.
    first.link.is_cut.store(true, SeqCst);
    second.link.is_cut.store(true, SeqCst);
    roll_back();
    first.link.is_cut.store(false, SeqCst);
    second.link.is_cut.store(false, SeqCst);
    first.follows();
    wait_until("a server noticed", || world.status().rewound);
    std::thread::sleep(Duration::from_secs(3));
    assert!(first.handle.is_following() && second.handle.is_following());
    assert_eq!(first.take("db", "b"), Err(Error::NotLeading));
    assert_eq!(second.take("db", "b"), Err(Error::NotLeading));
    first.stop();
    second.stop();
}

/// Snapshots are taken, records in them are deleted, and a new node starts from a snapshot.
pub fn snapshots_keep_the_journal_short(mut world: World) {
    world.snapshots = Snapshots::every(20);
    let first = world.node("n1");
    first.leads();
    assert!(first.take("kept", "a").expect("an answer"));
    for _ in 0..100 {
        assert!(first.take("db", "a").expect("an answer"));
        revoke(&first, "db");
    }
    // Snapshots are taken in the background, and later writes delete the records in them.
    wait_until("several are taken and the records in them are deleted", || {
        assert!(first.take("db", "a").expect("an answer"));
        revoke(&first, "db");
        let manifest = world.connect().manifest().expect("it answers");
        let manifest = manifest.map(|found| String::from_utf8_lossy(&found.value).into_owned());
        let has_previous = manifest.is_some_and(|text| text.contains("\"previous\":\""));
        has_previous && world.n_records() < 120
    });
    let n_snapshots = world.connect().snapshots().expect("it answers").len();
    assert!((1..=3).contains(&n_snapshots), "{n_snapshots} snapshots");
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

/// A follower that comes back after records were deleted reads the snapshot.
pub fn a_follower_that_missed_deleted_records_reads_the_snapshot(mut world: World) {
    world.snapshots = Snapshots::every(10);
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("kept", "a").expect("an answer"));
    second.link.is_cut.store(true, SeqCst);
    let n_taken = AtomicUsize::new(0);
    wait_until("the first record is deleted", || {
        let n = n_taken.fetch_add(1, SeqCst);
        assert!(first.take(&format!("lock-{n}"), "a").expect("an answer"));
        n > 60 && world.connect().first_record().expect("it answers") > Some(1)
    });
    second.link.is_cut.store(false, SeqCst);
    let seq = first.remembers();
    wait_until("it has caught up", || second.remembers() >= seq.max(60));
    first.stop();
    second.leads();
    assert_eq!(second.holder("lock-60"), Ok(Some("a".into())));
    assert_eq!(second.holder("kept"), Ok(Some("a".into())));
    second.stop();
}

/// Another node takes over soon after a leader stops gracefully.
pub fn a_leadership_that_is_given_up_is_taken_at_once(world: World) {
    let mut nodes: Vec<_> = ["n1", "n2", "n3"].map(|name| Some(world.node(name))).into();
    for round in 0..2 {
        let leads =
            || nodes.iter().position(|n| n.as_ref().is_some_and(|n| !n.handle.is_following()));
        wait_until("one leads", || leads().is_some());
        let leader = leads().expect("one leads");
        let node = nodes[leader].take().expect("it leads");
        assert!(node.take(&format!("lock-{round}"), "a").expect("an answer"));
        let seq = 2 + round;
        wait_until("it was followed", || nodes.iter().flatten().all(|n| n.remembers() >= seq));
        let began = Instant::now();
        node.stop();
        wait_until("another leads", || nodes.iter().flatten().any(|n| !n.handle.is_following()));
        // It takes 200 ms on an idle machine.
        let took = began.elapsed();
        assert!(took < Duration::from_secs(20), "{took:?}");
    }
    nodes.into_iter().flatten().for_each(|node| drop(node.stop()));
}

/// An operator makes a leader step down.
pub fn a_leader_that_steps_down_leaves_the_leadership_to_another(world: World) {
    let (first, second) = world.pair();
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
    let refused = world.operate(Operator::step_down).expect_err("it has no leader");
    assert!(refused.to_string().contains("the cluster has no leader"), "{refused}");
}

/// An operator drains a server and resumes it.
pub fn a_drained_server_does_not_lead_until_it_is_resumed(world: World) {
    let (first, second) = world.pair();
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
    assert!(leads.to_string().contains("n1 is the leader"), "{leads}");
    first.stop();
}

/// An operator pauses leader changes.
pub fn no_server_takes_over_while_leader_changes_are_paused(world: World) {
    let (first, second) = world.pair();
    world.operate(Operator::pause).expect("paused");
    assert!(first.take("other", "a").expect("an answer"), "the leader goes on");
    first.stop();
    std::thread::sleep(Duration::from_secs(1));
    assert!(second.handle.is_following() && world.status().paused);
    assert!(world.operate(|operator| operator.resume(None)).expect("resumed"));
    second.leads();
    assert_eq!(second.holder("other"), Ok(Some("a".into())));
    second.stop();
}

/// A server with `--never-lead` follows, even if no server leads.
pub fn a_server_that_never_leads_only_follows(mut world: World) {
    world.never_leads = "n2";
    let (first, second) = world.pair();
    let folder = first.stop();
    std::thread::sleep(Duration::from_secs(1));
    assert!(second.handle.is_following() && world.leader().is_none());
    let first = Node::start(&world, "n1", folder, false).expect("a start");
    first.leads();
    first.stop();
    second.stop();
}
