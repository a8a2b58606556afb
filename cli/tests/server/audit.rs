//! The audit file of a real server: kept over kills, rotated, and read with `leasehold audit`.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Process, Value, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
/// Number of times the server is killed.
const N_KILLS: usize = 8;
/// With fewer events the test proves too little.
const N_EVENTS_MIN: usize = 100;
/// How long a test waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(180);

fn lines(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).expect("a file");
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
    text.lines().map(line).collect()
}

/// Returns the ids of all lease events in the audit file, in order.
fn audited(file: &Path) -> Vec<String> {
    let lines = lines(file);
    let leases = lines.iter().filter(|line| line["kind"] == "lease");
    leases.map(|line| line["id"].as_str().expect("an id").to_owned()).collect()
}

/// Returns the ids of all events in the history of the server.
async fn known(client: &Client) -> BTreeSet<String> {
    let (mut ids, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/history?limit=1000{cursor}")).await.body;
        let events = page["events"].as_array().expect("events");
        ids.extend(events.iter().map(|event| event["id"].as_str().expect("an id").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

/// Acquires and releases locks until the server is gone. Counts the granted requests.
async fn keep_busy(client: Client, owner: usize, n_granted: Arc<AtomicUsize>) {
    for n in 0.. {
        let lock = format!("l{owner}-{}", n % 7);
        let taken = client.try_acquire(&lock, &format!("o{owner}"), 60_000, json!({})).await;
        let Ok(taken) = taken else { return };
        n_granted.fetch_add(1, Relaxed);
        let proof = json!({
            "owner_id": format!("o{owner}"), "lease_id": taken.get("lease_id"),
            "fencing_token": taken.get("fencing_token"),
        });
        if client.post(&format!("/v1/locks/{lock}/release"), proof).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happened_is_told_once_however_often_the_server_is_killed() {
    let home = folder();
    let (data, file) = (home.path().join("data"), home.path().join("audit.log"));
    let flag = format!("--audit-file={}", file.display());
    // Folds as often as possible, so that some kills happen before the audit file contains events that are already
    // folded.
    let flags = [flag.as_str(), "--fold-interval=1ms"];
    let n_granted = Arc::new(AtomicUsize::new(0));
    for round in 0..N_KILLS {
        let process = Process::start(BINARY, &data, &flags);
        let client = |n| keep_busy(process.client.clone(), n, n_granted.clone());
        let busy: Vec<_> = (0..4).map(|n| tokio::spawn(client(n))).collect();
        // An irregular time, so that the kills happen at different moments.
        tokio::time::sleep(Duration::from_millis(60 + 37 * round as u64)).await;
        // On a busy machine the last round makes up for the rounds before it.
        let began = Instant::now();
        while round + 1 == N_KILLS && n_granted.load(Relaxed) <= N_EVENTS_MIN {
            assert!(began.elapsed() < PATIENCE, "the clients make no progress");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        process.kill();
        for task in busy {
            task.await.expect("it ends");
        }
        if round % 2 == 0 {
            // In addition, a partial line, as a power failure can leave it.
            use std::io::Write;
            let mut torn = std::fs::OpenOptions::new().append(true).open(&file).expect("a file");
            torn.write_all(b"{\"at\":\"2026-").expect("written");
        }
    }
    let process = Process::start(BINARY, &data, &flags);
    let audited = audited(&file);
    let known = known(&process.client).await;
    assert!(known.len() > N_EVENTS_MIN, "{} events", known.len());
    let once: BTreeSet<_> = audited.iter().cloned().collect();
    assert_eq!(once.len(), audited.len(), "nothing is told twice");
    let missing: Vec<_> = known.difference(&once).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    let unheard: Vec<_> = once.difference(&known).collect();
    assert!(unheard.is_empty(), "told, and never happened: {unheard:?}");
    let starts = lines(&file).iter().filter(|line| line["act"] == "start").count();
    assert_eq!(starts, N_KILLS + 1);
    process.kill();
}

/// Waits until the tables contain all records of the journal.
async fn until_folded(data: &Path) {
    let began = Instant::now();
    let read = |file: &str, sql: &str| {
        let db = rusqlite::Connection::open(data.join(file)).expect("a database");
        db.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).expect("a number").unwrap_or(0)
    };
    let last = read("journal.db", "SELECT max(seq) FROM journal");
    while read("tables.db", "SELECT value FROM meta WHERE key = 'folded_through'") < last {
        assert!(began.elapsed() < PATIENCE, "the server does not fold the journal");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn what_a_crash_kept_from_being_written_is_told_at_the_start() {
    // The events come from the journal, which contains the principal, or after a fold from the history, which does not.
    for (fold_interval, knows_who) in [("1h", true), ("1ms", false)] {
        let home = folder();
        let (data, file) = (home.path().join("data"), home.path().join("audit.log"));
        let init = ["auth", "init", "--auth-file", "auth.toml"];
        let init = Command::new(BINARY).current_dir(home.path()).args(init).output();
        let shown = String::from_utf8(init.expect("the binary").stdout).expect("text");
        let key = shown.lines().find(|line| line.starts_with("lh_")).expect("a key");
        let auth = format!("--auth-file={}", home.path().join("auth.toml").display());
        let flags = [
            format!("--audit-file={}", file.display()),
            format!("--fold-interval={fold_interval}"),
        ];
        let flags = [flags[0].as_str(), flags[1].as_str(), auth.as_str()];
        let process = Process::start(BINARY, &data, &flags);
        let bearer = format!("Bearer {key}");
        for n in 0..10 {
            let body = json!({"owner_id": "o", "ttl_ms": 600_000}).to_string();
            let headers =
                [("authorization", bearer.as_str()), ("content-type", "application/json")];
            let path = format!("/v1/locks/l{n}/acquire");
            let sent =
                process.client.send_with(leasehold_testkit::Method::POST, &path, &headers, body);
            assert_eq!(sent.await.expect("an answer").status, 200);
        }
        if !knows_who {
            until_folded(&data).await;
        }
        process.kill();
        let before = std::fs::read_to_string(&file).expect("a file");
        let kept: Vec<_> = before.lines().take(4).collect();
        std::fs::write(&file, format!("{}\n{{\"torn", kept.join("\n"))).expect("a file");
        let process = Process::start(BINARY, &data, &flags);
        process.kill();
        let lines = lines(&file);
        let told: Vec<_> = lines.iter().filter(|line| line["outcome"] == "granted").collect();
        let locks: Vec<_> = told.iter().map(|line| line["lock"].clone()).collect();
        let expected: Vec<_> = (0..10).map(|n| json!(format!("l{n}"))).collect();
        assert_eq!(locks, expected, "{fold_interval}");
        let who = told.last().expect("one")["by"]["principal"].as_str();
        assert_eq!(who, knows_who.then_some("key:admin"), "{fold_interval}");
    }
}

fn run(words: &[&str]) -> String {
    let output = Command::new(BINARY).args(words).output().expect("the binary");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test]
async fn an_audit_file_can_be_searched_and_followed() {
    let home = folder();
    let (data, file) = (home.path().join("data"), home.path().join("audit.log"));
    let path = file.to_str().expect("text");
    let flag = format!("--audit-file={path}");
    let process = Process::start(BINARY, &data, &[&flag, "--audit-size-max=4096"]);
    for n in 0..20 {
        process.client.acquire(&format!("l{n}"), "o", 60_000, json!({})).await;
    }
    let odd = json!({"owner_id": "x\u{1b}[2J", "ttl_ms": 60_000});
    process.client.post("/v1/namespaces/shop/locks/l1/acquire", odd).await.expect("an answer");
    let off = ("/v1/admin/maintenance", json!({"on": false}).to_string());
    let kind = [("content-type", "application/json")];
    let put = leasehold_testkit::Method::PUT;
    let done = process.client.send_with(put, off.0, &kind, off.1).await.expect("an answer");
    assert_eq!(done.status, 200);
    let audit = |more: &[&str]| run(&[&["audit", "--audit-file", path][..], more].concat());
    let all = audit(&[]);
    assert!(home.path().join("audit.log.1").exists(), "it was rotated");
    assert_eq!(all.lines().filter(|line| line.contains("granted")).count(), 21, "{all}");
    assert!(!all.contains('\u{1b}'), "nothing a terminal obeys: {all:?}");
    let operators = home.path().join("audit.log.admin");
    assert!(lines(&operators).iter().any(|line| line["act"] == "maintenance"), "they have a file");
    assert!(all.contains("maintenance"), "which is shown, too: {all}");
    let times: Vec<_> = all.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(times.is_sorted(), "in order of time: {all}");
    let one = audit(&["--lock", "l1", "--json"]);
    assert_eq!(one.lines().count(), 2, "{one}");
    let shop = audit(&["--lock", "l1", "--namespace", "shop", "--json"]);
    let line: Value = serde_json::from_str(shop.trim()).expect("one line");
    assert_eq!((&line["namespace"], &line["holder"]["token"]), (&json!("shop"), &json!(1)));
    assert_eq!(audit(&["--outcome", "granted", "--since", "1h"]).lines().count(), 21);
    assert_eq!(audit(&["--outcome", "revoked"]), "");
    assert_eq!(audit(&["--principal", "anonymous", "--json"]).lines().count(), 22);
    assert_eq!(audit(&["--principal", "server", "--outcome", "done"]).lines().count(), 1);
    // `--follow` prints new entries, even after the file was rotated.
    let mut follower = Command::new(BINARY)
        .args(["audit", "--audit-file", path, "--outcome", "granted", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary");
    let output = follower.stdout.take().expect("a pipe");
    let reading = tokio::task::spawn_blocking(move || {
        let told = BufReader::new(output).lines().map_while(Result::ok);
        told.filter(|line| line.contains("\"later-")).take(15).count()
    });
    for n in 0..15 {
        process.client.acquire(&format!("later-{n}"), "o", 60_000, json!({})).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = tokio::time::timeout(Duration::from_secs(180), reading).await;
    follower.kill().expect("it runs");
    follower.wait().expect("it ended");
    assert_eq!(told.expect("in time").expect("read"), 15);
    process.kill();
}

#[tokio::test]
async fn sighup_reopens_the_file() {
    let home = folder();
    let (data, file) = (home.path().join("data"), home.path().join("audit.log"));
    let flag = format!("--audit-file={}", file.display());
    let process = Process::start(BINARY, &data, &[&flag]);
    process.client.acquire("before", "o", 60_000, json!({})).await;
    std::fs::rename(&file, home.path().join("moved.log")).expect("a file");
    process.signal(leasehold_testkit::Signal::HUP);
    let mut tries = 0;
    while !file.exists() {
        tries += 1;
        assert!(tries < 10_000, "it was never opened again");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.client.acquire("after", "o", 60_000, json!({})).await;
    assert_eq!(audited(&file).len(), 1);
    assert_eq!(audited(&home.path().join("moved.log")).len(), 1);
    process.kill();
}

#[test]
fn what_cannot_be_is_refused_before_the_server_starts() {
    let home = folder();
    let check = |flags: &[&str]| {
        let words = [&["check-config", "--audit-file=audit.log"][..], flags].concat();
        Command::new(BINARY).current_dir(home.path()).args(words).output().expect("the binary")
    };
    for (flag, why) in [
        ("--audit-failure=ignore", "must be refuse or warn"),
        ("--audit-size-max=100", "4096"),
        ("--audit-refusals-per-second=0", "1.."),
        ("--audit-refusals-per-client=0", "1.."),
    ] {
        let refused = check(&[flag]);
        assert!(!refused.status.success(), "{flag}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(why), "{refused:?}");
    }
    assert!(check(&["--audit-failure=warn", "--audit-keep=0"]).status.success());
    let bad = Process::try_start(BINARY, &home.path().join("data"), &["--audit-file=/none/a.log"]);
    let why = bad.err().expect("it cannot start");
    assert!(why.contains("cannot write the audit file: /none/a.log"), "{why}");
}
