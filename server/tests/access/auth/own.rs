//! Tests that proofs, session ids and request ids belong to one principal. Another principal cannot use them.

use leasehold_testkit::{Value, json};

use crate::auth::{Scene, acquire};

#[tokio::test]
async fn a_stolen_proof_is_of_no_use() {
    let scene = Scene::new().await;
    let held = scene.send("taker", "POST /v1/locks/x/acquire", acquire("o")).await.body;
    let proof = json!({"owner_id": "o", "lease_id": held["lease_id"], "fencing_token": held["fencing_token"]});
    let mut renew = proof.clone();
    renew["extend_by_ms"] = json!(1000);
    let renewed = scene.send("other", "POST /v1/locks/x/renew", renew.clone()).await;
    assert_eq!((renewed.status, renewed.text_of("reason").as_str()), (409, "NOT_OWNER_OR_EXPIRED"));
    let released = scene.send("other", "POST /v1/locks/x/release", proof.clone()).await;
    assert_eq!((released.status, released.text_of("reason").as_str()), (409, "NOT_OWNER"));
    assert_eq!(scene.send("other", "POST /v1/locks/x/watch", proof.clone()).await.status, 409);
    assert_eq!(scene.send("admin", "POST /v1/locks/x/release", proof.clone()).await.status, 409);
    assert_eq!(scene.send("taker", "POST /v1/locks/x/renew", renew).await.status, 200);
    assert_eq!(scene.send("taker", "POST /v1/locks/x/release", proof).await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn a_principal_stands_beside_every_owner() {
    let scene = Scene::new().await;
    scene.send("taker", "POST /v1/locks/x/acquire", acquire("laptop1")).await;
    let look = scene.send("reader", "GET /v1/locks/x", Value::Null).await.body;
    assert_eq!((&look["owner_id"], &look["principal"]), (&json!("laptop1"), &json!("key:taker")));
    assert_eq!(look["holders"][0]["principal"], "key:taker");
    let held = scene.send("other", "POST /v1/locks/x/acquire", acquire("laptop1")).await.body;
    assert_eq!(held["current_owner_id"], "laptop1");
    assert_eq!(held["current_principal"], "key:taker", "the same name is not the same owner");
    let past = scene.send("reader", "GET /v1/locks/x/history", Value::Null).await.body;
    assert_eq!(past["events"][0]["principal"], "key:taker");
    scene.send("taker", "POST /lock?client=laptop1&job=j", Value::Null).await;
    let sticky = scene.send("other", "GET /lock?job=j", Value::Null).await.body;
    assert_eq!((&sticky["holder"], &sticky["principal"]), (&json!("laptop1"), &json!("key:taker")));
    scene.stop().await;
}

#[tokio::test]
async fn a_principal_stands_beside_the_owner_of_what_is_claimed_written_or_revoked() {
    let scene = Scene::new().await;
    let claim = json!({"resource": "c", "timeout": 60});
    let made = scene.send("taker", "POST /v1/claims", claim.clone()).await;
    assert_eq!(made.text_of("principal"), "key:taker", "{made:?}");
    let waits = scene.send("other", "POST /v1/claims", claim).await;
    assert_eq!((waits.status, waits.text_of("principal").as_str()), (202, "key:other"));
    let listed = scene.send("reader", "GET /v1/claims", Value::Null).await.body;
    assert_eq!(listed[0]["principal"], "key:taker");
    let opened = scene.send("file-writer", "POST /auth/session", Value::Null).await;
    let bearer = format!("Bearer {}", opened.text_of("sessionId"));
    let session = [("authorization", bearer.as_str())];
    assert_eq!(scene.status(&session, "GET /f.txt?lock=acquire", "").await, 200);
    let other = scene.send("other", "POST /auth/session", Value::Null).await.text_of("sessionId");
    let other = format!("Bearer {other}");
    let other = [("authorization", other.as_str())];
    let sent = scene.local.client.send_with(hyper::Method::PUT, "/f.txt", &other, "x").await;
    let locked = sent.expect("an answer");
    assert_eq!((locked.status, locked.text_of("principal").as_str()), (423, "key:file-writer"));
    let locks = scene.send("revoker", "GET /admin/locks", Value::Null).await.body;
    assert_eq!(locks["locks"][0]["principal"], "key:file-writer", "{locks}");
    scene.send("taker", "POST /v1/locks/x/acquire", acquire("o")).await;
    let revoked = scene.send("revoker", "POST /v1/locks/x/revoke", json!({"reason": "r"})).await;
    assert_eq!(revoked.body["revoked"][0]["principal"], "key:taker", "{revoked:?}");
    let mut kept = acquire("o");
    (kept["ttl_ms"], kept["grace_ms"]) = (json!(1), json!(60_000));
    scene.send("taker", "POST /v1/locks/g/acquire", kept).await;
    scene.local.advance_ms(10);
    let seen = scene.send("reader", "GET /v1/locks/g", Value::Null).await.body;
    assert_eq!(
        (&seen["grace_owner_id"], &seen["grace_principal"]),
        (&json!("o"), &json!("key:taker"))
    );
    let ttl = "POST /lock?client=laptop&job=j&ttl=1s";
    assert_eq!(scene.send("taker", ttl, Value::Null).await.status, 200);
    scene.local.advance_ms(1500);
    let refused = scene.send("other", "POST /lock?client=laptop&job=j", Value::Null).await;
    assert_eq!((refused.status, refused.text_of("principal").as_str()), (409, "key:taker"));
    scene.stop().await;
}

#[tokio::test]
async fn a_lease_from_before_goes_on_with_a_rule_for_anonymous() {
    let data = leasehold_testkit::folder();
    let body = |owner: &str| {
        json!({
            "tenant_id": "t", "lock_key": "x", "request_id": "r", "owner_id": owner, "ttl_seconds": 300,
        })
    };
    let before = leasehold_testkit::Local::in_folder(data.path()).await;
    let lease = before.client.post("/leases/acquire", body("worker-7")).await.expect("an answer");
    assert_eq!(lease.status, 201, "{lease:?}");
    before.stop().await;
    let rules = crate::auth::RULES.to_owned()
        + "[[rule]]\nname = \"before\"\nwho = [\"anonymous\"]\nmay = [\"acquire\"]\nnamespaces = [\"t\"]\n";
    let folder = data.path().to_owned();
    let scene =
        Scene::with(&rules, &crate::auth::NAMES, |settings| settings.data = Some(folder)).await;
    let id = lease.text_of("lease_id");
    let renew = |owner: &str| json!({"request_id": "n", "owner_id": owner, "ttl_seconds": 300});
    let path = format!("POST /leases/{id}/renew");
    let other = scene.send("", &path, renew("worker-8")).await;
    assert_eq!((other.status, other.text_of("code").as_str()), (409, "OWNER_MISMATCH"));
    assert_eq!(scene.send("taker", &path, renew("worker-7")).await.status, 401);
    assert_eq!(scene.send("", &path, renew("worker-7")).await.status, 200);
    // A new lease must use the principal's current name as its owner.
    let mut new = body("worker-7");
    new["lock_key"] = json!("y");
    assert_eq!(scene.send("", "POST /leases/acquire", new).await.status, 401);
    let release = json!({"request_id": "m", "owner_id": "worker-7"});
    let released = scene.send("", &format!("POST /leases/{id}/release"), release).await;
    assert_eq!(released.status, 200, "{released:?}");
    scene.stop().await;
}

#[tokio::test]
async fn a_session_of_another_principal_is_not_there() {
    let scene = Scene::new().await;
    let opened = scene.send("taker", "POST /v1/sessions", acquire("o")).await;
    let id = opened.text_of("session_id");
    for who in ["other", "admin"] {
        for line in [
            format!("GET /v1/sessions/{id}"),
            format!("POST /v1/sessions/{id}/keepalive"),
            format!("DELETE /v1/sessions/{id}"),
        ] {
            let known = scene.send(who, &line, Value::Null).await;
            let unknown = scene.send(who, &line.replace(&id, "0000"), Value::Null).await;
            assert_eq!((known.status, &known.text), (404, &unknown.text), "{who} {line}");
        }
        let with = json!({"owner_id": "o", "ttl_ms": 1000, "session_id": id});
        assert_eq!(scene.send(who, "POST /v1/locks/x/acquire", with).await.status, 404, "{who}");
    }
    let line = format!("POST /v1/sessions/{id}/keepalive");
    assert_eq!(scene.send("taker", &line, Value::Null).await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn a_request_id_belongs_to_its_principal() {
    let scene = Scene::new().await;
    let asked = json!({"owner_id": "o", "ttl_ms": 60_000, "request_id": "r"});
    let first = scene.send("taker", "POST /v1/locks/x/acquire", asked.clone()).await;
    let replay = scene.send("other", "POST /v1/locks/x/acquire", asked.clone()).await;
    assert_eq!(replay.status, 409, "{replay:?}");
    assert!(!replay.text.contains(&first.text_of("lease_id")));
    let cancel = json!({"owner_id": "o", "request_id": "r"});
    assert_eq!(
        scene.send("other", "POST /v1/locks/x/cancel", cancel).await.body["cancelled"],
        false
    );
    assert_eq!(scene.send("taker", "POST /v1/locks/x/acquire", asked).await.body, first.body);
    scene.stop().await;
}

#[tokio::test]
async fn the_owner_of_a_lease_is_the_credentials() {
    let scene = Scene::new().await;
    let body = |owner: &str| {
        json!({
            "tenant_id": "t", "lock_key": "x", "request_id": owner, "owner_id": owner, "ttl_seconds": 10,
        })
    };
    for owner in ["other", "takerx", "taker/", "", "Taker"] {
        let refused = scene.send("taker", "POST /leases/acquire", body(owner)).await;
        let expected =
            if owner.is_empty() { (400, "INVALID_REQUEST") } else { (401, "OWNER_TOKEN_MISMATCH") };
        assert_eq!((refused.status, refused.text_of("code").as_str()), expected, "{owner:?}");
    }
    let lease = scene.send("taker", "POST /leases/acquire", body("taker/vm-1")).await;
    assert_eq!(lease.status, 201, "{lease:?}");
    let id = lease.text_of("lease_id");
    // Other principals see the lease, but not the id that proves it.
    for (who, is_shown) in [("taker", true), ("other", false), ("admin", false)] {
        let seen = scene.send(who, "GET /locks/x?tenant_id=t", Value::Null).await;
        let active = &seen.body["active_lease"];
        assert_eq!(active["owner_id"], "taker/vm-1");
        assert_eq!(active["lease_id"].is_string(), is_shown, "{who}");
        assert_eq!(active["idempotency_key"].is_string(), is_shown, "{who}");
    }
    let renew = |owner: &str| json!({"request_id": "n", "owner_id": owner, "ttl_seconds": 10});
    let path = format!("POST /leases/{id}/renew");
    let renewed = scene.send("other", &path, renew("other/vm-1")).await;
    assert_eq!((renewed.status, renewed.text_of("code").as_str()), (409, "OWNER_MISMATCH"));
    assert_eq!(scene.send("other", &path, renew("taker/vm-1")).await.status, 401);
    assert_eq!(scene.send("taker", &path, renew("taker/vm-1")).await.status, 200);
    // Headers in which the client describes itself are ignored.
    let taker = scene.proof("taker").remove(0);
    let headers = [(taker.0, taker.1.as_str()), ("x-role", "ADMIN")];
    let body = json!({"tenant_id": "t", "actor": "me"}).to_string();
    assert_eq!(scene.status(&headers, "POST /locks/x/force-release", &body).await, 403);
    assert_eq!(
        scene
            .send(
                "revoker",
                "POST /locks/x/force-release",
                json!({"tenant_id": "t", "actor": "me"})
            )
            .await
            .status,
        200
    );
    scene.stop().await;
}

#[tokio::test]
async fn a_claim_is_changed_by_its_principal() {
    let scene = Scene::new().await;
    let made =
        scene.send("taker", "POST /v1/claims", json!({"resource": "x", "timeout": 60})).await;
    let url = made.text_of("url");
    let path = &url[url.find("/v1/").expect("an address")..];
    let patch = format!("PATCH {path}");
    for change in [
        json!({"status": "released"}),
        json!({"status": "active"}),
        json!({"ttl": 5}),
        json!({"status": "revoked"}),
    ] {
        assert_eq!(scene.send("other", &patch, change.clone()).await.status, 403, "{change}");
        // A principal without the right to read the claim gets 404.
        assert_eq!(scene.send("file-reader", &patch, change.clone()).await.status, 404, "{change}");
    }
    assert_eq!(scene.send("file-reader", &format!("GET {path}"), Value::Null).await.status, 404);
    assert_eq!(scene.send("reader", &format!("GET {path}"), Value::Null).await.status, 200);
    assert_eq!(scene.send("revoker", &patch, json!({"status": "released"})).await.status, 403);
    assert_eq!(scene.send("taker", &patch, json!({"ttl": 5})).await.status, 200);
    assert_eq!(scene.send("revoker", &patch, json!({"status": "revoked"})).await.status, 204);
    scene.stop().await;
}

#[tokio::test]
async fn the_sticky_lock_of_one_principal_is_not_anothers() {
    let scene = Scene::new().await;
    assert_eq!(scene.send("taker", "POST /lock?client=laptop", Value::Null).await.status, 200);
    assert_eq!(scene.send("other", "POST /lock?client=laptop", Value::Null).await.status, 409);
    assert_eq!(scene.send("other", "DELETE /lock?client=laptop", Value::Null).await.status, 403);
    assert_eq!(scene.send("taker", "DELETE /lock?client=laptop", Value::Null).await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn a_file_session_acts_for_the_principal_that_opened_it() {
    let scene = Scene::new().await;
    let opened = scene.send("file-writer", "POST /auth/session", Value::Null).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    let id = opened.text_of("sessionId");
    let bearer = format!("Bearer {id}");
    let session = [("authorization", bearer.as_str())];
    assert_eq!(scene.status(&session, "PUT /f.txt", "content").await, 201);
    assert_eq!(scene.status(&session, "GET /f.txt", "").await, 200);
    assert_eq!(scene.status(&session, "GET /v1/locks/x", "").await, 401, "only files know it");
    let cookie = format!("hengdang_session={id}");
    assert_eq!(scene.status(&[("cookie", &cookie)], "GET /f.txt?lock=acquire", "").await, 200);
    assert_eq!(
        scene.status(&[("cookie", &cookie), ("cookie", &cookie)], "GET /f.txt", "").await,
        401
    );
    // A session cookie and another principal's key in one request are two principals, which is refused.
    let other = scene.proof("other").remove(0).1;
    assert_eq!(
        scene.status(&[("cookie", &cookie), ("authorization", &other)], "GET /f.txt", "").await,
        401
    );
    let reader =
        scene.send("file-reader", "POST /auth/session", Value::Null).await.text_of("sessionId");
    let reader = format!("Bearer {reader}");
    assert_eq!(scene.status(&[("authorization", &reader)], "GET /f.txt", "").await, 200);
    assert_eq!(scene.status(&[("authorization", &reader)], "PUT /f.txt", "x").await, 403);
    assert_eq!(scene.status(&[("authorization", &reader)], "DELETE /f.txt", "").await, 403);
    // With an auth file, reading needs a right, even if `files-public` is set.
    assert_eq!(scene.status(&[], "GET /f.txt", "").await, 401);
    scene.stop().await;
}
