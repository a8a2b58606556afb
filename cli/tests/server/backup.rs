//! Backups of a server under load, and restoring them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_testkit::{Client, Process, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");

fn leasehold(args: &[&str]) -> (bool, String) {
    let output = Command::new(BINARY).args(args).output().expect("the binary");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

type Tokens = Arc<Mutex<BTreeMap<String, BTreeSet<u64>>>>;

/// Acquires and releases until `stop` is set, and records every token.
async fn load(client: Client, n: usize, tokens: Tokens, stop: Arc<AtomicBool>) {
    let mut round = 0;
    while !stop.load(SeqCst) {
        let lock = format!("lock-{n}-{}", round % 3);
        let held = client.acquire(&lock, "a", 600_000, json!({})).await;
        assert_eq!(held.status, 200, "{held:?}");
        let token = held.number("fencing_token");
        assert!(tokens.lock().unwrap().entry(lock).or_default().insert(token), "{token} twice");
        assert_eq!(client.release(&held, json!({})).await.status, 200);
        round += 1;
    }
}

/// Causes an event and returns its id.
async fn event_id(server: &Process) -> String {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let mut stream = tokio::net::TcpStream::connect(server.address).await.expect("accepted");
    stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    let mut lines = BufReader::new(stream).lines();
    while lines.next_line().await.expect("a head").is_some_and(|line| !line.is_empty()) {}
    server.client.acquire("event", "a", 1, json!({})).await;
    loop {
        let line = lines.next_line().await.expect("an event").expect("more");
        if let Some(id) = line.strip_prefix("id: ") {
            return id.into();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_restores_and_nothing_is_handed_out_twice() {
    let folder = folder();
    let [data, copy, restored] = ["data", "copy", "restored"].map(|name| folder.path().join(name));
    let server = Process::start(BINARY, &data, &["--fold-interval=20ms"]);
    let held = server.client.acquire("held", "a", 600_000, json!({})).await;
    assert_eq!(held.status, 200);
    let (tokens, stop) = (Tokens::default(), Arc::new(AtomicBool::new(false)));
    let client = |n| load(server.client.clone(), n, tokens.clone(), stop.clone());
    let tasks: Vec<_> = (0..8).map(|n| tokio::spawn(client(n))).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (data_arg, copy_arg) = (text(&data).to_owned(), text(&copy).to_owned());
    let backup = move || leasehold(&["backup", &copy_arg, "--data", &data_arg]);
    let (worked, said) = tokio::task::spawn_blocking(backup).await.expect("no panic");
    assert!(worked, "{said}");
    // Later grants are not in the backup, and their tokens must not be granted again after the restore.
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.store(true, SeqCst);
    for task in tasks {
        task.await.expect("nothing was handed out twice");
    }
    let old_event = event_id(&server).await;
    assert!(server.terminate().success());

    let (worked, said) = leasehold(&["verify", text(&copy)]);
    assert!(worked && said.contains("(a backup)"), "{said}");
    let (worked, said) = leasehold(&["restore", text(&copy), "--data", text(&restored)]);
    assert!(worked, "{said}");
    let (worked, said) = leasehold(&["restore", text(&copy), "--data", text(&restored)]);
    assert!(!worked && said.contains("is not empty"), "{said}");
    let server = Process::start(BINARY, &restored, &[]);
    let state = server.client.get("/v1/locks/held").await;
    assert_eq!(state.get("held"), false, "every lease in a backup is over");
    assert_eq!(server.client.renew(&held, 1000, json!({})).await.status, 409);
    let (again, stop) = (tokens.clone(), Arc::new(AtomicBool::new(false)));
    let client = |n| load(server.client.clone(), n, again.clone(), stop.clone());
    let tasks: Vec<_> = (0..8).map(|n| tokio::spawn(client(n))).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    stop.store(true, SeqCst);
    for task in tasks {
        task.await.expect("nothing was handed out twice");
    }
    let lease = server.client.acquire("held", "b", 600_000, json!({})).await.text_of("lease_id");
    let number = |id: &str| id.split_once('.').and_then(|(n, _)| n.parse::<u64>().ok()).unwrap();
    assert!(number(&lease) > number(&held.text_of("lease_id")) + (1 << 39), "lease numbers jump");
    let new_event = event_id(&server).await;
    let generation = |id: &str| id.split_once('-').map(|(generation, _)| generation.to_owned());
    assert_ne!(generation(&old_event), generation(&new_event), "event ids tell the two apart");
    assert!(server.terminate().success());
    assert!(leasehold(&["verify", text(&restored)]).0);
}

#[test]
fn backups_of_nothing_and_into_something_are_refused() {
    let folder = folder();
    let [missing, target] = ["missing", "target"].map(|name| folder.path().join(name));
    let (worked, said) = leasehold(&["backup", text(&target), "--data", text(&missing)]);
    assert!(!worked && said.contains("is missing"), "{said}");
    let (worked, said) = leasehold(&["verify", text(&missing)]);
    assert!(!worked, "{said}");
}
