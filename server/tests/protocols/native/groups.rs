//! Tests of acquiring several locks together over real HTTP, and of cancelled waits.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use leasehold_testkit::{Client, Local, Response, Value, folder, json};

fn wants(owner: &str, locks: &[&str], more: Value) -> Value {
    let locks: Vec<_> = locks.iter().map(|lock| json!({"lock_name": lock})).collect();
    let mut body = json!({"owner_id": owner, "ttl_ms": 60_000, "locks": locks});
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

async fn acquire(client: &Client, owner: &str, locks: &[&str], more: Value) -> Response {
    client.post("/v1/acquire", wants(owner, locks, more)).await.unwrap()
}

async fn n_waiting(client: &Client, lock: &str) -> u64 {
    client.get(&format!("/v1/locks/{lock}")).await.get("n_waiting").as_u64().unwrap_or(0)
}

fn leases(granted: &Response) -> Value {
    json!({"owner_id": granted.text_of("owner_id"), "leases": granted.get("leases")})
}

#[tokio::test]
async fn all_are_granted_or_none_is() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let granted = acquire(client, "ann", &["a", "b"], json!({"metadata": {"job": 7}})).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    assert_eq!(granted.get("leases")[1]["lock_name"], "b");
    assert_eq!(granted.get("leases")[1]["fencing_token"], 1);
    let refused = acquire(client, "bob", &["x", "b"], json!({})).await;
    assert_eq!((refused.status, refused.text_of("reason")), (409, "HELD".into()), "{refused:?}");
    assert_eq!(refused.text_of("lock_name"), "b");
    assert_eq!(refused.text_of("current_owner_id"), "ann");
    assert_eq!(refused.get("current_metadata"), &json!({"job": 7}));
    assert_eq!(client.get("/v1/locks/x").await.get("held"), false);
    let alone = acquire(client, "bob", &["b"], json!({})).await;
    assert_eq!((alone.status, alone.text_of("reason")), (409, "HELD".into()), "{alone:?}");
    assert_eq!(
        (alone.text_of("lock_name"), alone.text_of("current_owner_id")),
        ("b".into(), "ann".into())
    );
    let twice = acquire(client, "bob", &["x", "x"], json!({})).await;
    assert_eq!(twice.status, 400, "{twice:?}");
    let renewed = leases(&granted);
    let mut renewed =
        client.post("/v1/renew", with(renewed, "extend_by_ms", 90_000)).await.unwrap();
    assert_eq!(renewed.status, 200, "{renewed:?}");
    let released = client.post("/v1/release", leases(&granted)).await.unwrap();
    assert_eq!((released.status, released.get("released")), (200, &json!(true)));
    let again = client.post("/v1/release", leases(&granted)).await.unwrap();
    assert_eq!((again.status, again.get("released")), (409, &json!(false)));
    renewed =
        client.post("/v1/renew", with(leases(&granted), "extend_by_ms", 90_000)).await.unwrap();
    assert_eq!((renewed.status, renewed.text_of("lock_name")), (409, "a".into()), "{renewed:?}");
    local.stop().await;
}

fn with(mut body: Value, name: &str, value: u64) -> Value {
    body[name] = value.into();
    body
}

#[tokio::test]
async fn none_is_renewed_if_one_is_lost_and_those_left_are_released() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let granted = acquire(client, "ann", &["a", "b"], json!({})).await;
    client.post("/v1/locks/b/revoke", json!({"reason": "a test"})).await.unwrap();
    let before = client.get("/v1/locks/a").await;
    let renewed =
        client.post("/v1/renew", with(leases(&granted), "extend_by_ms", 80_000_000)).await.unwrap();
    assert_eq!((renewed.status, renewed.text_of("lock_name")), (409, "b".into()), "{renewed:?}");
    assert_eq!(renewed.text_of("reason"), "NOT_OWNER_OR_EXPIRED");
    let after = client.get("/v1/locks/a").await;
    assert_eq!(after.get("version"), before.get("version"));
    let released = client.post("/v1/release", leases(&granted)).await.unwrap();
    assert_eq!(released.status, 200, "{released:?}");
    assert_eq!(released.get("leases")[0]["released"], true);
    assert_eq!(released.get("leases")[1]["reason"], "NOT_OWNER");
    local.stop().await;
}

#[tokio::test]
async fn of_several_leases_of_one_lock_the_one_that_is_lost_is_named() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(client.acquire("a", "ann", 60_000, json!({"limit": 3})).await.body);
    }
    let id = |n: usize| held[n]["lease_id"].as_str().unwrap().to_owned();
    let lease = |n: usize| json!({"lock_name": "a", "lease_id": id(n), "fencing_token": held[n]["fencing_token"]});
    let release =
        json!({"owner_id": "ann", "lease_id": id(1), "fencing_token": held[1]["fencing_token"]});
    assert_eq!(client.post("/v1/locks/a/release", release).await.unwrap().status, 200);
    for (order, lost) in [([0, 1, 2], 1), ([1, 0, 2], 1), ([2, 0, 1], 1)] {
        let body = json!({"owner_id": "ann", "extend_by_ms": 1000, "leases": order.map(lease)});
        let renewed = client.post("/v1/renew", body).await.unwrap();
        assert_eq!((renewed.status, renewed.text_of("lock_name")), (409, "a".into()));
        assert_eq!(renewed.text_of("lease_id"), id(lost), "{renewed:?}");
    }
    // A malformed lease id is reported as it was sent.
    let mut odd = lease(0);
    odd["lease_id"] = "odd".into();
    let body = json!({"owner_id": "ann", "extend_by_ms": 1000, "leases": [lease(0), odd]});
    assert_eq!(client.post("/v1/renew", body).await.unwrap().text_of("lease_id"), "odd");
    local.stop().await;
}

#[tokio::test]
async fn those_who_wait_for_several_get_all_at_once_in_order() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let held = client.acquire("a", "ann", 60_000, json!({})).await;
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { acquire(&client, "bob", &["a", "b"], json!({"wait_ms": 60_000})).await }
    });
    local.until("it waits", async |client| n_waiting(client, "b").await == 1).await;
    // `b` is free, but no other client can acquire it before the waiting group.
    assert_eq!(client.acquire("b", "eve", 60_000, json!({})).await.status, 409);
    assert_eq!(client.release(&held, json!({})).await.status, 200);
    let granted = waiter.await.unwrap();
    assert_eq!(granted.status, 200, "{granted:?}");
    for lock in ["a", "b"] {
        assert_eq!(client.get(&format!("/v1/locks/{lock}")).await.text_of("owner_id"), "bob");
    }
    local.stop().await;
}

#[tokio::test]
async fn a_wait_that_runs_out_names_the_lock_in_the_way_and_leaves_all_queues() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    client.acquire("b", "ann", 60_000, json!({})).await;
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { acquire(&client, "bob", &["a", "b"], json!({"wait_ms": 100})).await }
    });
    local.until("it waits", async |client| n_waiting(client, "a").await == 1).await;
    local.advance_ms(100);
    let refused = waiter.await.unwrap();
    assert_eq!((refused.status, refused.text_of("reason")), (409, "WAIT_TIMEOUT".into()));
    assert_eq!(refused.text_of("lock_name"), "b");
    assert_eq!(refused.text_of("error"), "the lock was not free within 100ms");
    assert_eq!(client.acquire("a", "eve", 60_000, json!({})).await.status, 200);
    local.stop().await;
}

#[tokio::test]
async fn a_wait_for_a_lock_that_is_free_does_not_call_it_taken() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    client.acquire("a", "ann", 60_000, json!({})).await;
    let group = tokio::spawn({
        let client = client.clone();
        async move { acquire(&client, "bob", &["a", "b"], json!({"wait_ms": 60_000})).await }
    });
    local.until("the group waits", async |client| n_waiting(client, "b").await == 1).await;
    let one = tokio::spawn({
        let client = client.clone();
        async move { client.acquire("b", "eve", 60_000, json!({"wait_ms": 100})).await }
    });
    local.until("one waits behind it", async |client| n_waiting(client, "b").await == 2).await;
    local.advance_ms(100);
    let refused = one.await.unwrap();
    assert_eq!(
        refused.text_of("error"),
        "the lock was not granted within 100ms; it is free, but other clients wait for it"
    );
    group.abort();
    local.stop().await;
}

#[tokio::test]
async fn a_wait_is_cancelled_by_its_request_id() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    client.acquire("a", "ann", 60_000, json!({})).await;
    let waiter = tokio::spawn({
        let client = client.clone();
        let more = json!({"wait_ms": 600_000, "request_id": "r1"});
        async move { acquire(&client, "bob", &["a", "b"], more).await }
    });
    local.until("it waits", async |client| n_waiting(client, "b").await == 1).await;
    let id = json!({"owner_id": "bob", "request_id": "r1"});
    let other = client.post("/v1/locks/other/cancel", id.clone()).await.unwrap();
    assert_eq!((other.status, other.get("cancelled")), (200, &json!(false)));
    let cancelled = client.post("/v1/locks/b/cancel", id.clone()).await.unwrap();
    assert_eq!((cancelled.status, cancelled.get("cancelled")), (200, &json!(true)));
    let ended = waiter.await.unwrap();
    assert_eq!(ended.status, 409);
    let why = "the wait was cancelled or revoked before its 10m ended";
    assert_eq!(ended.text_of("error"), why);
    assert_eq!(client.post("/v1/cancel", id.clone()).await.unwrap().get("cancelled"), false);
    assert_eq!(n_waiting(client, "b").await, 0);
    local.stop().await;
}

#[tokio::test]
async fn a_group_keeps_its_place_over_a_restart_and_is_told_whole_again() {
    let data = folder();
    let local = Local::in_folder(data.path()).await;
    let held = local.client.acquire("a", "ann", 60_000, json!({})).await;
    let more = || json!({"wait_ms": 60_000, "request_id": "r1"});
    let waiter = tokio::spawn({
        let client = local.client.clone();
        async move { acquire(&client, "bob", &["a", "b"], more()).await }
    });
    local.until("it waits", async |client| n_waiting(client, "b").await == 1).await;
    local.stop().await;
    let _ = waiter.await;
    let local = Local::in_folder(data.path()).await;
    let waiter = tokio::spawn({
        let client = local.client.clone();
        async move { acquire(&client, "bob", &["a", "b"], more()).await }
    });
    let is_back =
        async |client: &Client| client.get("/v1/locks/b").await.get("queue")[0]["parked"] == false;
    local.until("it waits again", is_back).await;
    assert_eq!(local.client.release(&held, json!({})).await.status, 200);
    let granted = waiter.await.unwrap();
    assert_eq!(granted.status, 200, "{granted:?}");
    let again = acquire(&local.client, "bob", &["a", "b"], more()).await;
    assert_eq!(again.get("leases"), granted.get("leases"));
    let other = acquire(&local.client, "bob", &["b", "a"], more()).await;
    assert_eq!(other.text_of("code"), "REQUEST_ID_CONFLICT");
    let path = "/v1/namespaces/other/acquire";
    let elsewhere = local.client.post(path, wants("eve", &["a", "b"], json!({}))).await.unwrap();
    assert_eq!(elsewhere.status, 200, "another namespace: {elsewhere:?}");
    local.stop().await;
}
