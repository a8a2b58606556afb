//! Tests of what each node records: the history of all events, whether it leads or follows, and an audit file of the
//! writes that it made as the leader.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use leasehold_engine::Error;
use leasehold_store::history::{History, Page, Query};
use leasehold_store::shared::Snapshots;

use crate::etcd::world::{Node, World, wait_until};

/// What a node has recorded.
trait Recorded {
    fn history(&self) -> Page;
    fn locks(&self) -> Vec<String>;
    fn audit(&self, word: &str) -> usize;
}

impl Recorded for Node {
    fn history(&self) -> Page {
        History::of(self.folder.path()).find(&Query::default(), None, 1000).expect("a page")
    }

    /// Returns the locks in the history, oldest first.
    fn locks(&self) -> Vec<String> {
        let mut locks: Vec<_> =
            self.history().events.iter().map(|event| event.fact.lock.name.to_string()).collect();
        locks.reverse();
        locks
    }

    fn audit(&self, word: &str) -> usize {
        let text = std::fs::read_to_string(self.folder.path().join("audit")).unwrap_or_default();
        text.lines().filter(|line| line.contains(word)).count()
    }
}

#[test]
fn every_node_keeps_the_same_history_over_a_change_of_leaders() {
    let world = World::new();
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("a", "x").expect("an answer"));
    assert!(first.take("b", "x").expect("an answer"));
    wait_until("both have it", || [&first, &second].iter().all(|node| node.locks() == ["a", "b"]));
    let folder = first.stop();
    second.leads();
    assert!(second.take("c", "x").expect("an answer"));
    let first = Node::start(&world, "n1", folder, false).expect("a start");
    wait_until("both have it", || {
        [&first, &second].iter().all(|node| node.locks() == ["a", "b", "c"])
    });
    assert!(first.history().gaps.is_empty(), "it read what it missed");
    let ids = |node: &Node| node.history().events.iter().map(|event| event.id).collect::<Vec<_>>();
    assert_eq!(ids(&first), ids(&second));
    // Each node's audit file contains only what happened while that node was the leader.
    assert_eq!([first.audit("\"c\""), second.audit("\"c\"")], [0, 1]);
    assert_eq!([first.audit("\"a\""), second.audit("\"a\"")], [1, 0]);
    first.stop();
    second.stop();
}

#[test]
fn what_a_node_did_not_see_is_a_gap_and_said_to_be_one() {
    let mut world = World::new();
    world.snapshots = Snapshots::every(10);
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("seen", "x").expect("an answer"));
    wait_until("it is known", || second.locks() == ["seen"]);
    let folder = second.stop();
    let first_record = || world.etcd.ctl(&["get", "/test/j/0000000000000001"]);
    for n in 0..400 {
        assert!(first.take(&format!("lock-{n}"), "x").expect("an answer"));
        if n > 60 && first_record().is_empty() {
            break;
        }
    }
    let second = Node::start(&world, "n2", folder, false).expect("a start");
    assert!(first.take("last", "x").expect("an answer"));
    wait_until("it goes on", || second.locks().last().is_some_and(|lock| lock == "last"));
    let page = second.history();
    let [(from, to)] = page.gaps[..] else { panic!("one gap: {:?}", page.gaps) };
    assert!(from > 2 && to > from, "{from} to {to}");
    assert!(page.events.iter().all(|event| !(from..=to).contains(&event.id.seq)));
    assert!(first.history().gaps.is_empty(), "who led has it all");
    assert_eq!(first.locks().first().map(String::as_str), Some("seen"));
    first.stop();
    second.stop();
}

#[test]
fn what_was_durable_and_could_not_be_told_is_in_the_audit_of_who_wrote_it() {
    // With such a long tick, nothing else is written during the test.
    let mut world = World::new();
    world.tick = Duration::from_secs(600);
    let first = world.node("n1");
    first.leads();
    let second = world.node("n2");
    assert!(first.take("told", "x").expect("an answer"));
    wait_until("it was followed", || second.locks() == ["told"]);
    let cut = first.link.clone();
    std::thread::scope(|scope| {
        cut.n_unanswered.store(usize::MAX, SeqCst);
        let asking = scope.spawn(|| first.take("late", "x"));
        wait_until("it is durable", || second.locks() == ["told", "late"]);
        cut.is_cut.store(true, SeqCst);
        second.leads();
        cut.n_unanswered.store(0, SeqCst);
        assert_eq!(first.audit("\"late\""), 0, "no record of it");
        cut.is_cut.store(false, SeqCst);
        let told = asking.join().expect("no panic");
        assert!(matches!(told, Err(Error::Unknown) | Ok(_)), "{told:?}");
    });
    first.follows();
    wait_until("it is told", || first.audit("\"late\"") == 1);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!([first.audit("\"late\""), second.audit("\"late\"")], [1, 0], "once, and there");
    first.stop();
    second.stop();
}
