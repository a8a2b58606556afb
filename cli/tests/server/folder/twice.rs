//! A data directory is used by one server only, even if its files are changed while the server runs.

use std::path::Path;

use leasehold_testkit::{Process, folder, json};

use crate::folder::BINARY;

#[tokio::test]
async fn a_second_server_is_refused_also_where_the_lock_file_is_gone() {
    let folder = folder();
    let data = folder.path().join("data");
    let first = Process::start(BINARY, &data, &[]);
    std::fs::remove_file(data.join("lock")).unwrap();
    let Err(said) = Process::try_start(BINARY, &data, &[]) else { panic!("two servers") };
    assert!(said.contains("is in use by another process"), "{said}");
    let held = first.client.acquire("db", "a", 60_000, json!({})).await;
    assert_eq!(held.status, 200, "the first one does not care");
    assert!(first.terminate().success());
}

/// Otherwise, two servers that were started by mistake could take turns at the port.
#[tokio::test]
async fn a_second_server_locks_its_folder_before_it_opens_its_port() {
    let folder = folder();
    let data = folder.path().join("data");
    let first = Process::start(BINARY, &data, &[]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("--listen={}", taken.local_addr().unwrap());
    let mut second = std::process::Command::new(BINARY);
    second.arg("serve").arg("--data").arg(&data).arg(listen).env_remove("LEASEHOLD_CONFIG");
    let output = second.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is in use by process"), "{said}");
    assert!(!said.contains("Address already in use"), "{said}");
    assert!(first.terminate().success());
}

/// Changes the directory of a running server, which must then grant nothing more and stop.
async fn check_stops(what: &str, harm: impl Fn(&Path), goes_on: bool) {
    let folder = folder();
    let data = folder.path().join("data");
    let mut first = Process::start(BINARY, &data, &["--fold-interval=20ms"]);
    assert_eq!(first.client.acquire("db", "a", 60_000, json!({})).await.status, 200, "{what}");
    harm(&data);
    let second = goes_on.then(|| Process::start(BINARY, &data, &[]));
    let answer = first.client.try_acquire("other", "a", 60_000, json!({})).await;
    assert!(answer.as_ref().map_or(true, |answer| answer.status >= 500), "{what}: {answer:?}");
    assert!(!first.wait().success(), "{what}: it says all is well");
    if let Some(second) = second {
        let held = second.client.acquire("other", "b", 60_000, json!({})).await;
        assert_eq!(held.status, 200, "{what}: the second one does not care");
    }
}

#[tokio::test]
async fn a_server_whose_folder_is_replaced_or_removed_stops() {
    let away = |data: &Path| std::fs::rename(data, data.with_file_name("away")).unwrap();
    check_stops("renamed away, and a second server at its place", away, true).await;
    check_stops("removed", |data| std::fs::remove_dir_all(data).unwrap(), false).await;
    let remove =
        |name: &'static str| move |data: &Path| std::fs::remove_file(data.join(name)).unwrap();
    check_stops("the journal removed", remove("journal.db"), false).await;
    check_stops("its log removed", remove("journal.db-wal"), false).await;
    let copied = |data: &Path| {
        std::fs::copy(data.join("journal.db"), data.join("new")).unwrap();
        std::fs::rename(data.join("new"), data.join("journal.db")).unwrap();
    };
    check_stops("the journal replaced by a copy", copied, false).await;
}

#[tokio::test]
async fn a_server_whose_tables_are_removed_stops_and_keeps_its_journal() {
    let folder = folder();
    let data = folder.path().join("data");
    let mut server = Process::start(BINARY, &data, &["--fold-interval=20ms"]);
    std::fs::remove_file(data.join("tables.db")).unwrap();
    // Each acquire adds to the journal, and the fold detects the missing file.
    for n in 0..500 {
        let answer = server.client.try_acquire(&format!("lock-{n}"), "a", 60_000, json!({})).await;
        if answer.is_err() || answer.is_ok_and(|answer| answer.status != 200) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(!server.wait().success());
    let journal = rusqlite::Connection::open(data.join("journal.db")).unwrap();
    let first: i64 =
        journal.query_row("SELECT min(seq) FROM journal", [], |row| row.get(0)).unwrap();
    assert_eq!(first, 1, "records that are in no reachable tables are still in the journal");
}
