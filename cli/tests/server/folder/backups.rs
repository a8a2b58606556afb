//! Backups that a running server takes, on a schedule and on request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_store::sqlite::verify;
use leasehold_testkit::{Process, folder, json};

use crate::folder::{BINARY, leasehold, start, text};

/// Returns the complete backups, oldest first.
fn complete(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| verify(path).is_ok_and(|report| report.is_backup));
    found.sort();
    found
}

fn age(metrics: &str) -> Option<u64> {
    let line = metrics.lines().find(|line| line.starts_with("leasehold_backup_age_seconds"))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn a_server_takes_backups_as_often_as_told_and_keeps_as_many_as_told() {
    let folder = folder();
    let [data, dir] = ["data", "backups"].map(|name| folder.path().join(name));
    let flag = format!("--backup-dir={}", dir.display());
    let flags = [&flag, "--backup-every=20ms", "--backup-keep=3", "--fold-interval=10ms"];
    let server = Process::start(BINARY, &data, &flags);
    // A backup that was interrupted by a kill, and an unrelated directory.
    let interrupted = dir.join("leasehold-20240115T103000.000Z");
    std::fs::create_dir_all(&interrupted).unwrap();
    std::fs::write(interrupted.join("INCOMPLETE"), "backup\n").unwrap();
    std::fs::create_dir_all(dir.join("other")).unwrap();
    assert_eq!(server.client.acquire("db", "a", 600_000, json!({})).await.status, 200);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..12_000 {
        seen.extend(complete(&dir));
        if seen.len() >= 6 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(seen.len() >= 6, "{seen:?}");
    let metrics = server.client.get("/metrics").await.text;
    assert!(age(&metrics).is_some_and(|age| age < 60), "{metrics}");
    assert!(server.terminate().success());
    let kept = complete(&dir);
    assert_eq!(kept.len(), 3, "{kept:?}");
    let entries = std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(entries, 4, "what was interrupted is gone, what is not ours is there");
    let loaded = start(&kept[2]).expect("a backup");
    assert!(loaded.is_restored);
    // The next server knows the age of the latest backup, and takes none before the interval is over.
    let flags = [&flag, "--backup-every=1h"];
    let server = Process::start(BINARY, &data, &flags);
    let metrics = server.client.get("/metrics").await.text;
    assert!(age(&metrics).is_some(), "{metrics}");
    assert!(server.terminate().success());
    assert_eq!(complete(&dir).last(), kept.get(1), "one of them was just started from");
}

#[tokio::test]
async fn a_backup_can_be_asked_for_and_goes_where_the_server_says() {
    let folder = folder();
    let [data, dir, restored] =
        ["data", "backups", "restored"].map(|name| folder.path().join(name));
    let server = Process::start(BINARY, &data, &[]);
    let off = server.client.post("/v1/admin/backup", json!({})).await.expect("an answer");
    assert_eq!((off.status, off.text_of("code").as_str()), (409, "BACKUPS_OFF"));
    assert!(off.text_of("error").contains("--backup-dir"), "{off:?}");
    assert_eq!(age(&server.client.get("/metrics").await.text), None);
    assert!(server.terminate().success());

    let server = Process::start(BINARY, &data, &[&format!("--backup-dir={}", dir.display())]);
    assert_eq!(server.client.acquire("db", "a", 600_000, json!({})).await.status, 200);
    let path = json!({"path": "/tmp/elsewhere", "name": "elsewhere"});
    let taken = server.client.post("/v1/admin/backup", path).await.expect("an answer");
    assert_eq!(taken.status, 201, "{taken:?}");
    let copy = dir.join(taken.text_of("name"));
    assert_eq!(verify(&copy).expect("sound").counts.n_active, 1);
    let size = |name: &str| copy.join(name).metadata().unwrap().len();
    assert_eq!(taken.number("bytes"), size("journal.db") + size("tables.db"));
    let url = format!("http://{}", server.address);
    let (worked, said) = leasehold(&["backup", "--url", &url]);
    assert!(worked && said.contains("the server took the backup leasehold-"), "{said}");
    assert_eq!(complete(&dir).len(), 2);
    let (worked, said) = leasehold(&["restore", text(&copy), "--data", text(&restored)]);
    assert!(worked, "{said}");
    assert_eq!(start(&restored).expect("restored").machine.counts().n_active, 0);
    assert!(server.terminate().success());
}

#[tokio::test]
async fn a_backup_that_cannot_be_taken_is_told_with_the_reason() {
    let folder = folder();
    let [data, dir] = ["data", "backups"].map(|name| folder.path().join(name));
    std::fs::write(&dir, "no folder").unwrap();
    let server = Process::start(BINARY, &data, &[&format!("--backup-dir={}", dir.display())]);
    let failed = server.client.post("/v1/admin/backup", json!({})).await.expect("an answer");
    assert_eq!((failed.status, failed.text_of("code").as_str()), (500, "BACKUP_FAILED"));
    assert!(failed.text_of("error").contains(text(&dir)), "{failed:?}");
    assert_eq!(server.client.get("/readyz").await.status, 200, "the server goes on");
}

#[tokio::test]
async fn a_backup_directory_that_vanishes_is_an_error_and_is_not_made_again() {
    let folder = folder();
    let [data, dir] = ["data", "backups"].map(|name| folder.path().join(name));
    let flag = format!("--backup-dir={}", dir.display());
    let server = Process::start(BINARY, &data, &[&flag, "--backup-every=20ms"]);
    let client = &server.client;
    assert!(dir.is_dir(), "the start makes it");
    let ask = async || client.post("/v1/admin/backup", json!({})).await.expect("an answer");
    let failures = async || {
        let metrics = client.get("/metrics").await.text;
        let line = metrics.lines().find_map(|line| {
            line.strip_prefix("leasehold_backup_failures_total{} ")?.parse::<u64>().ok()
        });
        line.unwrap_or_else(|| panic!("not counted: {metrics}"))
    };
    assert_eq!(failures().await, 0);
    // A backup in progress might create its own directory.
    let elsewhere = folder.path().join("elsewhere");
    std::fs::rename(&dir, &elsewhere).unwrap();
    let mut n = 0;
    for _ in 0..24_000 {
        n = failures().await;
        if n >= 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(n >= 2, "the schedule tries and counts: {n}");
    let failed = ask().await;
    assert_eq!((failed.status, failed.text_of("code").as_str()), (500, "BACKUP_FAILED"));
    let why = failed.text_of("error");
    assert!(why.contains(text(&dir)) && why.contains("is missing"), "{why}");
    assert!(!dir.exists(), "nothing is made in its place");
    assert_eq!(client.get("/readyz").await.status, 200, "locks do not depend on it");
    std::fs::rename(&elsewhere, &dir).unwrap();
    let mut taken = ask().await;
    // A scheduled backup might be in progress.
    while taken.status == 503 {
        taken = ask().await;
    }
    assert_eq!(taken.status, 201, "{taken:?}");
    assert!(server.terminate().success());
}

#[test]
fn settings_of_backups_that_do_not_go_together_are_refused() {
    for (flags, words) in [
        (&["--backup-every=1h"][..], "needs --backup-dir"),
        (&["--backup-dir=x", "--ephemeral"], "nothing to back up"),
        (&["--backup-dir=x", "--backup-every=0s"], "at least 10ms"),
        (&["--backup-dir=x", "--backup-keep=0"], "0 is not in 1.."),
    ] {
        let (worked, said) = leasehold(&[&["check-config"], flags].concat());
        assert!(!worked && said.contains(words), "{said:?} does not say {words:?}");
    }
}
