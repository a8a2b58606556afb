//! Tests of the history of events over real HTTP, including events that are only on disk.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::time::Duration;

use leasehold_store::history;
use leasehold_testkit::{Local, Value, json, settings};

/// Starts a server that folds immediately and keeps only two events in memory.
async fn start(data: &Path, bytes_max: u64) -> Local {
    let mut settings = settings(Some(data));
    settings.fold_interval = Duration::from_millis(1);
    settings.engine.events_max = 2;
    settings.history = history::Bounds { bytes_max, ..history::Bounds::default() };
    Local::start(settings).await
}

/// Returns the event kinds, locks and owners on a page, and the cursor of the next page.
async fn page(local: &Local, path: &str) -> (Vec<String>, Option<String>) {
    let answer = local.client.get(path).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let line = |event: &Value| {
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        format!("{} {} {}", text("kind"), text("lock_name"), text("owner_id"))
    };
    let events = answer.get("events").as_array().unwrap().iter().map(line).collect();
    (events, answer.body["next_cursor"].as_str().map(str::to_owned))
}

/// Returns the events on all pages of a query.
async fn all(local: &Local, path: &str) -> Vec<String> {
    let (mut lines, mut cursor) = page(local, path).await;
    while let Some(at) = cursor {
        let join = if path.contains('?') { '&' } else { '?' };
        let (more, next) = page(local, &format!("{path}{join}cursor={at}")).await;
        lines.extend(more);
        cursor = next;
    }
    lines
}

#[tokio::test]
async fn what_happened_is_told_newest_first_over_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let local = start(&data, 1 << 20).await;
    let held = local.client.acquire("db", "a", 60_000, json!({})).await;
    local.client.release(&held, json!({})).await;
    local.client.acquire("other", "b", 60_000, json!({})).await;
    local.stop().await;
    let local = start(&data, 1 << 20).await;
    local.client.acquire("db", "b", 60_000, json!({})).await;
    local.advance_ms(60_000);
    assert_eq!(local.client.get("/v1/locks/db").await.get("held"), false);
    let of_db = ["expired db b", "granted db b", "released db a", "granted db a"];
    assert_eq!(all(&local, "/v1/locks/db/history").await, of_db);
    assert_eq!(all(&local, "/v1/locks/db/history?limit=1").await, of_db, "page by page");
    let (of_b, _) = page(&local, "/v1/history?owner=b").await;
    assert_eq!(of_b.len(), 4, "{of_b:?}");
    assert_eq!(of_b[3], "granted other b");
    let (of_elsewhere, next) = page(&local, "/v1/namespaces/elsewhere/history").await;
    assert_eq!((of_elsewhere.len(), next), (0, None));
    let (since, _) = page(&local, "/v1/locks/db/history?since=60000").await;
    assert_eq!(since, ["expired db b"]);
    local.stop().await;
}

#[tokio::test]
async fn history_is_bounded_in_bytes_the_oldest_goes_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    for round in 0..20 {
        let local = start(&data, 4_000).await;
        for n in 0..20 {
            let lock = format!("lock-{round}-{n}");
            local.client.acquire(&lock, "a", 60_000, json!({})).await;
        }
        local.stop().await;
    }
    let local = start(&data, 4_000).await;
    let kept = all(&local, "/v1/history?limit=1000").await;
    assert!((20..400).contains(&kept.len()), "{} events", kept.len());
    assert_eq!(kept[0], "granted lock-19-19 a");
    assert!(!kept.iter().any(|line| line.contains("lock-0-")), "the oldest are gone");
    local.stop().await;
}

#[tokio::test]
async fn damaged_history_is_moved_aside_and_delays_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let local = start(&data, 1 << 20).await;
    local.client.acquire("db", "a", 60_000, json!({})).await;
    local.stop().await;
    std::fs::write(history::path(&data), b"this is no database, and long enough to be read as one")
        .expect("written");
    let local = start(&data, 1 << 20).await;
    assert_eq!(local.client.get("/v1/locks/db").await.get("held"), true);
    local.client.acquire("db2", "a", 60_000, json!({})).await;
    assert_eq!(all(&local, "/v1/history").await, ["granted db2 a"]);
    assert!(data.join("history.db.damaged-1").exists());
    local.stop().await;
}

#[tokio::test]
async fn questions_that_make_no_sense_are_refused() {
    let local = Local::ephemeral().await;
    for query in ["limit=0", "limit=1001", "cursor=x", "cursor=0-0-0", "since=yesterday", "x=1"] {
        let answer = local.client.get(&format!("/v1/locks/db/history?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.body);
    }
    let name = "x".repeat(513);
    for path in [format!("/v1/locks/{name}/history"), format!("/v1/events?lock={name}")] {
        let answer = local.client.get(&path).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_quiet_server_forgets_what_is_too_old() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut settings = settings(Some(&data));
    settings.fold_interval = Duration::from_millis(1);
    settings.history.age_max = Duration::from_secs(3600);
    let local = Local::start(settings).await;
    let held = local.client.acquire("db", "a", 60_000, json!({})).await;
    local.client.release(&held, json!({})).await;
    let file = history::path(&data);
    let n_blocks = |file: &Path| {
        let db = rusqlite::Connection::open(file).unwrap();
        let count = db.query_row("SELECT count(*) FROM blocks", [], |row| row.get(0));
        count.unwrap_or(0_i64)
    };
    local.until("it is on disk", async |_| n_blocks(&file) > 0).await;
    local.advance_ms(3_600_000);
    let kept = ["released db a", "granted db a"];
    assert_eq!(all(&local, "/v1/locks/db/history").await, kept, "not older than it may be");
    assert!(n_blocks(&file) > 0);
    local.advance_ms(1);
    // Only time has passed. The events are no longer returned, and the server soon deletes them from disk.
    assert_eq!(all(&local, "/v1/locks/db/history").await, [""; 0]);
    assert_eq!(all(&local, "/v1/history?since=0").await, [""; 0]);
    local.until("it is not on disk", async |_| n_blocks(&file) == 0).await;
    local.stop().await;
}
