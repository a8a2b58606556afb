//! Tests of the queue over real HTTP: it is fair, and it loses no waiter.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

use std::time::Duration;

use leasehold_testkit::{Client, Local, Value, folder, json};

async fn n_waiting(client: &Client, lock: &str) -> u64 {
    client.get(&format!("/v1/locks/{lock}")).await.get("n_waiting").as_u64().unwrap_or(0)
}

fn queue_of(lock: &Value) -> Vec<(String, bool)> {
    let queue = lock["queue"].as_array().cloned().unwrap_or_default();
    let entry =
        |w: &Value| (w["owner_id"].as_str().unwrap().into(), w["parked"].as_bool().unwrap());
    queue.iter().map(entry).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_waiters_are_served_in_the_order_they_came() {
    const N: usize = 1000;
    let data = folder();
    let local = Local::in_folder(data.path()).await;
    let mut holder = local.client.acquire("db", "first", 60_000, json!({})).await;
    let mut waiters = Vec::new();
    for n in 0..N {
        let client = local.client.clone();
        waiters.push(tokio::spawn(async move {
            let owner = format!("w{n}");
            client.acquire("db", &owner, 60_000, json!({"wait_ms": 600_000})).await
        }));
        // The order is certain only once each waiter is in the queue.
        local.until("it waits", async |client| n_waiting(client, "db").await == n as u64 + 1).await;
    }
    for (n, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(local.client.release(&holder, json!({})).await.status, 200);
        holder = waiter.await.expect("no panic");
        assert_eq!(holder.status, 200, "{holder:?}");
        assert_eq!(holder.text_of("owner_id"), format!("w{n}"));
        assert_eq!(holder.number("fencing_token"), n as u64 + 2);
    }
    local.stop().await;
}

#[tokio::test]
async fn a_waiter_without_a_request_id_leaves_with_its_connection() {
    let local = Local::ephemeral().await;
    let holder = local.client.acquire("db", "a", 60_000, json!({})).await;
    let gone = Client::new(local.address);
    let waiter =
        tokio::spawn(
            async move { gone.acquire("db", "b", 60_000, json!({"wait_ms": 60_000})).await },
        );
    local.until("it waits", async |client| n_waiting(client, "db").await == 1).await;
    waiter.abort();
    local.until("it is gone", async |client| n_waiting(client, "db").await == 0).await;
    assert_eq!(local.client.release(&holder, json!({})).await.status, 200);
    assert_eq!(local.client.get("/v1/locks/db").await.get("held"), false);
}

#[tokio::test]
async fn a_waiter_with_a_request_id_is_parked_and_comes_back_to_its_place() {
    let local = Local::ephemeral().await;
    let holder = local.client.acquire("db", "a", 60_000, json!({})).await;
    let wait = |owner: &'static str| {
        // A separate client, so that aborting it closes its connection.
        let client = Client::new(local.address);
        tokio::spawn(async move {
            let more = json!({"wait_ms": 60_000, "request_id": owner});
            client.acquire("db", owner, 60_000, more).await
        })
    };
    let first = wait("b");
    local.until("b waits", async |client| n_waiting(client, "db").await == 1).await;
    let second = wait("c");
    local.until("c waits", async |client| n_waiting(client, "db").await == 2).await;
    first.abort();
    let parked = [("b".to_owned(), true), ("c".to_owned(), false)];
    let queue = async |client: &Client| queue_of(&client.get("/v1/locks/db").await.body);
    local.until("b is parked", async |client| queue(client).await == parked).await;
    let first = wait("b");
    let back = [("b".to_owned(), false), ("c".to_owned(), false)];
    local.until("b is back", async |client| queue(client).await == back).await;
    assert_eq!(local.client.release(&holder, json!({})).await.status, 200);
    let granted = first.await.expect("no panic");
    assert_eq!((granted.status, granted.number("fencing_token")), (200, 2));
    // `c` is parked when its turn comes, so it is skipped. Its place is kept for at most 10 s.
    let third = wait("d");
    local.until("d waits", async |client| n_waiting(client, "db").await == 2).await;
    second.abort();
    let parked = [("c".to_owned(), true), ("d".to_owned(), false)];
    local.until("c is parked", async |client| queue(client).await == parked).await;
    assert_eq!(local.client.release(&granted, json!({})).await.status, 200);
    assert_eq!(third.await.expect("no panic").text_of("owner_id"), "d");
    local.advance_ms(10_000);
    local.until("c is gone", async |client| n_waiting(client, "db").await == 0).await;
}

#[tokio::test]
async fn a_wait_counts_from_when_the_request_was_received() {
    let local = Local::ephemeral().await;
    let holder = local.client.acquire("db", "a", 60_000, json!({})).await;
    let client = local.client.clone();
    let waiter =
        tokio::spawn(
            async move { client.acquire("db", "b", 30_000, json!({"wait_ms": 60_000})).await },
        );
    local.until("it waits", async |client| n_waiting(client, "db").await == 1).await;
    local.advance_ms(7_000);
    assert_eq!(local.client.release(&holder, json!({})).await.status, 200);
    // Granted at 7 s for 30 s: 30 s are left, and the lease ends 37 s after the request was sent.
    let granted = waiter.await.expect("no panic");
    assert_eq!(granted.number("expires_in_ms"), 30_000);
    assert_eq!(granted.number("expires_after_send_ms"), 37_000);
}

/// Cuts connections at every stage of a wait. The lock must never get stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whenever_a_waiters_connection_is_cut_the_lock_is_not_lost() {
    let local = Local::ephemeral().await;
    for round in 0..60 {
        let lock = format!("lock-{round}");
        let holder = local.client.acquire(&lock, "a", 60_000, json!({})).await;
        let victim = Client::new(local.address);
        let name = lock.clone();
        let more = if round % 2 == 0 {
            json!({"wait_ms": 60_000})
        } else {
            json!({"wait_ms": 60_000, "request_id": "r"})
        };
        let waiter =
            tokio::spawn(async move { victim.acquire(&name, "victim", 60_000, more).await });
        // This cuts the connection before the request is sent, during the wait, or during the grant.
        tokio::time::sleep(Duration::from_micros(round * 40)).await;
        let releaser = local.client.clone();
        let released = tokio::spawn(async move { releaser.release(&holder, json!({})).await });
        tokio::time::sleep(Duration::from_micros(round % 7 * 50)).await;
        waiter.abort();
        let told = waiter.await.ok();
        assert_eq!(released.await.expect("no panic").status, 200);
        if told.is_some() {
            continue;
        }
        // If the response was written before the server noticed the closed connection, the client might have read it.
        // That lease lasts until it expires. In all other cases the lock is free immediately.
        local
            .until("another client gets it", async |client| {
                if client.acquire(&lock, "next", 600_000, json!({})).await.status == 200 {
                    return true;
                }
                let state = client.get(&format!("/v1/locks/{lock}")).await;
                if state.text_of("owner_id") == "victim" {
                    local.advance_ms(60_000);
                }
                false
            })
            .await;
    }
}
