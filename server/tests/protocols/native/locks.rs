//! Tests of successful calls of the native dialect.

use leasehold_testkit::{Client, Local, Value, json};

async fn open_session(client: &Client, owner: &str, ttl_ms: u64) -> String {
    let opened = client.post("/v1/sessions", json!({"owner_id": owner, "ttl_ms": ttl_ms})).await;
    let opened = opened.expect("an answer");
    assert_eq!((opened.status, opened.number("expires_in_ms")), (201, ttl_ms), "{opened:?}");
    opened.text_of("session_id")
}

async fn acquire_in(
    client: &Client,
    lock: &str,
    owner: &str,
    more: Value,
) -> leasehold_testkit::Response {
    let mut body = json!({"owner_id": owner});
    body.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
    client.post(&format!("/v1/locks/{lock}/acquire"), body).await.expect("an answer")
}

fn names(list: &leasehold_testkit::Response) -> Vec<String> {
    let locks = list.get("locks").as_array().cloned().unwrap_or_default();
    locks.iter().map(|lock| lock["lock_name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_list_is_cut_into_pages_that_together_have_every_lock_once() {
    let local = Local::ephemeral().await;
    for n in 0..2500 {
        let name = format!("{}-{n:04}", if n % 2 == 0 { "even" } else { "odd" });
        assert_eq!(local.client.acquire(&name, "a", 60_000, json!({})).await.status, 200);
    }
    let mut found = Vec::new();
    let mut query = "/v1/locks?prefix=even&limit=300".to_owned();
    loop {
        let page = local.client.get(&query).await;
        assert!(names(&page).len() <= 300);
        found.extend(names(&page));
        match page.get("next_cursor").as_str() {
            Some(cursor) => query = format!("/v1/locks?prefix=even&limit=300&cursor={cursor}"),
            None => break,
        }
    }
    let expected: Vec<_> = (0..2500).step_by(2).map(|n| format!("even-{n:04}")).collect();
    assert_eq!(found, expected);
    assert_eq!(names(&local.client.get("/v1/locks").await).len(), 100, "the default");
}

#[tokio::test]
async fn a_list_can_be_narrowed_to_owner_and_state() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let freed = client.acquire("free", "a", 60_000, json!({})).await;
    client.release(&freed, json!({})).await;
    client.acquire("held", "a", 60_000, json!({})).await;
    client.acquire("waited-for", "b", 60_000, json!({})).await;
    let waiting = client.clone();
    let waiter = tokio::spawn(async move {
        waiting.acquire("waited-for", "c", 60_000, json!({"wait_ms": 60_000})).await
    });
    let list = async |query: &str| {
        let mut names = names(&client.get(&format!("/v1/locks?{query}")).await);
        names.sort_unstable();
        names
    };
    local.until("c waits", async |_| list("state=waiting").await == ["waited-for"]).await;
    assert_eq!(list("state=held").await, ["held", "waited-for"]);
    assert_eq!(list("state=free").await, ["free"]);
    assert_eq!(list("owner=a").await, ["held"]);
    assert_eq!(list("owner=c").await, ["waited-for"]);
    assert_eq!(list("owner=c&state=free").await, Vec::<String>::new());
    local.advance_ms(60_000);
    assert_eq!(list("owner=a").await, Vec::<String>::new(), "what is over is not shown");
    waiter.abort();
}

#[tokio::test]
async fn one_keep_alive_holds_many_leases_and_deleting_the_session_releases_them_all() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let session = open_session(client, "a", 10_000).await;
    for n in 0..500 {
        let more = json!({"session_id": session});
        assert_eq!(acquire_in(client, &format!("lock-{n}"), "a", more).await.status, 200);
    }
    for _ in 0..5 {
        local.advance_ms(9_000);
        let kept = client.post(&format!("/v1/sessions/{session}/keepalive"), json!({})).await;
        assert_eq!(kept.expect("an answer").number("expires_in_ms"), 10_000);
    }
    assert_eq!(client.acquire("lock-499", "b", 1000, json!({})).await.status, 409);
    let state = client.get("/v1/locks/lock-7").await;
    assert_eq!(state.get("holders")[0]["expires_in_ms"], 10_000, "as long as its session");
    assert_eq!(client.delete(&format!("/v1/sessions/{session}")).await.status, 204);
    for n in (0..500).rev() {
        let taken = client.acquire(&format!("lock-{n}"), "b", 60_000, json!({})).await;
        assert_eq!(taken.status, 200, "lock-{n} is free at once");
    }
    assert_eq!(client.delete(&format!("/v1/sessions/{session}")).await.status, 404);
}

#[tokio::test]
async fn an_expired_session_ends_its_leases_with_grace() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let session = open_session(client, "a", 10_000).await;
    let more = json!({"session_id": session, "grace_ms": 5_000});
    let held = acquire_in(client, "db", "a", more).await;
    local.advance_ms(10_000);
    let kept = client.post(&format!("/v1/sessions/{session}/keepalive"), json!({})).await;
    assert_eq!(kept.expect("an answer").status, 404);
    assert_eq!(client.renew(&held, 1000, json!({})).await.status, 409);
    let refused = client.acquire("db", "b", 1000, json!({})).await;
    assert_eq!((refused.status, refused.text_of("reason").as_str()), (409, "GRACE"));
    let state = client.get("/v1/locks/db").await;
    assert_eq!(
        (state.text_of("grace_owner_id").as_str(), state.number("grace_remaining_ms")),
        ("a", 5_000)
    );
    local.advance_ms(5_000);
    assert_eq!(client.acquire("db", "b", 1000, json!({})).await.number("fencing_token"), 2);
}

#[tokio::test]
async fn shared_and_counted_leases_share_and_fence_as_they_should() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let shared = json!({"mode": "shared"});
    let first = client.acquire("doc", "r1", 60_000, shared.clone()).await;
    let second = client.acquire("doc", "r2", 60_000, shared).await;
    assert_eq!((first.number("fencing_token"), second.number("fencing_token")), (1, 2));
    assert_eq!(client.acquire("doc", "w", 60_000, json!({})).await.status, 409);
    let check = async |token: u64| {
        let body = json!({"lock_name": "doc", "fencing_token": token});
        let verdict = client.post("/v1/fence/check", body).await.expect("an answer");
        (verdict.get("accepted").as_bool().expect("a flag"), verdict.number("last_token"))
    };
    assert_eq!((check(1).await, check(2).await), ((true, 2), (true, 2)));
    client.release(&first, json!({})).await;
    client.release(&second, json!({})).await;
    assert_eq!(client.acquire("doc", "w", 60_000, json!({})).await.number("fencing_token"), 3);
    assert_eq!((check(2).await, check(3).await), ((false, 3), (true, 3)));
    for owner in ["a", "b"] {
        assert_eq!(client.acquire("pool", owner, 60_000, json!({"limit": 2})).await.status, 200);
    }
    assert_eq!(client.acquire("pool", "c", 60_000, json!({"limit": 2})).await.status, 409);
    assert_eq!(client.get("/v1/locks/pool").await.get("holders")[0]["limit"], 2);
}

#[tokio::test]
async fn a_revocation_takes_the_lock_and_the_next_in_the_queue_has_it() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let held = client.acquire("db", "a", 60_000, json!({"grace_ms": 5_000})).await;
    let waiting = client.clone();
    let waiter = tokio::spawn(async move {
        waiting.acquire("db", "b", 60_000, json!({"wait_ms": 60_000})).await
    });
    local
        .until("b waits", async |client| client.get("/v1/locks/db").await.get("n_waiting") == 1)
        .await;
    let revoked = client.post("/v1/locks/db/revoke", json!({"reason": "stuck"})).await;
    assert_eq!(revoked.expect("an answer").get("revoked")[0]["owner_id"], "a");
    assert_eq!(
        waiter.await.expect("no panic").number("fencing_token"),
        2,
        "no grace for what is revoked"
    );
    assert_eq!(client.release(&held, json!({})).await.status, 409);
    let nothing = client.post("/v1/locks/unknown/revoke", json!({"reason": "x"})).await;
    assert_eq!(nothing.expect("an answer").get("revoked"), &json!([]));
}

#[tokio::test]
async fn a_list_is_in_the_order_of_names_and_goes_on_after_a_restart() {
    let data = leasehold_testkit::folder();
    let local = Local::in_folder(data.path()).await;
    for name in ["row-3", "row-1", "other", "row-2", "row-10", "row-\u{fc}"] {
        assert_eq!(local.client.acquire(name, "a", 60_000, json!({})).await.status, 200);
    }
    let page = local.client.get("/v1/locks?prefix=row-&limit=2").await;
    assert_eq!(names(&page), ["row-1", "row-10"]);
    let cursor = page.text_of("next_cursor");
    let clock = local.clock.clone();
    local.stop().await;
    let settings = leasehold_testkit::settings(Some(data.path()));
    let local = Local::start_at(settings, clock).await;
    let rest = local.client.get(&format!("/v1/locks?prefix=row-&cursor={cursor}")).await;
    assert_eq!(names(&rest), ["row-2", "row-3", "row-\u{fc}"]);
    assert!(rest.get("next_cursor").is_null());
    // A cursor is a position among names, whether or not a lock of that name exists: here after "row-25".
    let between = local.client.get("/v1/locks?prefix=row-&limit=1&cursor=726f772d3235").await;
    assert_eq!(names(&between), ["row-3"]);
    // A cursor before every name with the prefix leaves nothing out.
    let before = local.client.get("/v1/locks?prefix=row-&limit=1&cursor=61").await;
    assert_eq!(names(&before), ["row-1"]);
    local.stop().await;
}

/// The server reads a lock with many holders in part. The token of a holder outside of that part used to be refused.
#[tokio::test]
async fn the_token_of_each_holder_is_accepted_however_many_there_are() {
    let local = Local::ephemeral().await;
    let more = json!({"mode": "shared", "metadata": "x".repeat(16_000)});
    let mut tokens = Vec::new();
    for n in 0..8 {
        let held = local.client.acquire("l", &format!("o{n}"), 60_000, more.clone()).await;
        tokens.push(held.number("fencing_token"));
    }
    for (token, accepted) in
        tokens.iter().map(|token| (*token, true)).chain([(0, false), (99, false)])
    {
        let body = json!({"lock_name": "l", "fencing_token": token});
        let verdict = local.client.post("/v1/fence/check", body).await.unwrap();
        assert_eq!(verdict.get("accepted"), &json!(accepted), "{token}: {verdict:?}");
        assert_eq!(verdict.number("last_token"), *tokens.last().unwrap());
    }
}
