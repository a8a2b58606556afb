//! Checks that the simulated etcd responds like a real one: against its documented behavior, and against a real etcd.

mod differential;

use leasehold_etcd::{
    Error, Kind, Op, RangeRequest, RangeResponse, Request as OpRequest, Txn, TxnResponse, When,
};
use leasehold_store::etcd::Cluster;
use sim::etcd::{Client, Etcd, Local, Request, TTL_MIN};
use sim::time::{MS, SECOND, Time};

fn etcd() -> (Client<Local>, Local) {
    let local = Local::default();
    (Client(local.clone()), local)
}

fn put(key: &str, value: &str) -> Op {
    Op::Put(key.into(), value.into(), 0)
}

fn txn(client: &Client<Local>, txn: Txn) -> TxnResponse {
    client.txn(txn.request()).expect("an answer")
}

fn all() -> RangeRequest {
    RangeRequest { key: vec![0], range_end: vec![0], ..RangeRequest::default() }
}

fn names(range: &RangeResponse) -> Vec<String> {
    range.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
}

fn kind<T: std::fmt::Debug>(answer: Result<T, Error>) -> Kind {
    answer.expect_err("a refusal").kind
}

#[test]
fn whatever_a_transaction_writes_is_written_in_one_revision() {
    let (client, local) = etcd();
    let first = txn(&client, Txn::default().then(put("a", "1")).then(put("b", "1")));
    assert!(first.succeeded);
    assert_eq!((first.revision(), local.lock().0.revision()), (2, 2));
    txn(&client, Txn::default().then(put("a", "2")));
    let local = local.lock();
    let (a, b) = (local.0.get(b"a").expect("a"), local.0.get(b"b").expect("b"));
    assert_eq!((a.create_revision, a.mod_revision, a.version, &a.value[..]), (2, 3, 2, &b"2"[..]));
    assert_eq!((b.create_revision, b.mod_revision, b.version), (2, 2, 1));
}

#[test]
fn what_changes_nothing_has_no_revision() {
    let (client, local) = etcd();
    txn(&client, Txn::default().then(put("a", "1")));
    let read = txn(&client, Txn::default().then(Op::Get("a".into())));
    assert_eq!((read.revision(), read.found(0).map(|kv| kv.version)), (2, Some(1)));
    let nothing = txn(&client, Txn::default().then(Op::Delete("absent".into())));
    assert_eq!(nothing.revision(), 2);
    let gone = txn(&client, Txn::default().then(Op::DeleteRange("a".into(), "c".into())));
    assert_eq!(gone.revision(), 3);
    assert!(local.lock().0.get(b"a").is_none());
    // A key that is created again is a new key.
    txn(&client, Txn::default().then(put("a", "2")));
    let local = local.lock();
    let a = local.0.get(b"a").expect("a");
    assert_eq!((a.create_revision, a.version), (4, 1));
}

#[test]
fn conditions_decide_which_list_is_done() {
    let (client, _) = etcd();
    txn(&client, Txn::default().then(put("a", "1")));
    for (when, holds) in [
        (When::Absent, false),
        (When::CreatedAt(2), true),
        (When::CreatedAt(3), false),
        (When::PutAt(2), true),
        (When::PutAt(0), false),
        (When::Is(b"1"), true),
        (When::Is(b"2"), false),
    ] {
        let asked = Txn::default().when("a", when).or_else(Op::Get("a".into()));
        let answer = txn(&client, asked);
        assert_eq!(answer.succeeded, holds);
        assert_eq!(answer.found(0).is_some(), !holds);
    }
    for (when, holds) in [
        (When::Absent, true),
        (When::PutAt(0), true),
        (When::CreatedAt(0), true),
        (When::Is(b""), false),
    ] {
        assert_eq!(txn(&client, Txn::default().when("absent", when)).succeeded, holds);
    }
    // All conditions must hold, else the other list is run.
    let both = Txn::default().when("a", When::PutAt(2)).when("absent", When::Is(b"1"));
    assert!(!txn(&client, both.then(put("b", "1"))).succeeded);
    assert_eq!(client.range(all()).expect("an answer").count, 1);
}

#[test]
fn a_key_is_put_once_in_a_transaction() {
    let (client, _) = etcd();
    for twice in [
        Txn::default().then(put("a", "1")).then(put("a", "2")),
        Txn::default().then(put("a", "1")).then(Op::Delete("a".into())),
        Txn::default().then(put("b", "1")).then(Op::DeleteRange("a".into(), "c".into())),
    ] {
        assert_eq!(kind(client.txn(twice.request())), Kind::Unknown);
    }
    assert_eq!(client.range(all()).expect("an answer").count, 0);
}

#[test]
fn ranges_end_before_their_end_and_say_how_many_there_are() {
    let (client, _) = etcd();
    let keys = ["a", "a/1", "a/2", "a0", "b"];
    txn(&client, keys.iter().fold(Txn::default(), |txn, key| txn.then(put(key, "x"))));
    let range = |key: &str, range_end: &[u8], limit: i64| {
        let (key, range_end) = (key.into(), range_end.to_vec());
        client.range(RangeRequest { key, range_end, limit, ..Default::default() }).expect("one")
    };
    assert_eq!(names(&range("a/", b"a0", 0)), ["a/1", "a/2"]);
    assert_eq!(names(&range("a", b"", 0)), ["a"]);
    assert_eq!(names(&range("a/2", &[0], 0)), ["a/2", "a0", "b"]);
    assert_eq!(names(&range("b", b"a", 0)), [""; 0]);
    let some = range("a", b"c", 2);
    assert_eq!((names(&some), some.more, some.count), (vec!["a".into(), "a/1".into()], true, 5));
    let count = client.range(RangeRequest { count_only: true, ..all() }).expect("an answer");
    assert_eq!((count.kvs.len(), count.count, count.more), (0, 5, false));
    let keys_only = client.range(RangeRequest { keys_only: true, ..all() }).expect("an answer");
    assert!(keys_only.kvs.iter().all(|kv| kv.value.is_empty()));
}

#[test]
fn leases_end_with_their_keys() {
    let (client, local) = etcd();
    let granted = client.lease_grant(1).expect("a lease");
    assert_eq!(granted.ttl, TTL_MIN, "none is shorter");
    let leased = Op::Put("a".into(), "1".into(), granted.id);
    txn(&client, Txn::default().then(leased.clone()).then(put("b", "1")));
    local.pass(1_500 * MS);
    assert_eq!(client.lease_keep_alive(granted.id).expect("kept"), TTL_MIN);
    local.pass(1_500 * MS);
    assert!(local.lock().0.get(b"a").is_some());
    local.pass(SECOND);
    assert!(local.lock().0.get(b"a").is_none());
    assert_eq!(client.range(all()).expect("an answer").revision(), 3);
    assert_eq!(kind(client.lease_keep_alive(granted.id)), Kind::LeaseGone);
    assert_eq!(kind(client.lease_revoke(granted.id)), Kind::LeaseGone);
    assert_eq!(kind(client.txn(Txn::default().then(leased).request())), Kind::LeaseGone);
    // A lease that ends without keys leaves no trace. A key that was detached from its lease stays.
    let other = client.lease_grant(5).expect("a lease");
    txn(&client, Txn::default().then(Op::Put("c".into(), "1".into(), other.id)));
    txn(&client, Txn::default().then(put("c", "2")));
    client.lease_revoke(other.id).expect("it was there");
    assert_eq!(local.lock().0.get(b"c").map(|kv| kv.version), Some(2));
    assert_eq!(local.lock().0.revision(), 5);
}

#[test]
fn what_is_compacted_is_forgotten() {
    let (client, _) = etcd();
    for value in ["1", "2", "3"] {
        txn(&client, Txn::default().then(put("a", value)));
    }
    let at = |revision: i64| {
        let found = client.range(RangeRequest { revision, ..all() })?;
        Ok::<_, Error>(found.kvs.first().map(|kv| kv.value.clone()))
    };
    assert_eq!(at(2).expect("it is known"), Some(b"1".to_vec()));
    assert_eq!(at(1).expect("it is known"), None);
    client.compact(3).expect("it is");
    assert_eq!(kind(at(2)), Kind::Compacted);
    assert_eq!(at(3).expect("it is known"), Some(b"2".to_vec()));
    assert_eq!(at(0).expect("it is known"), Some(b"3".to_vec()));
    assert_eq!(kind(client.compact(3)), Kind::Compacted);
    assert_eq!(kind(client.compact(9)), Kind::Unknown);
    assert_eq!(kind(at(9)), Kind::Unknown);
}

#[test]
fn a_watch_tells_everything_or_that_it_cannot() {
    let (client, local) = etcd();
    txn(&client, Txn::default().then(put("a", "1")).then(put("b", "1")));
    txn(&client, Txn::default().then(Op::Delete("a".into())));
    txn(&client, Txn::default().then(put("a", "2")));
    let seen = |from: i64| {
        let events = local.lock().0.watched(b"a", from)?;
        let event = |event: leasehold_etcd::Event| {
            let kv = event.kv.clone().unwrap_or_default();
            (event.is_delete(), kv.mod_revision)
        };
        Ok::<Vec<_>, Error>(events.into_iter().map(event).collect())
    };
    assert_eq!(seen(1).expect("it is known"), [(false, 2), (true, 3), (false, 4)]);
    assert_eq!(seen(4).expect("it is known"), [(false, 4)]);
    client.compact(4).expect("it is");
    assert_eq!(kind(seen(3)), Kind::Compacted);
    assert_eq!(seen(5).expect("it is known"), []);
}

#[test]
fn a_full_one_takes_nothing_and_gives_everything_back() {
    let (client, local) = etcd();
    let lease = client.lease_grant(9).expect("a lease").id;
    txn(&client, Txn::default().then(Op::Put("a".into(), "1".into(), lease)));
    let alarms = || match &client.status()[..] {
        [Ok(status)] => status.errors.concat(),
        other => panic!("{other:?}"),
    };
    assert_eq!(alarms(), "");
    local.lock().0.is_full = true;
    assert!(alarms().contains("NOSPACE"));
    assert_eq!(kind(client.txn(Txn::default().then(put("b", "1")).request())), Kind::NoSpace);
    // Etcd rejects the transaction whichever branch it would run.
    let other = Txn::default().or_else(put("b", "1")).request();
    assert_eq!(kind(client.txn(other)), Kind::NoSpace);
    assert_eq!(kind(client.lease_grant(9)), Kind::NoSpace);
    assert_eq!(client.lease_keep_alive(lease).expect("kept"), 9);
    assert!(txn(&client, Txn::default().then(Op::Delete("a".into()))).succeeded);
    local.lock().0.is_full = false;
    assert_eq!(alarms(), "");
    assert!(txn(&client, Txn::default().then(put("b", "1"))).succeeded);
}

#[test]
fn a_stale_member_reports_it_only_to_clients_that_allow_stale_reads() {
    let mut etcd = Etcd::new();
    for value in ["1", "2", "3"] {
        let put = Txn::default().then(put("a", value)).request();
        etcd.apply(&Request::Txn(put), 0, 0).expect("an answer");
    }
    let mut value = |serializable: bool, lag: i64| {
        let range = RangeRequest { serializable, ..all() };
        match etcd.apply(&Request::Range(range), 0, lag) {
            Ok(sim::etcd::Response::Range(range)) => range.kvs[0].value.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(value(false, 2), b"3");
    assert_eq!(value(true, 0), b"3");
    assert_eq!(value(true, 2), b"1");
    // A member may serve a transaction locally if all its operations allow that, or if there are none.
    let mut holds = |serializable: bool, is_empty: bool| {
        let mut txn =
            Txn::default().when("a", When::Is(b"1")).or_else(Op::Get("a".into())).request();
        for op in &mut txn.failure {
            if let Some(OpRequest::Range(range)) = &mut op.request {
                range.serializable = serializable;
            }
        }
        if is_empty {
            txn.failure.clear();
        }
        match etcd.apply(&Request::Txn(txn), 0, 2) {
            Ok(sim::etcd::Response::Txn(txn)) => txn.succeeded,
            other => panic!("{other:?}"),
        }
    };
    assert!(!holds(false, false));
    assert!(holds(true, false));
    assert!(holds(false, true));
}

#[test]
fn what_is_put_back_repeats_its_revisions() {
    let (client, local) = etcd();
    let lease = client.lease_grant(2).expect("a lease").id;
    txn(&client, Txn::default().then(Op::Put("a".into(), "1".into(), lease)));
    let copy = local.lock().0.clone();
    local.pass(3 * SECOND);
    let other = txn(&client, Txn::default().then(put("b", "1")));
    local.pass(10 * SECOND);
    let now: Time = local.lock().1;
    local.lock().0 = copy;
    // Restarts the TTL of its leases.
    local.lock().0.renew_all(now);
    assert_eq!(local.lock().0.get(b"a").map(|kv| kv.create_revision), Some(2));
    local.pass(3 * SECOND);
    let again = txn(&client, Txn::default().then(put("b", "2")));
    assert_eq!(other.revision(), again.revision());
}
