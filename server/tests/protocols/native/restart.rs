//! Tests that all state survives a restart, and that time passes correctly during it.

use std::sync::Arc;

use leasehold_base::clock::FakeClock;
use leasehold_core::Span;
use leasehold_testkit::{Client, Local, folder, json, settings};

#[tokio::test]
async fn leases_queue_places_tokens_sessions_and_request_ids_survive() {
    let data = folder();
    let local = Local::in_folder(data.path()).await;
    let clock = local.clock.clone();
    let held = local.client.acquire("held", "a", 60_000, json!({"request_id": "r1"})).await;
    let opened =
        local.client.post("/v1/sessions", json!({"owner_id": "s", "ttl_ms": 60_000})).await;
    let session_id = opened.expect("an answer").text_of("session_id");
    let in_session = json!({"session_id": session_id, "metadata": {"why": "test"}});
    let body = json!({"owner_id": "s"});
    let body = merged(body, in_session);
    let by_session =
        local.client.post("/v1/locks/session-lock/acquire", body).await.expect("an answer");
    assert_eq!(by_session.status, 200, "{by_session:?}");
    let released = local.client.acquire("released", "a", 60_000, json!({"request_id": "r2"})).await;
    let done = local.client.release(&released, json!({"request_id": "r3"})).await;
    assert_eq!(done.status, 200);
    let client = Client::new(local.address);
    let waiting = json!({"wait_ms": 60_000, "request_id": "w1"});
    let again = waiting.clone();
    let waiter =
        tokio::spawn(async move { client.try_acquire("held", "b", 60_000, waiting).await });
    let n_waiting =
        async |client: &Client| client.get("/v1/locks/held").await.get("n_waiting").clone();
    local.until("b waits", async |client| n_waiting(client).await == 1).await;
    local.stop().await;
    let told = waiter.await.expect("no panic").expect("an answer");
    assert_eq!((told.status, told.text_of("code").as_str()), (503, "SHUTTING_DOWN"));

    clock.advance(Span::from_secs(5));
    let local = Local::start_at(settings(Some(data.path())), clock).await;
    let client = local.client.clone();
    let state = client.get("/v1/locks/held").await;
    assert_eq!(state.get("queue")[0]["parked"], true, "{state:?}");
    assert_eq!(state.get("holders")[0]["expires_in_ms"], 55_000);
    let replayed = client.acquire("held", "a", 60_000, json!({"request_id": "r1"})).await;
    assert_eq!(replayed.get("lease_id"), held.get("lease_id"));
    assert_eq!(replayed.number("expires_in_ms"), 55_000, "what is left now, not what was then");
    assert_eq!(
        client.release(&released, json!({"request_id": "r3"})).await.status,
        200,
        "replayed"
    );
    let spent = client.acquire("released", "a", 60_000, json!({"request_id": "r2"})).await;
    assert_eq!((spent.status, spent.text_of("code").as_str()), (409, "REQUEST_ID_SPENT"));
    let kept = client.post(&format!("/v1/sessions/{session_id}/keepalive"), json!({})).await;
    assert_eq!(kept.expect("an answer").number("expires_in_ms"), 60_000);
    let shown = client.get("/v1/locks/session-lock").await;
    assert_eq!(shown.get("metadata")["why"], "test");
    let back = tokio::spawn({
        let client = client.clone();
        async move { client.acquire("held", "b", 60_000, again).await }
    });
    let is_back = async |client: &Client| {
        client.get("/v1/locks/held").await.get("queue")[0]["parked"] == false
    };
    local.until("b is back", is_back).await;
    assert_eq!(client.renew(&held, 60_000, json!({})).await.status, 200);
    assert_eq!(client.release(&held, json!({})).await.status, 200);
    assert_eq!(back.await.expect("no panic").number("fencing_token"), 2, "tokens go on");
    local.stop().await;
}

fn merged(
    mut body: leasehold_testkit::Value,
    more: leasehold_testkit::Value,
) -> leasehold_testkit::Value {
    let (Some(body_map), Some(more)) = (body.as_object_mut(), more.as_object()) else {
        return body;
    };
    body_map.extend(more.clone());
    body
}

#[tokio::test]
async fn a_restart_loop_extends_no_lease() {
    let data = folder();
    let clock = Arc::new(FakeClock::default());
    let local = Local::start_at(settings(Some(data.path())), clock.clone()).await;
    assert_eq!(local.client.acquire("db", "a", 30_000, json!({})).await.status, 200);
    local.stop().await;
    for _ in 0..29 {
        clock.advance(Span::from_secs(1));
        let local = Local::start_at(settings(Some(data.path())), clock.clone()).await;
        assert_eq!(local.client.acquire("db", "b", 30_000, json!({})).await.status, 409);
        local.stop().await;
    }
    clock.advance(Span::from_secs(1));
    let local = Local::start_at(settings(Some(data.path())), clock).await;
    assert_eq!(local.client.acquire("db", "b", 30_000, json!({})).await.status, 200);
    local.stop().await;
}

#[tokio::test]
async fn another_boot_lets_leases_live_longer_and_never_shorter() {
    let data = folder();
    let clock = Arc::new(FakeClock::default());
    let local = Local::start_at(settings(Some(data.path())), clock.clone()).await;
    clock.advance(Span::from_secs(100));
    assert_eq!(local.client.acquire("db", "a", 30_000, json!({})).await.status, 200);
    local.stop().await;
    clock.reboot();
    clock.advance(Span::from_secs(3600));
    let local = Local::start_at(settings(Some(data.path())), clock.clone()).await;
    let state = local.client.get("/v1/locks/db").await;
    assert_eq!(state.get("holders")[0]["expires_in_ms"], 30_000, "{state:?}");
    clock.advance(Span::from_secs(30));
    assert_eq!(local.client.acquire("db", "b", 30_000, json!({})).await.status, 200);
    local.stop().await;
}

#[tokio::test]
async fn setting_the_wall_clock_by_a_day_either_way_changes_nothing() {
    const DAY_MS: i64 = 86_400_000;
    let local = Local::ephemeral().await;
    local.clock.set_wall_ms(10 * DAY_MS);
    let held = local.client.acquire("db", "a", 30_000, json!({})).await;
    assert_eq!(held.get("lease_expiry_ms"), 10 * DAY_MS + 30_000);
    for wall_ms in [11 * DAY_MS, 9 * DAY_MS] {
        local.clock.set_wall_ms(wall_ms);
        assert_eq!(local.client.acquire("db", "b", 30_000, json!({})).await.status, 409);
        let renewed = local.client.renew(&held, 30_000, json!({})).await;
        assert_eq!(renewed.number("expires_in_ms"), 30_000);
        assert_eq!(renewed.get("lease_expiry_ms"), wall_ms + 30_000);
    }
    local.advance_ms(30_000);
    assert_eq!(local.client.acquire("db", "b", 30_000, json!({})).await.status, 200);
}

#[tokio::test]
async fn a_replay_tells_what_is_left_and_not_what_was() {
    let local = Local::ephemeral().await;
    let ask = json!({"request_id": "r1"});
    let first = local.client.acquire("db", "a", 30_000, ask.clone()).await;
    local.advance_ms(12_345);
    let again = local.client.acquire("db", "a", 30_000, ask.clone()).await;
    assert_eq!(again.get("fencing_token"), first.get("fencing_token"));
    assert_eq!(again.number("expires_in_ms"), 30_000 - 12_345);
    local.advance_ms(30_000);
    assert_eq!(
        local.client.acquire("db", "a", 30_000, ask).await.text_of("code"),
        "REQUEST_ID_SPENT"
    );
}
