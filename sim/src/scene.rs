//! Scenes: rare situations that random runs hardly ever reach. Each has a deliberate bug that must make it fail. They
//! use an etcd that responds immediately, and the real threads of the real store.

mod stage;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use leasehold_base::clock::{Clock, FakeClock, LockClock, Moment};
use leasehold_core::{Acquire, Span, Timestamp};
use leasehold_engine::{self as engine, Take, WaitFor};
use leasehold_etcd::{Op, Txn};
use leasehold_store::{Draft, Error, News, Seat, shared};

use crate::etcd::{Client, Request};
use crate::folder::Folder;
use stage::{
    Actor, Failing, Gate, OFTEN, PREFIX, Passing, Slow, Stage, acquire, append, is_fenced, tick,
    wait_for, wait_until,
};

/// A scene. The error states what went wrong.
pub type Scene = fn() -> Result<(), String>;

/// Checks that an outdated leader sends no response from memory: while it waits for etcd, another server takes over and
/// grants a lock, and only then a client asks the first server who holds the lock.
pub fn asked_after_another_leads() -> Result<(), String> {
    let stage = Stage::new();
    let (first, second, slow) = stage.pair();
    slow.is_slow.store(true, SeqCst);
    let early = first.look("db");
    let began = Instant::now();
    while !slow.has_confirmed.load(SeqCst) && began.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = stage.local.lock().0.revision();
    stage.revoke();
    second.leads();
    let granted =
        wait_for(second.take("db", Span::from_secs(3600))).expect("an answer").expect("a grant");
    drop(granted.deliver());
    let after = stage.local.lock().0.revision();
    stage.local.lags(after - before);
    let late = first.look("db");
    slow.is_slow.store(false, SeqCst);
    // The first response was true when etcd confirmed it, whatever it is.
    let _ = Actor::seen(early);
    match Actor::seen(late) {
        Err(engine::Error::NotLeading) => Ok(()),
        other => Err(format!("it is held, but the answer is {other:?}")),
    }
}

/// Checks that a leader notices a rollback of etcd to before its leadership, even if a copy of its machine has since
/// taken over at the same revision.
pub fn put_back_under_a_zombie() -> Result<(), String> {
    let stage = Stage::new();
    let mut first = stage.player("n1");
    let mut second = stage.player_in(first.folder.copied(), "n1");
    let before = stage.local.lock().0.clone();
    let mut zombie = first.lead();
    let at = stage.local.lock().0.revision();
    stage.local.lock().0 = before;
    let mut leader = second.lead();
    assert_eq!(stage.local.lock().0.revision(), at, "revisions repeat");
    is_fenced(&append(&mut *zombie), "an append of a zombie")?;
    append(&mut *leader).map_err(|error| format!("the leader cannot go on: {error}"))
}

/// Checks that a leader notices a rollback of etcd to an earlier time during its leadership.
pub fn put_back_under_a_leader() -> Result<(), String> {
    let stage = Stage::new();
    let mut node = stage.player("n1");
    let mut store = node.lead();
    append(&mut *store).expect("it leads");
    let before = stage.local.lock().0.clone();
    append(&mut *store).expect("it leads");
    let permit = store.reserve().expect("it leads");
    store.confirm(permit).map_err(|error| format!("nothing has happened yet: {error}"))?;
    stage.local.lock().0 = before;
    let permit = store.reserve().expect("nothing is asked yet");
    is_fenced(&store.confirm(permit), "an answer with what was put back")
}

/// Checks that a node that has read a restored store notices a rollback of etcd to before the restore.
pub fn put_back_to_before_a_restore() -> Result<(), String> {
    let stage = Stage::new();
    let mut node = stage.player("n1");
    let mut store = node.lead();
    append(&mut *store).expect("it leads");
    store.finish().expect("it leads no more");
    drop(node.seat.follow(Duration::ZERO).expect("its own records"));
    let backend = stage.backend();
    let backup = shared::check(&*backend, &FakeClock::default()).expect("a whole store");
    let before = stage.local.lock().0.clone();
    shared::restore(&*backend, backup.whole).expect("no server leads");
    drop(node.seat.follow(Duration::ZERO).expect("what was restored"));
    stage.local.lock().0 = before;
    match node.seat.follow(Duration::ZERO) {
        Err(Error::Refused(why)) if why.contains("was rolled back or replaced") => Ok(()),
        Err(error) => Err(format!("it was put back, and that is said to be: {error}")),
        Ok(_) => Err("what was there before a restore is followed".into()),
    }
}

/// Checks that a node that takes over without having read the last record assumes that no time has passed since that
/// record.
pub fn a_takeover_with_an_unread_record() -> Result<(), String> {
    let stage = Stage::new();
    let (mut first, mut second) = (stage.player("n1"), stage.player("n2"));
    let mut store = first.lead();
    append(&mut *store).expect("it leads");
    drop(second.seat.follow(Duration::ZERO).expect("a record"));
    second.clock.advance(Span::from_secs(10));
    let lock_time = Timestamp::ZERO + Span::from_secs(100);
    let draft = Draft { moment: Moment { lock_time, ..Moment::default() }, ..tick() };
    let permit = store.reserve().expect("it leads");
    store.append(permit, draft).expect("it leads");
    stage.revoke();
    let (_, loaded) = second.seat.take().expect("an answer").expect("the seat is vacant");
    let now = LockClock::resume(second.clock.clone(), loaded.last).now();
    if now == lock_time { Ok(()) } else { Err(format!("it is {now:?}, and was {lock_time:?}")) }
}

/// Checks that the events of records read during a failed takeover are reported, and that the records are not read
/// again.
pub fn a_takeover_that_fails_halfway() -> Result<(), String> {
    let stage = Stage::new();
    let wire = Failing::new(&stage.local);
    let mut first = stage.player("n1");
    let mut second = stage.player_over(Arc::new(Client(wire.clone())), Folder::new(), "n2");
    let mut store = first.lead();
    // More records than one read returns.
    (0..40).for_each(|_| append(&mut *store).expect("it leads"));
    stage.revoke();
    // The lease, the leader key, and the first records.
    wire.n_left.store(3, SeqCst);
    let taken = second.seat.take();
    wire.n_left.store(usize::MAX, SeqCst);
    if !matches!(taken, Ok(None)) {
        return Err("it leads without having read everything".into());
    }
    let mut seqs = Vec::new();
    for _ in 0..2 {
        match second.seat.follow(Duration::ZERO) {
            Ok(News::Records(told)) => seqs.extend(told.iter().map(|told| told.seq)),
            Ok(_) => return Err(format!("it is told of {seqs:?} only")),
            Err(error) => return Err(error.to_string()),
        }
    }
    let expected: Vec<u64> = (1..=40).collect();
    if seqs == expected { Ok(()) } else { Err(format!("it is told of {seqs:?}")) }
}

/// Checks that a node does not lead after the store has changed to a newer format.
pub fn a_newer_format_before_a_takeover() -> Result<(), String> {
    let stage = Stage::new();
    let mut node = stage.player("n1");
    let id = format!("{PREFIX}id");
    let value = stage.value("id").expect("an id");
    let newer = String::from_utf8_lossy(&value).replace("\"format\":1", "\"format\":99");
    let put = Txn::default().then(Op::Put(id.into(), newer.into(), 0)).request();
    stage.cluster().txn(put).expect("an answer");
    match node.seat.take() {
        Err(Error::Refused(why)) if why.contains("newer version") => Ok(()),
        Ok(Some(_)) => Err("it leads a store that it cannot read".into()),
        Ok(None) => Err("it does not say why it does not lead".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks that a lease is not released when its undelivered grant is dropped in a later epoch, in which its client
/// might have received it by a repeated request.
pub fn a_departure_of_an_earlier_epoch() -> Result<(), String> {
    let stage = Stage::new();
    let node = stage.actor("n1");
    node.leads();
    let call = node.take("db", Span::from_secs(3600));
    let untold = wait_for(call).expect("an answer").expect("a grant");
    stage.revoke();
    let told = node.is_held("db");
    if told != Err(engine::Error::NotLeading) {
        return Err(format!("it lost the seat, and says {told:?}"));
    }
    wait_until(|| node.is_held("db") == Ok(true));
    drop(untold);
    // The release would be processed before the next response.
    match node.is_held("db") {
        Ok(true) => Ok(()),
        other => {
            Err(format!("a lease that another epoch might have reported was released: {other:?}"))
        }
    }
}

/// Checks that a client gets an unknown outcome if etcd's response to its grant is lost and then the leadership.
pub fn a_lost_batch() -> Result<(), String> {
    let stage = Stage::new();
    let slow = Slow::new(&stage.local);
    let node = stage.actor_over(Arc::new(Client(slow.clone())), "n1");
    node.leads();
    slow.is_slow.store(true, SeqCst);
    let seq = || stage.value("j/0000000000000002").is_some();
    let call = node.take("db", Span::from_secs(3600));
    wait_until(seq);
    stage.revoke();
    slow.is_lossy.store(true, SeqCst);
    slow.is_slow.store(false, SeqCst);
    wait_until(|| slow.n_lost.load(SeqCst) > 0);
    slow.is_lossy.store(false, SeqCst);
    match wait_for(call) {
        Err(engine::Error::Unknown) => Ok(()),
        other => Err(format!("it is durable, and told as {:?}", other.err())),
    }
}

/// Checks that a record that arrives late counts as received when the response arrives, not when the request was sent.
pub fn a_record_that_took_long() -> Result<(), String> {
    let stage = Stage::new();
    let mut first = stage.player("n1");
    let (folder, clock) = (Folder::new(), Arc::<FakeClock>::default());
    let wire = Passing { local: stage.local.clone(), clock: clock.clone() };
    let mut second = stage.seat_over(Arc::new(Client(wire)), "n2", &folder, clock.clone());
    drop(second.follow(Duration::ZERO).expect("a state"));
    let mut store = first.lead();
    append(&mut *store).expect("it leads");
    drop(second.follow(Duration::ZERO).expect("a record"));
    let received = clock.boottime();
    stage.revoke();
    let (_, loaded) = second.take().expect("an answer").expect("the seat is vacant");
    let told = loaded.last.unwrap_or_default().boottime;
    if told == received { Ok(()) } else { Err(format!("received at {received}, not {told}")) }
}

/// Checks that a lease is not reported as granted if its TTL ends before the grant is known to be durable.
pub fn a_lease_that_runs_out_unsettled() -> Result<(), String> {
    let stage = Stage::new();
    let node = stage.actor("n1");
    node.leads();
    stage.local.cut(true);
    let mut call = pin!(node.take("db", Span::from_secs(5)));
    let mut context = Context::from_waker(Waker::noop());
    let mut is_early = false;
    wait_until(|| {
        is_early = call.as_mut().poll(&mut context).is_ready();
        is_early || stage.local.n_writes_lost() > 0
    });
    if is_early {
        return Err("it is told before it is durable".into());
    }
    node.clock.advance(Span::from_secs(6));
    stage.local.cut(false);
    match wait_for(call) {
        Err(engine::Error::Unknown) => Ok(()),
        other => Err(format!(
            "it is over, and told as {}",
            if other.is_ok() { "granted" } else { "refused" }
        )),
    }
}

/// Checks that a server stops although etcd does not respond, and reports an unknown outcome to its clients.
pub fn a_stop_without_etcd() -> Result<(), String> {
    let stage = Stage::new();
    let node = stage.actor("n1");
    node.leads();
    stage.local.cut(true);
    let call = node.take("db", Span::from_secs(3600));
    let mut stopped = pin!(node.handle.stopped());
    let mut context = Context::from_waker(Waker::noop());
    let mut has_ended = false;
    node.handle.stop();
    // The record might not have been sent yet when the clock first advances. Ten seconds are enough on a busy machine.
    for _ in 0..500 {
        node.clock.advance(Span::from_secs(6));
        std::thread::sleep(Duration::from_millis(20));
        has_ended |= stopped.as_mut().poll(&mut context).is_ready();
        if has_ended {
            break;
        }
    }
    stage.local.cut(false);
    match wait_for(call) {
        Err(engine::Error::Unknown) if has_ended => Ok(()),
        _ if !has_ended => Err("it waits for etcd".into()),
        other => Err(format!("the outcome is unknown, but the answer is {:?}", other.err())),
    }
}

/// Checks the receipt time of a request whose response comes from a server that has since become leader and changed its
/// clock.
pub fn an_answer_by_another_clock() -> Result<(), String> {
    let clock = Arc::new(FakeClock::default());
    let lock_clock = LockClock::resume(clock.clone(), None);
    clock.advance(Span::from_secs(10));
    let received_at = lock_clock.instant();
    clock.advance(Span::from_secs(5));
    let lock_time = Timestamp::ZERO + Span::from_secs(100);
    lock_clock.go_on(Moment { lock_time, ..lock_clock.moment() });
    let told = lock_clock.at(received_at);
    let was = Timestamp::ZERO + Span::from_secs(95);
    if told == was { Ok(()) } else { Err(format!("it was received at {was:?}, not {told:?}")) }
}

/// Checks that a grace period that was reported as over stays over for the next leader. The end of a grace period is
/// not recorded, so for the next leader no time has passed since the last record.
pub fn a_grace_period_that_was_told_as_over() -> Result<(), String> {
    let stage = Stage::new();
    let (first, second, slow) = stage.pair();
    let wanted =
        Acquire { ttl: Some(Span::from_secs(5)), grace: Span::from_secs(5), ..acquire("db", "a") };
    let granted = wait_for(first.handle.ask_unchecked(Take(wanted)));
    drop(granted.expect("an answer").expect("a grant").deliver());
    // The expiry is recorded, and so is the time shortly before the end of the grace period.
    for span in [5_000, 4_900, 200] {
        first.clock.advance(Span::from_millis(span));
        assert_eq!(first.is_held("db"), Ok(false));
    }
    let lapse = wait_for(first.look("db")).expect("an answer").expect("a lock").lapse;
    let grace_until = lapse.expect("it ran out").grace_until;
    assert!(grace_until <= first.handle.now(), "{grace_until:?} is over");
    stage.hands_over(&slow, &second);
    let given = second.gives("db", "b");
    slow.is_slow.store(false, SeqCst);
    given.map_err(|why| format!("its grace period was over, and now {why}"))
}

/// Checks that a waiter of a leader that lost its leadership, and that does not return, is not granted the lock by the
/// next leader.
pub fn a_waiter_of_an_earlier_epoch() -> Result<(), String> {
    let stage = Stage::new();
    let (first, second, slow) = stage.pair();
    let ttl = Span::from_secs(5);
    let granted = wait_for(first.take("db", ttl)).expect("an answer").expect("a grant");
    drop(granted.deliver());
    let wait = Span::from_secs(600);
    let waits = first.handle.ask_unchecked(WaitFor { acquire: acquire("db", "b"), wait });
    wait_until(|| {
        wait_for(first.look("db")).is_ok_and(|found| found.expect("a lock").n_waiting == 1)
    });
    stage.hands_over(&slow, &second);
    second.clock.advance(ttl);
    let given = second.gives("db", "c");
    slow.is_slow.store(false, SeqCst);
    drop(waits);
    given.map_err(|why| format!("no client waits, but {why}"))
}

/// Checks that a leader does not delete a current snapshot: it is delayed before it deletes old snapshots, and in the
/// meantime another server takes over and takes a new one.
pub fn a_snapshot_while_another_cleans_up() -> Result<(), String> {
    let mut stage = Stage::new();
    stage.snapshots = OFTEN;
    let is_list = |request: &Request| match request {
        Request::Range(range) => range.keys_only && range.key.ends_with(b"/snap/"),
        _ => false,
    };
    let gate = Gate::new(&stage.local, is_list);
    let mut first = stage.player_over(Arc::new(Client(gate.clone())), Folder::new(), "n1");
    let mut second = stage.player("n2");
    let mut zombie = first.lead();
    stage.takes_snapshot(&mut *zombie);
    wait_until(|| gate.has_come.load(SeqCst));
    drop(second.seat.follow(Duration::ZERO).expect("records"));
    stage.revoke();
    let mut leader = second.lead();
    stage.takes_snapshot(&mut *leader);
    gate.is_open.store(true, SeqCst);
    // Dropping the store ends its threads.
    drop(zombie);
    let manifest = stage.value("manifest").expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("what it says");
    let name = manifest["name"].as_str().expect("a name");
    let piece = stage.value(&format!("snap/{name}/{:08x}", 0));
    piece.map(drop).ok_or_else(|| format!("snapshot {name} counts, and was deleted"))
}

/// Checks that a node that has read less can take over after a leader whose snapshot contains everything up to the last
/// record.
pub fn a_takeover_by_one_that_is_behind() -> Result<(), String> {
    let mut stage = Stage::new();
    stage.snapshots = OFTEN;
    let (mut first, mut second) = (stage.player("n1"), stage.player("n2"));
    let mut store = first.lead();
    stage.takes_snapshot(&mut *store);
    // Dropping the store ends its threads.
    drop(store);
    stage.revoke();
    let taken = second.seat.take();
    if stage.value("rewound").is_some() {
        return Err("it takes the store for put back".into());
    }
    match taken {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("it does not lead, and says nothing".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks that a backup is not restored over a store that has a leader.
pub fn a_restore_under_a_leader() -> Result<(), String> {
    let stage = Stage::new();
    let mut node = stage.player("n1");
    let mut store = node.lead();
    append(&mut *store).expect("it leads");
    let backend = stage.backend();
    let backup = shared::check(&*backend, &FakeClock::default()).expect("a whole store");
    append(&mut *store).expect("it leads");
    match shared::restore(&*backend, backup.whole) {
        Err(Error::Refused(why)) if why.contains("n1 leads") => {}
        other => return Err(format!("n1 leads, and a restore came to {other:?}")),
    }
    append(&mut *store).map_err(|error| format!("the leader cannot go on: {error}"))
}
