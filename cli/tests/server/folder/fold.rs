//! A fold that keeps failing is reported, and acquires are refused before the disk is full.

use leasehold_testkit::{Client, Process, Response, folder, json};

use crate::folder::BINARY;

/// Repeats the request until the response is as wanted.
async fn until(client: &Client, path: &str, is_wanted: impl Fn(&Response) -> bool) -> Response {
    for _ in 0..24_000 {
        let answer = client.get(path).await;
        if is_wanted(&answer) {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("never: {:?}", client.get(path).await);
}

#[tokio::test]
async fn a_fold_that_keeps_failing_is_told_and_acquires_are_refused_before_the_disk_is_full() {
    let folder = folder();
    let data = folder.path().join("data");
    let flags = ["--fold-interval=10ms", "--journal-bytes-max=20000"];
    let server = Process::start(BINARY, &data, &flags);
    let client = &server.client;
    let held = client.acquire("held", "a", 600_000, json!({})).await;
    assert_eq!(client.get("/readyz").await.status, 200);
    let tables = rusqlite::Connection::open(data.join("tables.db")).unwrap();
    tables.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    let script =
        "CREATE TRIGGER no BEFORE INSERT ON tokens BEGIN SELECT RAISE(FAIL, 'a test says no'); END";
    tables.execute_batch(script).unwrap();
    let mut refused = None;
    for n in 0..100 {
        let more = json!({"metadata": "x".repeat(4000)});
        let answer = client.acquire(&format!("lock-{n}"), "a", 600_000, more).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("the journal is full at some time");
    assert_eq!((refused.status, refused.text_of("code").as_str()), (503, "JOURNAL_FULL"));
    assert!(refused.text_of("error").contains("journal-bytes-max"), "{refused:?}");
    assert_eq!(refused.get("may_have_taken_effect"), false);
    let session = client.post("/v1/sessions", json!({"owner_id": "s", "ttl_ms": 60_000})).await;
    assert_eq!(session.expect("an answer").status, 503);
    assert_eq!(client.renew(&held, 600_000, json!({})).await.status, 200, "renewals go on");
    let not_ready = until(client, "/readyz", |answer| answer.status == 503).await;
    let why = not_ready.text_of("error");
    assert!(why.contains("cannot be folded") && why.contains("a test says no"), "{why}");
    let metrics = client.get("/metrics").await.text;
    let value = |name: &str| -> u64 {
        let line = metrics.lines().find(|line| line.starts_with(name)).expect("a metric");
        line.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number")
    };
    assert!(value("leasehold_fold_failures_total ") >= 3, "{metrics}");
    assert!(value("leasehold_journal_bytes ") >= 20_000, "{metrics}");
    assert_eq!(client.release(&held, json!({})).await.status, 200, "releases go on");
    tables.execute_batch("DROP TRIGGER no").unwrap();
    until(client, "/readyz", |answer| answer.status == 200).await;
    assert_eq!(
        client.acquire("held", "b", 600_000, json!({})).await.status,
        200,
        "all is well again"
    );
    assert!(server.terminate().success());
}
