//! The examples work as they describe.

#![allow(dead_code, reason = "their main functions are for people")]

#[path = "../../examples/console.rs"]
mod console;
#[path = "../../examples/fenced_sqlite.rs"]
mod fenced_sqlite;
#[path = "../../examples/lock.rs"]
mod lock;
#[path = "../../examples/orders.rs"]
mod orders;
#[path = "../../examples/session.rs"]
mod session;

use leasehold_testkit::{Local, folder};

#[tokio::test]
async fn a_lock_is_acquired_and_released() {
    let local = Local::ephemeral().await;
    let url = format!("http://{}", local.address);
    assert_eq!(lock::demo(&url).await.unwrap(), 1);
    assert_eq!(lock::demo(&url).await.unwrap(), 2);
}

#[tokio::test]
async fn the_example_of_the_page_is_the_one_that_runs() {
    let local = Local::ephemeral().await;
    let url = format!("http://{}", local.address);
    assert_eq!(orders::orders(&url).await.unwrap(), 1);
    assert_eq!(orders::orders(&url).await.unwrap(), 2);
    let source = include_str!("../../examples/orders.rs").replace("pub(crate) ", "");
    let (_, shown) = source.split_once("\n\n").unwrap();
    let (shown, _) = shown.split_once("\nasync fn write_with").unwrap();
    let page = include_str!("../../../docs/reference/sdk.md");
    assert!(page.contains(shown), "docs/reference/sdk.md should show:\n{shown}");
}

#[tokio::test]
async fn what_the_console_shows_is_the_example_that_runs() {
    let local = Local::ephemeral().await;
    let url = format!("http://{}", local.address);
    console::take(&url).await.unwrap();
    let page = local.client.get("/console/take").await.text;
    let (_, shown) = page.split_once("aria-label=\"Example for Rust\">").unwrap();
    let (shown, _) = shown.split_once("</pre>").unwrap();
    let shown =
        shown.replace("&quot;", "\"").replace("&gt;", ">").replace(&format!("{url:?}"), "url");
    let source = include_str!("../../examples/console.rs");
    let lines = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (uses, work) = shown.split_once("\n\n").unwrap();
    for part in [uses, work] {
        assert!(
            lines(source).contains(&lines(part)),
            "sdk/examples/console.rs should have:\n{part}"
        );
    }
}

#[tokio::test]
async fn a_session_takes_what_is_free() {
    let local = Local::ephemeral().await;
    let url = format!("http://{}", local.address);
    local.client.acquire("shard-3", "other", 60_000, leasehold_testkit::json!({})).await;
    assert_eq!(session::demo(&url).await.unwrap(), 7);
    assert_eq!(session::demo(&url).await.unwrap(), 7, "they were released");
}

#[tokio::test]
async fn a_gate_in_sqlite_refuses_a_late_write_also_after_a_restart() {
    let local = Local::ephemeral().await;
    let url = format!("http://{}", local.address);
    let folder = folder();
    let path = folder.path().join("report.db");
    let refused = fenced_sqlite::demo(&url, &path).await.unwrap();
    assert_eq!(refused, "token 1 is stale: 2 was here already");
    let mut again = fenced_sqlite::Reports::open(&path).unwrap();
    assert!(again.write("monthly", 1, "late").is_err());
    assert!(again.write("monthly", 2, "the same holder again").is_ok());
    assert!(again.write("monthly", 3, "newer").is_ok());
    assert_eq!(again.read("monthly").unwrap().as_deref(), Some("newer"));
}
