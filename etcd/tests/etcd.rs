//! Tests of the client against real etcd members.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use leasehold_etcd::*;
use leasehold_testkit::{Ca, Etcd, EtcdOptions, Signal, folder};

const TEST_MAX: Duration = Duration::from_secs(300);
const TRY_MAX: Duration = Duration::from_secs(30);

fn in_time(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let test = async { tokio::time::timeout(TEST_MAX, test).await.expect("in time") };
    runtime.expect("a runtime").block_on(test);
}

fn client(etcd: &Etcd) -> Client {
    Client::new(options(etcd)).expect("good options")
}

fn options(etcd: &Etcd) -> Options {
    Options { try_max: TRY_MAX, ..Options::new(etcd.addresses()) }
}

fn get(key: &str) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: key.into(), value: value.into(), lease: 0 }
}

async fn eventually<T, F: Future<Output = Result<T, Error>>>(mut ask: impl FnMut() -> F) -> T {
    loop {
        if let Ok(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn keys_are_put_read_compared_and_deleted() {
    let etcd = Etcd::start();
    in_time(async {
        let client = client(&etcd);
        client.put(put("a", "1")).await.expect("put");
        client.put(put("b", "2")).await.expect("put");
        let all = RangeRequest { range_end: b"c".to_vec(), ..get("a") };
        let found = client.range(all).await.expect("read");
        let values: Vec<_> = found.kvs.iter().map(|kv| kv.value.as_slice()).collect();
        assert_eq!((values, found.count, found.more), (vec![&b"1"[..], b"2"], 2, false));
        let a = &found.kvs[0];
        assert_eq!((a.version, a.create_revision), (1, a.mod_revision));
        let txn = |when| {
            Txn::default()
                .when("a", when)
                .then(Op::Put(b"a".into(), b"3".into(), 0))
                .or_else(Op::Get(b"a".into()))
                .or_else(Op::Get(b"none".into()))
                .request()
        };
        for wrong in
            [When::Absent, When::Is(b"2"), When::PutAt(a.mod_revision + 1), When::CreatedAt(1)]
        {
            let refused = client.txn(txn(wrong)).await.expect("an answer");
            assert!(!refused.succeeded);
            assert_eq!(refused.found(0), Some(a));
            assert_eq!(refused.found(1), None);
        }
        assert!(client.txn(txn(When::PutAt(a.mod_revision))).await.expect("done").succeeded);
        assert!(client.txn(txn(When::CreatedAt(a.create_revision))).await.expect("done").succeeded);
        assert!(client.txn(txn(When::Is(b"3"))).await.expect("done").succeeded);
        let gone = Txn::default().then(Op::Delete(b"a".into())).request();
        assert!(client.txn(gone).await.expect("done").succeeded);
        assert!(client.txn(txn(When::Absent)).await.expect("done").succeeded);
        let none = Txn::default().then(Op::DeleteRange(b"a".into(), b"z".into())).request();
        client.txn(none).await.expect("done");
        assert_eq!(client.range(get("b")).await.expect("read").count, 0);
    });
}

#[test]
fn a_key_goes_with_its_lease() {
    let etcd = Etcd::start();
    in_time(async {
        let client = client(&etcd);
        let granted = client.lease_grant(60).await.expect("a lease");
        assert_eq!(granted.ttl, 60);
        client.put(PutRequest { lease: granted.id, ..put("a", "1") }).await.expect("put");
        assert_eq!(client.range(get("a")).await.expect("read").kvs[0].lease, granted.id);
        assert_eq!(client.lease_keep_alive(granted.id).await.expect("it lasts"), 60);
        client.lease_revoke(granted.id).await.expect("revoked");
        assert_eq!(client.range(get("a")).await.expect("read").count, 0);
        let over = client.lease_keep_alive(granted.id).await.expect_err("it is over");
        assert_eq!(over.kind, Kind::LeaseGone);
        let over = client.lease_revoke(granted.id).await.expect_err("it is over");
        assert_eq!(over.kind, Kind::LeaseGone);
    });
}

#[test]
fn a_watch_sees_every_change_from_its_revision_on() {
    let etcd = Etcd::start();
    in_time(async {
        let client = client(&etcd);
        client.put(put("j/1", "one")).await.expect("put");
        let start_revision = client.range(get("j/1")).await.expect("read").revision();
        client.put(put("j/2", "two")).await.expect("put");
        let create = WatchCreateRequest {
            key: b"j/".into(),
            range_end: b"j0".into(),
            start_revision,
            fragment: true,
        };
        let mut watch = client.watch(create.clone()).await.expect("a watch");
        client.put(put("k", "not watched")).await.expect("put");
        let gone = Txn::default().then(Op::Delete(b"j/1".into())).request();
        client.txn(gone).await.expect("deleted");
        let mut seen = Vec::new();
        while seen.len() < 3 {
            for event in watch.next().await.expect("news").events {
                let kv = event.kv.clone().expect("a key");
                seen.push((String::from_utf8_lossy(&kv.key).into_owned(), event.is_delete()));
            }
        }
        let expected = [("j/1", false), ("j/2", false), ("j/1", true)];
        assert_eq!(seen, expected.map(|(key, deleted)| (key.to_owned(), deleted)));
        let latest = client.range(get("k")).await.expect("read").revision();
        client.compact(latest).await.expect("compacted");
        let mut late = match client.watch(create).await {
            Err(error) => return assert_eq!(error.kind, Kind::Compacted),
            Ok(watch) => watch,
        };
        assert_eq!(late.next().await.expect_err("compacted").kind, Kind::Compacted);
    });
}

#[test]
fn a_watch_that_is_dropped_costs_etcd_nothing_any_more() {
    let etcd = Etcd::start();
    in_time(async {
        let client = client(&etcd);
        let create = WatchCreateRequest { key: b"a".into(), ..WatchCreateRequest::default() };
        let mut watches = Vec::new();
        for _ in 0..5 {
            watches.push(client.watch(create.clone()).await.expect("a watch"));
        }
        assert_eq!(n_watchers(&etcd), 5);
        watches.truncate(1);
        while n_watchers(&etcd) > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.put(put("a", "1")).await.expect("put");
        assert_eq!(watches[0].next().await.expect("news").events.len(), 1);
        assert_eq!(n_watchers(&etcd), 1);
    });
}

/// Returns the number of watchers that etcd reports in its metrics.
fn n_watchers(etcd: &Etcd) -> usize {
    let mut asked = TcpStream::connect(&etcd.addresses()[0]).expect("a connection");
    asked.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
    let mut metrics = String::new();
    asked.read_to_string(&mut metrics).expect("an answer");
    let count = |line: &str| line.strip_prefix("etcd_debugging_mvcc_watcher_total ")?.parse().ok();
    metrics.lines().find_map(count).expect("a count")
}

#[test]
fn after_an_error_the_next_member_is_asked() {
    let mut etcd = Etcd::cluster(3, &EtcdOptions::default());
    in_time(async {
        let client = client(&etcd);
        assert_eq!(client.n_members(), 3);
        eventually(|| client.put(put("a", "1"))).await;
        etcd.kill(0);
        let lost = client.range(get("a")).await.expect_err("no server");
        assert_eq!(lost.kind, Kind::Unknown, "{lost}");
        let found = eventually(|| client.range(get("a"))).await;
        assert_eq!(found.kvs[0].value, b"1");
        let well = client.status().await;
        assert_eq!(well.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
        let status = well[1].as_ref().expect("well");
        assert!(status.db_size >= status.db_size_in_use && status.db_size_in_use > 0);
        etcd.restart(0);
    });
}

#[test]
fn who_leads_is_asked_once_that_is_known() {
    let etcd = Etcd::cluster(3, &EtcdOptions::default());
    in_time(async {
        let client = client(&etcd);
        let beside = client.again(options(&etcd)).expect("good options");
        eventually(|| client.put(put("a", "1"))).await;
        // Each iteration moves the leadership to another of the three members.
        for _ in 0..2 {
            etcd.move_leader();
            while client.asks() != etcd.leader() {
                client.status().await;
            }
            assert_eq!(beside.asks(), client.asks());
            eventually(|| beside.put(put("a", "2"))).await;
        }
    });
}

#[test]
fn a_member_that_does_not_answer_is_given_up_in_time() {
    let etcd = Etcd::start();
    in_time(async {
        let options =
            Options { try_max: Duration::from_millis(100), ..Options::new(etcd.addresses()) };
        let client = Client::new(options).expect("good options");
        eventually(|| client.put(put("a", "1"))).await;
        etcd.signal(0, Signal::STOP);
        let late = client.put(put("a", "2")).await.expect_err("it is stopped");
        assert!(late.to_string().ends_with("no response within 100 ms"), "{late}");
        etcd.signal(0, Signal::CONT);
        eventually(|| client.range(get("a"))).await;
    });
}

#[test]
fn a_member_that_was_restarted_is_asked_over_a_new_connection() {
    let mut etcd = Etcd::start();
    in_time(async {
        let client = client(&etcd);
        client.put(put("a", "1")).await.expect("put");
        etcd.kill(0);
        etcd.restart(0);
        assert_eq!(eventually(|| client.range(get("a"))).await.count, 1);
        client.put(put("a", "2")).await.expect("put");
    });
}

/// Returns a listener that accepts connections but never responds, and a client for it.
fn silent(try_max: Duration) -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, Client::new(Options { try_max, ..Options::new([address]) }).expect("good options"))
}

#[test]
fn after_a_question_without_an_answer_the_next_goes_over_a_new_connection() {
    in_time(async {
        let (listener, client) = silent(Duration::from_millis(50));
        for _ in 0..3 {
            client.put(put("a", "1")).await.expect_err("no answer");
        }
        listener.set_nonblocking(true).expect("a listener");
        assert_eq!(std::iter::from_fn(|| listener.accept().ok()).count(), 3);
    });
}

#[test]
fn who_is_not_etcd_is_asked_whether_it_is() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for socket in listener.incoming().take(2) {
            let mut socket = socket.expect("a connection");
            // What was not read would reset the connection before the client has read the line.
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    in_time(async {
        let client = Client::new(Options::new([address])).expect("good options");
        let why = client.put(put("a", "1")).await.expect_err("it is not").to_string();
        assert!(why.ends_with("(is this etcd, and without TLS?)"), "{why}");
    });
}

#[test]
fn a_question_is_written_whole() {
    in_time(async {
        let (listener, client) = silent(TEST_MAX);
        let ask = |key: &'static str| {
            let client = client.clone();
            tokio::spawn(async move { client.put(put(key, &"x".repeat(1000))).await })
        };
        // The connection preface is sent with the first request.
        let first = ask("a");
        let (mut socket, _) = listener.accept().expect("a connection");
        let (mut begun, mut bytes) = (Vec::new(), [0; 1 << 16]);
        while !frames(begun.get(PREFACE.len()..).unwrap_or_default()).ends_with(&whole(1)) {
            let n = socket.read(&mut bytes).expect("read");
            begun.extend_from_slice(&bytes[..n]);
        }
        assert!(begun.starts_with(PREFACE));
        let second = ask("b");
        let n = socket.read(&mut bytes).expect("read");
        assert_eq!(frames(&bytes[..n]), whole(3), "not in parts");
        first.abort();
        second.abort();
    });
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// HTTP/2 frames: type, whether the frame ends its stream, and the stream id.
type Frames = Vec<(u8, bool, u32)>;

fn frames(mut bytes: &[u8]) -> Frames {
    let mut frames = Vec::new();
    while let Some((&[a, b, c, kind, flags, d, e, f, g], rest)) = bytes.split_first_chunk::<9>()
        && let Some(rest) = rest.get(u32::from_be_bytes([0, a, b, c]) as usize..)
    {
        frames.push((kind, flags & 1 == 1, u32::from_be_bytes([d, e, f, g])));
        bytes = rest;
    }
    frames
}

/// Returns HEADERS and one DATA frame: a whole request.
fn whole(stream: u32) -> Frames {
    vec![(1, false, stream), (0, true, stream)]
}

#[test]
fn an_answer_may_be_longer_than_what_may_come_unread() {
    let etcd = Etcd::start();
    in_time(async {
        let client = client(&etcd);
        let long = "x".repeat(1 << 20);
        for n in 0..10 {
            client.put(put(&format!("a{n}"), &long)).await.expect("put");
        }
        let all = RangeRequest { range_end: b"b".to_vec(), ..get("a") };
        for _ in 0..2 {
            let found = client.range(all.clone()).await.expect("read");
            assert!(found.kvs.iter().all(|kv| kv.value == long.as_bytes()));
            assert_eq!(found.count, 10);
        }
    });
}

#[test]
fn a_full_database_is_told_apart() {
    let options =
        EtcdOptions { flags: &["--quota-backend-bytes", "131072"], ..EtcdOptions::default() };
    let etcd = Etcd::cluster(1, &options);
    in_time(async {
        let client = client(&etcd);
        let long = "x".repeat(1 << 16);
        let mut full = None;
        for _ in 0..1000 {
            full = client.put(put("a", &long)).await.err();
            if full.is_some() {
                break;
            }
        }
        assert_eq!(full.expect("full").kind, Kind::NoSpace);
        let errors = client.status().await.remove(0).expect("well").errors;
        assert!(errors.iter().any(|error| error.contains("NOSPACE")), "{errors:?}");
    });
}

#[test]
fn who_asks_is_proven_by_a_password() {
    let etcd = Etcd::start();
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["auth", "enable"]);
    in_time(async {
        let denied = client(&etcd).put(put("a", "1")).await.expect_err("denied");
        assert_eq!(denied.kind, Kind::Denied, "{denied}");
        let with = |password: &str| {
            let password = Password::Is(password.into());
            let credentials = Some(Credentials { user: "root".into(), password });
            Client::new(Options { credentials, ..options(&etcd) }).expect("good")
        };
        let wrong = with("wrong").put(put("a", "1")).await.expect_err("a wrong password");
        assert_eq!(wrong.kind, Kind::Denied, "{wrong}");
        let client = with("secret");
        client.put(put("a", "1")).await.expect("put");
        // Changing users invalidates all tokens: one attempt fails, and the next one authenticates again.
        etcd.ctl(&["--user", "root:secret", "user", "add", "other:secret"]);
        let found = eventually(|| client.range(get("a"))).await;
        assert_eq!(found.count, 1);
        client.put(put("a", "2")).await.expect("put");
    });
}

#[test]
fn a_password_that_is_changed_in_its_file_counts() {
    let (etcd, folder) = (Etcd::start(), folder());
    etcd.ctl(&["user", "add", "root:secret"]);
    etcd.ctl(&["auth", "enable"]);
    let ctl = |arguments: &[&str]| etcd.ctl(&[&["--user", "root:secret"], arguments].concat());
    let add = |password: &str| {
        ctl(&["user", "add", &format!("lock:{password}")]);
        ctl(&["user", "grant-role", "lock", "root"]);
    };
    add("first");
    let file = folder.path().join("password");
    std::fs::write(&file, "first\n").expect("a file");
    in_time(async {
        let password = Password::In(file.clone());
        let credentials = Some(Credentials { user: "lock".into(), password });
        let options = Options { credentials, ..options(&etcd) };
        let client = Client::new(options).expect("good options");
        client.put(put("a", "1")).await.expect("put");
        ctl(&["user", "delete", "lock"]);
        add("second");
        for _ in 0..2 {
            let denied = client.put(put("a", "2")).await.expect_err("it was changed");
            assert_eq!(denied.kind, Kind::Denied, "{denied}");
        }
        std::fs::remove_file(&file).expect("removed");
        let unread = client.put(put("a", "2")).await.expect_err("no password").to_string();
        assert!(unread.contains("password: No such file"), "{unread}");
        std::fs::write(&file, "second\n").expect("a file");
        client.put(put("a", "2")).await.expect("put");
    });
}

#[test]
fn who_asks_is_proven_by_a_certificate() {
    let (folder, ca) = (folder(), Ca::new("etcd"));
    let files = ca.server().write(folder.path(), "member");
    let authority = ca.write(folder.path(), "ca.pem");
    let tls = Some((files.certificate.as_path(), files.key.as_path(), authority.as_path()));
    let etcd = Etcd::cluster(1, &EtcdOptions { tls, ..EtcdOptions::default() });
    in_time(async {
        let issued = ca.issue(&["dns:leasehold"]);
        let client = |ca: &Ca, identity| {
            let tls = Some(Tls { ca: ca.pem(), identity });
            Client::new(Options { tls, ..options(&etcd) }).expect("good options")
        };
        let known = client(&ca, Some((issued.certificate.clone(), issued.key.clone())));
        known.put(put("a", "1")).await.expect("put");
        let why = client(&ca, None).put(put("a", "1")).await.expect_err("refused").to_string();
        assert!(why.ends_with("does it require a client certificate?)"), "{why}");
        let stranger = client(&Ca::new("another"), Some((issued.certificate, issued.key)));
        let why = stranger.put(put("a", "1")).await.expect_err("another CA").to_string();
        assert!(why.contains("certificate"), "{why}");
        assert!(why.contains("(signed by another CA than "), "{why}");
        let plain = Etcd::start();
        let tls = Some(Tls { ca: ca.pem(), identity: None });
        let client = Client::new(Options { tls, ..options(&plain) }).expect("good");
        let why = client.put(put("a", "1")).await.expect_err("without TLS").to_string();
        assert!(why.contains("(does it use TLS, and "), "{why}");
    });
}
