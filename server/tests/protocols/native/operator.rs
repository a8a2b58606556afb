//! Tests of operator calls over real HTTP: revoke, maintenance mode, sessions. Also tests watching a lease.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use leasehold_testkit::{Client, Local, Method, Response, Value, folder, json};

async fn maintain(client: &Client, on: bool) -> Response {
    let (kind, body) = (Some("application/json"), json!({"on": on}).to_string());
    client.send(Method::PUT, "/v1/admin/maintenance", kind, body).await.unwrap()
}

#[tokio::test]
async fn maintenance_refuses_what_is_new_and_survives_a_restart() {
    let data = folder();
    let local = Local::in_folder(data.path()).await;
    let held = local.client.acquire("a", "ann", 60_000, json!({})).await;
    assert_eq!(maintain(&local.client, true).await.get("on"), true);
    let refused = local.client.acquire("b", "bob", 60_000, json!({})).await;
    assert_eq!((refused.status, refused.text_of("code")), (503, "MAINTENANCE".into()));
    local.stop().await;
    let local = Local::in_folder(data.path()).await;
    assert_eq!(local.client.get("/v1/admin/maintenance").await.get("on"), true);
    assert_eq!(local.client.acquire("b", "bob", 60_000, json!({})).await.status, 503);
    assert_eq!(local.client.renew(&held, 90_000, json!({})).await.status, 200);
    assert_eq!(local.client.release(&held, json!({})).await.status, 200);
    maintain(&local.client, false).await;
    assert_eq!(local.client.acquire("b", "bob", 60_000, json!({})).await.status, 200);
    local.stop().await;
}

#[tokio::test]
async fn what_an_owner_has_is_revoked_everywhere_held_or_waiting() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    client.acquire("a", "host-7", 60_000, json!({})).await;
    let elsewhere = json!({"owner_id": "host-7", "ttl_ms": 60_000});
    client.post("/v1/namespaces/shop/locks/b/acquire", elsewhere).await.unwrap();
    client.acquire("c", "other", 60_000, json!({})).await;
    let waiter = tokio::spawn({
        let client = client.clone();
        async move { client.acquire("c", "host-7", 60_000, json!({"wait_ms": 60_000})).await }
    });
    let waits = async |client: &Client| client.get("/v1/locks/c").await.get("n_waiting") == 1;
    local.until("it waits", waits).await;
    let asked = |dry_run: bool| json!({"owner": "host-7", "reason": "it died", "dry_run": dry_run});
    let would = client.post("/v1/revoke", asked(true)).await.unwrap();
    assert_eq!((would.status, would.number("n_revoked")), (200, 3), "{would:?}");
    assert_eq!(client.get("/v1/locks/a").await.get("held"), true);
    let done = client.post("/v1/revoke", asked(false)).await.unwrap();
    assert_eq!(done.number("n_revoked"), 3, "{done:?}");
    assert_eq!(waiter.await.unwrap().status, 409);
    assert_eq!(client.get("/v1/locks/a").await.get("held"), false);
    assert_eq!(client.get("/v1/namespaces/shop/locks/b").await.get("held"), false);
    assert_eq!(client.get("/v1/locks/c").await.text_of("owner_id"), "other");
    let both = json!({"owner": "a", "principal": "b", "reason": "r"});
    assert_eq!(client.post("/v1/revoke", both).await.unwrap().status, 400);
    local.stop().await;
}

#[tokio::test]
async fn sessions_are_listed_without_their_secrets_and_ended_by_their_numbers() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let mut ids = Vec::new();
    for owner in ["ann", "bob", "eve"] {
        let opened = json!({"owner_id": owner, "ttl_ms": 60_000});
        ids.push(client.post("/v1/sessions", opened).await.unwrap().text_of("session_id"));
    }
    let held = json!({"owner_id": "bob", "session_id": ids[1]});
    assert_eq!(client.post("/v1/locks/a/acquire", held).await.unwrap().status, 200);
    let page = client.get("/v1/admin/sessions?limit=2").await;
    let sessions = page.get("sessions").as_array().unwrap().clone();
    let owners: Vec<_> = sessions.iter().map(|s| s["owner_id"].as_str().unwrap()).collect();
    assert_eq!(owners, ["ann", "bob"]);
    assert_eq!(sessions[1]["n_leases"], 1);
    assert!(!page.body.to_string().contains(&ids[1]), "an id is a secret");
    let cursor = page.text_of("next_cursor");
    let rest = client.get(&format!("/v1/admin/sessions?cursor={cursor}")).await;
    assert_eq!(rest.get("sessions")[0]["owner_id"], "eve");
    assert_eq!(rest.get("next_cursor"), &Value::Null);
    let number = sessions[1]["number"].as_u64().unwrap();
    let path = format!("/v1/admin/sessions/{number}");
    assert_eq!(client.delete(&path).await.status, 204);
    assert_eq!(client.delete(&path).await.status, 404);
    assert_eq!(client.get("/v1/locks/a").await.get("held"), false);
    local.stop().await;
}

#[tokio::test]
async fn a_client_that_proves_its_lease_is_told_of_its_end() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let held = client.acquire("a", "ann", 60_000, json!({})).await;
    let mut proof =
        json!({"owner_id": "ann", "lease_id": held.text_of("lease_id"), "fencing_token": 1});
    let watching = tokio::spawn({
        let (client, proof) = (client.clone(), proof.clone());
        async move { client.post("/v1/locks/a/watch", proof).await.unwrap() }
    });
    let begun = r#"/watch",status="200""#;
    let is_begun = async |client: &Client| client.get("/metrics").await.text.contains(begun);
    local.until("it is watched", is_begun).await;
    // The stream ends after it has reported the end of the lease, so it can be read like any response.
    tokio::time::timeout(Duration::from_millis(300), async {
        while !watching.is_finished() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect_err("it goes on for as long as the lease does");
    client.post("/v1/locks/a/revoke", json!({"reason": "a test"})).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(120), watching).await.unwrap().unwrap();
    let told = told.text.as_str();
    assert!(told.contains("event: watching") && told.contains("event: ended"), "{told}");
    assert!(told.contains("\"how\":\"revoked\"") && told.contains("a test"), "{told}");
    let late = client.post("/v1/locks/a/watch", proof.clone()).await.unwrap();
    assert_eq!((late.status, late.text_of("code")), (409, "LEASE_NOT_HELD".into()));
    proof["lease_id"] = "nonsense".into();
    assert_eq!(client.post("/v1/locks/a/watch", proof).await.unwrap().status, 409);
    local.stop().await;
}

#[tokio::test]
async fn sessions_of_the_files_are_listed_and_ended_by_their_numbers_too() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let opened = client.send(Method::POST, "/auth/session", None, String::new()).await.unwrap();
    assert_eq!(opened.status, 201, "{}", opened.text);
    let page = client.get("/v1/admin/sessions").await;
    let session = page.get("sessions")[0].clone();
    assert_eq!(session["dialect"], "files", "{}", page.text);
    let metric = r#"leasehold_sessions{dialect="files"} 1"#;
    assert!(client.get("/metrics").await.text.contains(metric));
    let path = format!("/v1/admin/sessions/{}", session["number"]);
    assert_eq!(client.delete(&path).await.status, 204);
    let rest = client.get("/v1/admin/sessions").await;
    assert_eq!(rest.get("sessions"), &json!([]), "{}", rest.text);
    let metric = r#"leasehold_sessions{dialect="files"} 0"#;
    assert!(client.get("/metrics").await.text.contains(metric));
    local.stop().await;
}

/// The clock stands still: the request that makes the lease expire also reports the end. No timer is involved.
#[tokio::test]
async fn an_expiry_is_reported_to_watchers_as_soon_as_it_is_durable() {
    let local = Local::ephemeral().await;
    let client = &local.client;
    let held = client.acquire("a", "ann", 60_000, json!({})).await;
    let proof =
        json!({"owner_id": "ann", "lease_id": held.text_of("lease_id"), "fencing_token": 1});
    let watching = tokio::spawn({
        let client = client.clone();
        async move { client.post("/v1/locks/a/watch", proof).await.unwrap() }
    });
    let begun = r#"/watch",status="200""#;
    let is_begun = async |client: &Client| client.get("/metrics").await.text.contains(begun);
    local.until("it is watched", is_begun).await;
    local.advance_ms(59_999);
    client.get("/v1/locks/b").await;
    assert!(!watching.is_finished(), "it is still held");
    local.advance_ms(1);
    client.get("/v1/locks/b").await;
    let told = tokio::time::timeout(Duration::from_secs(120), watching).await.unwrap().unwrap();
    assert!(told.text.contains("\"how\":\"expired\""), "{}", told.text);
    local.stop().await;
}
