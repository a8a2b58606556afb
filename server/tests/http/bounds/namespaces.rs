//! Tests that unused namespaces are forgotten, and that a token floor keeps their tokens from being reused.

use leasehold_core::Limits;
use leasehold_testkit::{Local, json, settings};

use crate::bounds::{check_full, metric, with_limits};

async fn acquire(local: &Local, namespace: &str, ttl_ms: u64) -> leasehold_testkit::Response {
    let path = format!("/v1/namespaces/{namespace}/locks/l/acquire");
    local.client.post(&path, json!({"owner_id": "a", "ttl_ms": ttl_ms})).await.unwrap()
}

async fn release(local: &Local, namespace: &str, held: &leasehold_testkit::Response) {
    let body = json!({
        "owner_id": "a", "lease_id": held.get("lease_id"), "fencing_token": held.get("fencing_token"),
    });
    let path = format!("/v1/namespaces/{namespace}/locks/l/release");
    assert_eq!(local.client.post(&path, body).await.unwrap().status, 200);
}

/// 10,000 acquires with a ttl of 1 ms in new namespaces once made every dialect answer 429 forever.
#[tokio::test]
async fn unused_namespaces_are_removed_for_new_ones() {
    let limits = Limits { namespaces_max: 20, ..Limits::default() };
    let local = with_limits(limits).await;
    for n in 0..50 {
        let namespace = format!("n{n}");
        let held = acquire(&local, &namespace, 1000).await;
        assert_eq!(held.status, 200, "{held:?}");
        release(&local, &namespace, &held).await;
    }
    assert!(metric(&local, "leasehold_namespaces").await <= 20);
    // Expired leases are remembered for their owners, but they do not keep others from using the space.
    for n in 50..70 {
        acquire(&local, &format!("n{n}"), 1).await;
    }
    local.advance_ms(2);
    local
        .until("what expired makes room", async |client| {
            let body = json!({"owner_id": "a", "ttl_ms": 1000});
            let path = "/v1/namespaces/one-more/locks/l/acquire";
            client.post(path, body).await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
}

#[tokio::test]
async fn one_address_has_only_so_many_namespaces() {
    let limits = Limits { principal_namespaces_max: 3, ..Limits::default() };
    let local = with_limits(limits).await;
    for n in 0..3 {
        assert_eq!(acquire(&local, &format!("n{n}"), 60_000).await.status, 200);
    }
    check_full(&acquire(&local, "n3", 60_000).await, 3, "principal-namespaces-max");
}

/// The tables on disk forget the namespace too. Even after a restart, or with a new lock of the same name, no token
/// repeats.
#[tokio::test]
async fn a_forgotten_namespace_stays_forgotten_and_its_tokens_stay_used() {
    let folder = tempfile::tempdir().unwrap();
    let few = || {
        let mut few = settings(Some(folder.path()));
        few.engine.limits.namespaces_max = 1;
        few
    };
    let local = Local::start(few()).await;
    for expected in 1..=3 {
        let held = acquire(&local, "shop", 60_000).await;
        assert_eq!(held.number("fencing_token"), expected);
        release(&local, "shop", &held).await;
    }
    let other = acquire(&local, "other", 60_000).await;
    assert_eq!((other.status, other.number("fencing_token")), (200, 4));
    release(&local, "other", &other).await;
    local.stop().await;
    let tables = rusqlite::Connection::open(folder.path().join("tables.db")).unwrap();
    let names = |db: &rusqlite::Connection| -> Vec<String> {
        let mut names = db.prepare("SELECT name FROM namespaces").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(names(&tables), ["other"]);
    let local = Local::start(few()).await;
    let again = acquire(&local, "shop", 60_000).await;
    assert_eq!((again.status, again.number("fencing_token")), (200, 5));
    local.stop().await;
    assert_eq!(names(&tables), ["shop"]);
}
