//! Tests of what happens to waiting clients when the store does not confirm their leader.

use leasehold_core::{Acquire, Dialect, LockKey, Owner, Phase, Revoke, Secret, Span, Target};
use leasehold_engine::{Error, ReadLock, WaitFor, Waited};
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::{Node, World, wait_until};

/// Maximum tries. On a busy machine, the leader can lose leadership while the store is silent, or the responses can be
/// late. Neither proves a bug, so the test tries again.
const TRIES_MAX: usize = 20;
/// Maximum time until waiters get their error: the leader lease plus one second.
const TOLD_WITHIN: Duration = Duration::from_secs(3);

/// Returns an acquire that waits for a minute. Its request id makes it repeatable.
fn wait(lock: &str, owner: &str) -> WaitFor {
    let acquire = Acquire {
        ttl: Some(Span::from_secs(60)),
        request_id: Some(format!("{owner}-1").as_str().into()),
        ..Acquire::new(
            LockKey::new("default", lock),
            Owner::new("anonymous", owner),
            Dialect(0),
            Secret([2; 16]),
        )
    };
    WaitFor { acquire, wait: Span::from_secs(60) }
}

/// Sends the acquire and waits. Returns whether the lock was granted.
fn waits(node: &Node, lock: &str, owner: &str) -> Result<bool, Error> {
    let waited = node.ask(wait(lock, owner))?.expect("no refusal");
    Ok(match waited {
        Waited::Granted(granted) => {
            granted.deliver();
            true
        }
        Waited::Over(_) => false,
    })
}

/// Starts a waiter in a separate thread. Returns once `n` clients wait.
fn waiting<'s>(
    scope: &'s Scope<'s, '_>,
    node: &'s Node,
    (lock, owner): (&'s str, &'s str),
    n: usize,
) -> ScopedJoinHandle<'s, Result<bool, Error>> {
    let asking = scope.spawn(move || waits(node, lock, owner));
    wait_until("it waits", || node.look(lock).is_ok_and(|view| view.n_waiting == n));
    asking
}

/// Returns for each waiter whether it is parked, which means without a connection.
fn parked(node: &Node, lock: &str) -> Vec<bool> {
    let read = ReadLock { key: LockKey::new("default", lock), n_queue_max: 10 };
    let view = node.ask(read).expect("an answer").expect("a lock");
    view.queue.iter().map(|waiter| waiter.phase == Phase::Parked).collect()
}

fn revoke(node: &Node, lock: &str) {
    let target = Target::Lock(LockKey::new("default", lock));
    node.ask(Revoke { target, reason: "t".into() }).expect("an answer").expect("revoked");
}

/// An unconfirmed leader ends every wait, and the clients keep their order.
pub fn an_unconfirmed_leader_ends_every_wait_and_the_clients_keep_their_order(world: World) {
    let first = world.node("n1");
    let locks: Vec<_> = (0..TRIES_MAX).map(|n| format!("db-{n}")).collect();
    let lock = locks.iter().find(|lock| kept_while_silent(&first, lock));
    let lock = lock.expect("it kept the seat, and the waiters were told in time");
    assert_eq!(parked(&first, lock), [true, true, true]);
    std::thread::scope(|scope| {
        // `b` returns before `a`, but stays behind it in the queue.
        let b = scope.spawn(|| waits(&first, lock, "b"));
        wait_until("it is back", || parked(&first, lock) == [true, false, true]);
        let a = scope.spawn(|| waits(&first, lock, "a"));
        wait_until("it is back", || parked(&first, lock) == [false, false, true]);
        revoke(&first, lock);
        assert_eq!(a.join().expect("no panic"), Ok(true));
        assert!(!b.is_finished());
        revoke(&first, lock);
        assert_eq!(b.join().expect("no panic"), Ok(true));
        // `gone` has not returned, and does not delay the others.
        let next = scope.spawn(|| waits(&first, lock, "next"));
        wait_until("it waits", || parked(&first, lock) == [true, false]);
        revoke(&first, lock);
        assert_eq!(next.join().expect("no panic"), Ok(true));
    });
    first.stop();
}

/// Returns the metrics line with the node's last epoch as a leader.
fn epoch(node: &Node) -> Option<String> {
    let text = node.metrics.render();
    text.lines().find(|line| line.starts_with("leasehold_cluster_epoch")).map(str::to_owned)
}

/// Makes three clients wait for a lock, then silences the store until they get their errors. Returns whether the node
/// kept leadership and answered in time.
fn kept_while_silent(node: &Node, lock: &str) -> bool {
    node.leads();
    if node.take(lock, "holder") != Ok(true) {
        return false;
    }
    std::thread::scope(|scope| {
        let waiters = [(lock, "a"), (lock, "b"), (lock, "gone")];
        let all = [0, 1, 2].map(|n| waiting(scope, node, waiters[n], n + 1));
        let before = epoch(node);
        node.link.is_mute.store(true, SeqCst);
        let began = Instant::now();
        for told in all {
            // The error comes long before the wait would have timed out.
            assert_eq!(told.join().expect("no panic"), Err(Error::Unknown), "it can be repeated");
        }
        let is_in_time = began.elapsed() <= TOLD_WITHIN;
        node.link.is_mute.store(false, SeqCst);
        wait_until("the store answers", || node.look(lock).is_ok());
        is_in_time && epoch(node) == before
    })
}

/// A waiter keeps its place over a leader change for longer than over a broken connection.
pub fn a_place_is_kept_over_a_leader_change_for_longer_than_over_a_broken_connection(world: World) {
    let (first, second) = (world.node("n1"), world.node("n2"));
    wait_until("one leads", || [&first, &second].iter().any(|node| !node.handle.is_following()));
    let (leads, follows) =
        if first.handle.is_following() { (second, first) } else { (first, second) };
    assert!(leads.take("db", "holder").expect("an answer"));
    std::thread::scope(|scope| {
        let told = waiting(scope, &leads, ("db", "a"), 1);
        leads.link.is_cut.store(true, SeqCst);
        assert_eq!(told.join().expect("no panic"), Err(Error::Unknown));
    });
    follows.leads();
    let read = ReadLock { key: LockKey::new("default", "db"), n_queue_max: 10 };
    let view = follows.ask(read).expect("an answer").expect("a lock");
    let left = view.queue[0].deadline.expect("it ends").since(follows.handle.now());
    assert!(left > Span::from_secs(30), "{left:?}");
    leads.link.is_cut.store(false, SeqCst);
    leads.stop();
    follows.stop();
}
