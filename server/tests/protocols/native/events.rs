//! Tests of event streams over real HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use std::time::Duration;

use leasehold_auth::Permitted;
use leasehold_core::{Ending, LockKey, What};
use leasehold_engine::{Interest, Next};
use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, json, settings};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A reader of `/v1/events`.
struct Watcher {
    lines: tokio::io::Lines<BufReader<TcpStream>>,
}

impl Watcher {
    async fn start(local: &Local, query: &str, headers: &str) -> Self {
        let mut stream = TcpStream::connect(local.address).await.expect("accepted");
        let request = format!("GET /v1/events{query} HTTP/1.1\r\nHost: x\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut lines = BufReader::new(stream).lines();
        while lines.next_line().await.expect("a head").is_some_and(|line| !line.is_empty()) {}
        Self { lines }
    }

    /// Returns the next event: its name, its id and its data.
    async fn next(&mut self) -> Option<(String, String, leasehold_testkit::Value)> {
        let (mut name, mut id) = (String::new(), String::new());
        while let Some(line) = self.lines.next_line().await.ok()? {
            if let Some(value) = line.strip_prefix("event: ") {
                name = value.into();
            } else if let Some(value) = line.strip_prefix("id: ") {
                id = value.into();
            } else if let Some(value) = line.strip_prefix("data: ") {
                // The id can come after the data. An empty line ends the event.
                let data = value.parse().expect("JSON");
                while let Some(line) = self.lines.next_line().await.ok()? {
                    match line.split_once(": ") {
                        Some(("event", value)) => name = value.into(),
                        Some(("id", value)) => id = value.into(),
                        _ => break,
                    }
                }
                return Some((name, id, data));
            }
        }
        None
    }
}

#[tokio::test]
async fn grants_releases_expiries_and_revocations_are_told() {
    let local = Local::ephemeral().await;
    let mut watcher = Watcher::start(&local, "?prefix=db", "").await;
    let held = local.client.acquire("db", "a", 1_000, json!({})).await;
    local.client.acquire("other", "a", 1_000, json!({})).await;
    local.client.release(&held, json!({})).await;
    let held = local.client.acquire("db", "b", 1_000, json!({})).await;
    local.advance_ms(1_000);
    assert_eq!(local.client.renew(&held, 1_000, json!({})).await.status, 409);
    local.client.acquire("db", "c", 1_000, json!({})).await;
    let reason = json!({"reason": "maintenance"});
    local.client.post("/v1/locks/db/revoke", reason).await.expect("an answer");
    let mut told = Vec::new();
    while told.len() < 6 {
        let (name, _, data) = watcher.next().await.expect("an event");
        told.push(format!(
            "{name} {} {}",
            data["owner_id"].as_str().unwrap(),
            data["fencing_token"]
        ));
    }
    let expected =
        ["granted a 1", "released a 1", "granted b 2", "expired b 2", "granted c 3", "revoked c 3"];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_reader_that_comes_back_goes_on_where_it_was_or_is_told_of_a_gap() {
    let mut settings = settings(None);
    settings.engine.events_max = 4;
    let local = Local::start(settings).await;
    let mut watcher = Watcher::start(&local, "", "").await;
    for n in 0..3 {
        local.client.acquire(&format!("lock-{n}"), "a", 60_000, json!({})).await;
    }
    let (_, first, data) = watcher.next().await.expect("an event");
    assert_eq!(data["lock_name"], "lock-0");
    drop(watcher);
    let header = format!("Last-Event-ID: {first}\r\n");
    let mut again = Watcher::start(&local, "", &header).await;
    assert_eq!(again.next().await.expect("an event").2["lock_name"], "lock-1");
    let mut again = Watcher::start(&local, &format!("?since={first}"), "").await;
    assert_eq!(again.next().await.expect("an event").2["lock_name"], "lock-1");
    for n in 3..9 {
        local.client.acquire(&format!("lock-{n}"), "a", 60_000, json!({})).await;
    }
    let mut late = Watcher::start(&local, &format!("?since={first}"), "").await;
    let (name, _, data) = late.next().await.expect("an event");
    assert_eq!(name, "gap", "{data}");
    assert_eq!(late.next().await.expect("an event").2["lock_name"], "lock-5");
    let other_generation = format!("?since=1-{}", first.split_once('-').unwrap().1);
    let mut restored = Watcher::start(&local, &other_generation, "").await;
    let (name, _, data) = restored.next().await.expect("an event");
    assert_eq!(name, "gap");
    assert!(data["reason"].as_str().unwrap().contains("restored"));
    local.stop().await;
    while again.next().await.is_some() {}
}

#[tokio::test]
async fn an_event_that_has_not_happened_is_a_gap_whatever_its_number() {
    let local = Local::ephemeral().await;
    let mut watcher = Watcher::start(&local, "", "").await;
    local.client.acquire("db", "a", 60_000, json!({})).await;
    let (_, id, _) = watcher.next().await.expect("an event");
    let generation = id.split_once('-').expect("an id").0;
    let query = format!("?since={generation}-{}-0", u64::MAX);
    let mut early = Watcher::start(&local, &query, "").await;
    let (name, _, data) = early.next().await.expect("an event");
    assert_eq!(
        (name.as_str(), data["reason"].as_str()),
        ("gap", Some("this event id does not exist yet"))
    );
}

#[tokio::test]
async fn no_client_can_cause_events_about_foreign_locks() {
    let local = Local::ephemeral().await;
    let mine = local.client.acquire("mine", "a", 1_000, json!({})).await;
    let mut watcher = Watcher::start(&local, "", "").await;
    let forged = json!({"owner_id": "boss", "lease_id": mine.get("lease_id"), "fencing_token": 7,
                        "extend_by_ms": 1000});
    let refused = local.client.post("/v1/locks/victim/renew", forged).await.expect("an answer");
    assert_eq!(refused.status, 409);
    local.client.acquire("after", "a", 1_000, json!({})).await;
    let (_, _, data) = watcher.next().await.expect("an event");
    assert_eq!(data["lock_name"], "after", "the forged renewal is not told");
}

#[tokio::test]
async fn a_restart_leaves_no_gap_folded_or_not() {
    let folder = tempfile::tempdir().expect("a folder");
    for fold_interval in [Duration::from_millis(1), Duration::from_secs(3600)] {
        let data = folder.path().join(format!("{fold_interval:?}"));
        let restart = || Local::start(Settings { fold_interval, ..settings(Some(&data)) });
        let local = restart().await;
        let mut watcher = Watcher::start(&local, "", "").await;
        for n in 0..3 {
            local.client.acquire(&format!("lock-{n}"), "a", 60_000, json!({})).await;
        }
        let (_, first, _) = watcher.next().await.expect("an event");
        local.stop().await;
        let local = restart().await;
        local.client.acquire("lock-3", "a", 60_000, json!({})).await;
        let mut again = Watcher::start(&local, &format!("?since={first}"), "").await;
        for n in 1..4 {
            let (name, _, data) = again.next().await.expect("an event");
            let expected = ("granted", format!("lock-{n}"));
            assert_eq!((name.as_str(), data["lock_name"].as_str().unwrap().to_owned()), expected);
        }
        local.stop().await;
    }
}

#[tokio::test]
async fn one_lock_can_be_watched_alone() {
    let local = Local::ephemeral().await;
    let mut watcher = Watcher::start(&local, "?lock=db", "").await;
    for lock in ["db2", "other", "db"] {
        local.client.acquire(lock, "a", 1_000, json!({})).await;
    }
    assert_eq!(watcher.next().await.expect("an event").2["lock_name"], "db");
}

/// A stream that is not read keeps few events, and streams that are read lose nothing because of it.
#[tokio::test]
async fn events_that_are_not_taken_have_a_budget_in_bytes() {
    let mut settings = settings(None);
    settings.engine.event_streams_bytes_max = 50_000;
    let local = Local::start(settings).await;
    let engine = local.server.engine();
    let follow = |lock: &str| {
        let lock = Interest::Lock(LockKey::new("default", lock));
        engine.follow(Permitted::unchecked(lock), None)
    };
    let mut idle: Vec<_> = (0..5).map(|n| follow(&format!("idle-{n}"))).collect();
    let mut busy = follow("busy");
    let mut n_bytes_most = 0;
    for n in 0..200 {
        for lock in [format!("idle-{}", n % 5), "busy".into()] {
            let held = local.client.acquire(&lock, "a", 60_000, json!({})).await;
            local.client.release(&held, json!({})).await;
        }
        for what in [What::Granted, What::Ended(Ending::Released)] {
            let Next::Event(event) = busy.next().await else { panic!("who reads misses nothing") };
            assert_eq!((event.fact.what, event.fact.token.get()), (what, n + 1));
        }
        let metrics = local.client.get("/metrics").await.text;
        let line = metrics.lines().find_map(|l| l.strip_prefix("leasehold_event_streams_bytes "));
        n_bytes_most = n_bytes_most.max(line.unwrap().parse::<usize>().unwrap());
    }
    assert!((20_000..60_000).contains(&n_bytes_most), "{n_bytes_most}");
    for idle in &mut idle {
        assert!(matches!(idle.next().await, Next::Gap(why) if why.contains("too slow: ")));
        assert!(matches!(idle.next().await, Next::Event(_)), "the latest are there");
    }
    drop(idle);
    drop(busy);
    let metrics = local.client.get("/metrics").await.text;
    assert!(metrics.contains("leasehold_event_streams_bytes 0\n"), "{metrics}");
}

/// The budget also holds for many followed locks. Each used to keep eight events, whatever the budget.
#[tokio::test]
async fn events_of_many_topics_together_stay_within_their_budget() {
    let mut settings = settings(None);
    settings.engine.event_streams_bytes_max = 10_000;
    let local = Local::start(settings).await;
    let engine = local.server.engine();
    let follow = |n: usize| {
        let lock = Interest::Lock(LockKey::new("default", format!("lock-{n}")));
        engine.follow(Permitted::unchecked(lock), None)
    };
    let mut readers: Vec<_> = (0..50).map(follow).collect();
    let n_bytes = async || {
        let metrics = local.client.get("/metrics").await.text;
        let line = metrics.lines().find_map(|l| l.strip_prefix("leasehold_event_streams_bytes "));
        line.unwrap().parse::<usize>().unwrap()
    };
    for n in 0..50 {
        let held = local.client.acquire(&format!("lock-{n}"), "a", 60_000, json!({})).await;
        local.client.release(&held, json!({})).await;
        assert!(n_bytes().await <= 10_000);
    }
    let mut n_gaps = 0;
    for reader in &mut readers {
        n_gaps += usize::from(matches!(reader.next().await, Next::Gap(_)));
    }
    assert!((10..50).contains(&n_gaps), "{n_gaps}");
    drop(readers);
    assert_eq!(n_bytes().await, 0);
}

#[tokio::test]
async fn a_reader_that_missed_much_gets_it_in_order() {
    let local = Local::ephemeral().await;
    let mut watcher = Watcher::start(&local, "", "").await;
    local.client.acquire("first", "a", 60_000, json!({})).await;
    let (_, first, _) = watcher.next().await.expect("an event");
    for n in 0..100 {
        local.client.acquire(&format!("lock-{n}"), "a", 60_000, json!({})).await;
        local.client.acquire(&format!("other-{n}"), "a", 60_000, json!({})).await;
    }
    let mut again = Watcher::start(&local, &format!("?prefix=lock-&since={first}"), "").await;
    local.client.acquire("lock-100", "a", 60_000, json!({})).await;
    for n in 0..=100 {
        let (name, _, data) = again.next().await.expect("an event");
        let lock = data["lock_name"].as_str().unwrap().to_owned();
        assert_eq!((name.as_str(), lock), ("granted", format!("lock-{n}")));
    }
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_told_of_a_gap() {
    let local = Local::ephemeral().await;
    let namespace = Interest::Namespace("default".into());
    let mut reader = local.server.engine().follow(Permitted::unchecked(namespace), None);
    for _ in 0..2_200 {
        let held = local.client.acquire("db", "a", 1_000, json!({})).await;
        local.client.release(&held, json!({})).await;
    }
    assert!(matches!(reader.next().await, Next::Gap(why) if why.contains("too slow: 304 ")));
    assert!(matches!(reader.next().await, Next::Event(event) if event.fact.token.get() == 153));
}
