//! Tests of memory budgets in bytes, for the whole server and for each principal.

use leasehold_core::Limits;
use leasehold_testkit::{Local, json};

use crate::bounds::{check_full, metric, with_limits};

/// 32,000 locks with 16 kB of metadata used to take 552 MB without a refusal. This test uses a budget of 1 MiB.
#[tokio::test]
async fn metadata_of_all_leases_together_has_a_budget() {
    let limits = Limits { metadata_total_bytes_max: 1 << 20, ..Limits::default() };
    let local = with_limits(limits).await;
    let more = json!({"metadata": "x".repeat(16 * 1024 - 2)});
    let mut held = Vec::new();
    let refused = loop {
        let answer =
            local.client.acquire(&format!("l{}", held.len()), "a", 60_000, more.clone()).await;
        if answer.status != 200 {
            break answer;
        }
        held.push(answer);
    };
    assert_eq!(held.len(), 64);
    check_full(&refused, 1 << 20, "metadata-total-bytes-max");
    assert_eq!(metric(&local, "leasehold_metadata_bytes").await, 1 << 20);
    let without = local.client.acquire("small", "a", 60_000, json!({})).await;
    assert_eq!(without.status, 200, "who sends none is not refused");
    assert_eq!(local.client.release(&held[0], json!({"request_id": "r"})).await.status, 200);
    assert_eq!(local.client.acquire("again", "a", 60_000, more).await.status, 200);
    let replayed = local.client.release(&held[0], json!({"request_id": "r"})).await;
    assert_eq!(replayed.status, 200, "what has ended keeps its answer, not its metadata");
}

#[tokio::test]
async fn waiting_request_ids_and_names_have_budgets_too() {
    let defaults = Limits::default;
    let local = with_limits(Limits { queues_total_bytes_max: 0, ..defaults() }).await;
    local.client.acquire("l", "a", 60_000, json!({})).await;
    let waiting = local.client.acquire("l", "b", 60_000, json!({"wait_ms": 1000})).await;
    check_full(&waiting, 0, "queues-total-bytes-max");
    let local = with_limits(Limits { requests_total_bytes_max: 10, ..defaults() }).await;
    let named = local.client.acquire("l", "a", 60_000, json!({"request_id": "r"})).await;
    check_full(&named, 10, "requests-total-bytes-max");
    let local = with_limits(Limits { names_total_bytes_max: 300, ..defaults() }).await;
    let long = local.client.acquire(&"l".repeat(200), "a", 60_000, json!({})).await;
    check_full(&long, 300, "names-total-bytes-max");
}

/// Claims stay readable after their end, within a separate budget.
#[tokio::test]
async fn ended_claims_are_forgotten_oldest_first() {
    let limits = Limits { ended_total_bytes_max: 40_000, ..Limits::default() };
    let local = with_limits(limits).await;
    for n in 1..=5 {
        let claim =
            json!({"resource": format!("r{n}"), "timeout": 60, "metadata": "x".repeat(16_000)});
        assert_eq!(local.client.post("/v1/claims/", claim).await.unwrap().status, 201);
        let path = format!("/v1/claims/{n}/");
        let body = json!({"status": "released"}).to_string();
        let kind = Some("application/json");
        let ended = local.client.send(hyper::Method::PATCH, &path, kind, body).await.unwrap();
        assert!((200..300).contains(&ended.status), "{ended:?}");
        assert!(metric(&local, "leasehold_ended_bytes").await <= 40_000);
    }
    for (n, status) in [(1, 404), (2, 404), (3, 404), (4, 200), (5, 200)] {
        assert_eq!(local.client.get(&format!("/v1/claims/{n}/")).await.status, status, "{n}");
    }
}

/// A client cannot get a second quota by using another `owner_id`.
#[tokio::test]
async fn connections_from_one_address_count_as_one_client() {
    let limits = Limits { principal_leases_max: 3, principal_sessions_max: 2, ..Limits::default() };
    let local = with_limits(limits).await;
    for n in 0..3 {
        assert_eq!(acquire(&local, n).await.status, 200);
    }
    check_full(&acquire(&local, 3).await, 3, "principal-leases-max");
    let open = async |n: usize| {
        let session = json!({"owner_id": format!("o{n}"), "ttl_ms": 60_000});
        local.client.post("/v1/sessions", session).await.unwrap()
    };
    // Files sessions have a separate limit, so they do not use up the sessions for locks.
    for _ in 0..2 {
        assert_eq!(local.client.post("/auth/session", json!({})).await.unwrap().status, 201);
    }
    assert_eq!(local.client.post("/auth/session", json!({})).await.unwrap().status, 429);
    assert_eq!((open(1).await.status, open(2).await.status), (201, 201));
    check_full(&open(3).await, 2, "principal-sessions-max");
}

async fn acquire(local: &Local, n: usize) -> leasehold_testkit::Response {
    local.client.acquire(&format!("l{n}"), &format!("owner-{n}"), 60_000, json!({})).await
}

/// Each address of anonymous clients has its own share.
#[tokio::test]
async fn one_address_has_a_share_of_each_budget() {
    let defaults = Limits::default;
    let local = with_limits(Limits { principal_metadata_bytes_max: 10, ..defaults() }).await;
    let more = json!({"metadata": "0123456789"});
    let refused = local.client.acquire("l", "a", 60_000, more).await;
    check_full(&refused, 10, "principal-metadata-bytes-max");
    let local = with_limits(Limits { principal_queues_bytes_max: 0, ..defaults() }).await;
    local.client.acquire("l", "a", 60_000, json!({})).await;
    let waiting = local.client.acquire("l", "b", 60_000, json!({"wait_ms": 1000})).await;
    check_full(&waiting, 0, "principal-queues-bytes-max");
    let local = with_limits(Limits { principal_requests_bytes_max: 10, ..defaults() }).await;
    let named = local.client.acquire("l", "a", 60_000, json!({"request_id": "r"})).await;
    check_full(&named, 10, "principal-requests-bytes-max");
    let local = with_limits(Limits { principal_names_bytes_max: 200, ..defaults() }).await;
    let long = local.client.acquire(&"l".repeat(200), "a", 60_000, json!({})).await;
    check_full(&long, 200, "principal-names-bytes-max");
}

/// A client with more ended claims than its share loses its own oldest ones.
#[tokio::test]
async fn ended_claims_have_a_share_too() {
    let local = with_limits(Limits { principal_ended_max: 2, ..Limits::default() }).await;
    for n in 1..=3 {
        let claim = json!({"resource": format!("r{n}"), "timeout": 60});
        assert_eq!(local.client.post("/v1/claims/", claim).await.unwrap().status, 201);
        let (path, kind) = (format!("/v1/claims/{n}/"), Some("application/json"));
        let body = json!({"status": "released"}).to_string();
        let ended = local.client.send(hyper::Method::PATCH, &path, kind, body).await.unwrap();
        assert!((200..300).contains(&ended.status), "{ended:?}");
    }
    for (n, status) in [(1, 404), (2, 200), (3, 200)] {
        assert_eq!(local.client.get(&format!("/v1/claims/{n}/")).await.status, status, "{n}");
    }
}

/// Tests the metrics for what `locks-max`, `idle-max`, `answered-max` and `events-max` limit.
#[tokio::test]
async fn remembered_locks_ended_leases_and_kept_events_have_metrics() {
    let local = with_limits(Limits::default()).await;
    let held = acquire(&local, 0).await;
    let other = acquire(&local, 1).await;
    assert_eq!(metric(&local, "leasehold_ended_leases").await, 0);
    assert_eq!(metric(&local, "leasehold_idle_locks").await, 0);
    let n_events = metric(&local, "leasehold_kept_events").await;
    let released = local.client.release(&held, json!({"request_id": "r"})).await;
    assert_eq!(released.status, 200, "{released:?}");
    assert_eq!(metric(&local, "leasehold_locks").await, 2);
    assert_eq!(metric(&local, "locks_held").await, 1);
    assert_eq!(metric(&local, "leasehold_ended_leases").await, 1);
    assert_eq!(metric(&local, "leasehold_idle_locks").await, 0, "a request id is about it");
    assert_eq!(local.client.release(&other, json!({})).await.status, 200);
    assert_eq!(metric(&local, "leasehold_idle_locks").await, 1);
    assert_eq!(metric(&local, "leasehold_kept_events").await, n_events + 2);
}

#[tokio::test]
async fn metadata_is_nested_only_so_deep() {
    let local = Local::ephemeral().await;
    for (depth, status) in [(64, 200), (65, 400)] {
        let mut metadata = json!(1);
        for _ in 0..depth {
            metadata = json!([metadata]);
        }
        let lock = format!("deep-{depth}");
        let answer = local.client.acquire(&lock, "a", 1000, json!({"metadata": metadata})).await;
        assert_eq!(answer.status, status, "{answer:?}");
        if status == 400 {
            assert!(answer.text_of("error").contains("64 deep (metadata-depth-max)"), "{answer:?}");
        }
    }
}
