//! Tests of quotas: how many leases a principal can hold, and how many requests it can send.

use leasehold_testkit::{Value, json};

use crate::auth::{NAMES, RULES, Scene, acquire};

#[tokio::test]
async fn leases_are_counted_by_principal_whatever_the_owner() {
    let rules = RULES.to_owned() + "[[quota]]\nwho = [\"key:taker\"]\nleases = 2\n";
    let scene = Scene::with(&rules, &NAMES, |_| {}).await;
    for n in 0..3 {
        let line = format!("POST /v1/locks/l{n}/acquire");
        let taken = scene.send("taker", &line, acquire(&format!("owner-{n}"))).await;
        assert_eq!(taken.status, if n < 2 { 200 } else { 429 }, "{taken:?}");
        if n == 2 {
            let told = "too many leases of this principal; limit: 2 (quota in auth-file, line 40)";
            assert!(taken.text_of("error").starts_with(told), "{taken:?}");
        }
    }
    assert_eq!(scene.send("other", "POST /v1/locks/l9/acquire", acquire("o")).await.status, 200);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_namespace_are_counted_for_all_holders() {
    let quota =
        |leases: u32| format!("{RULES}[[quota]]\nnamespaces = [\"default\"]\nleases = {leases}\n");
    let scene = Scene::with(&quota(2), &NAMES, |_| {}).await;
    let take = async |who: &str, lock: &str| {
        scene.send(who, &format!("POST /v1/locks/{lock}/acquire"), acquire("o")).await
    };
    assert_eq!(take("taker", "a").await.status, 200);
    assert_eq!(take("other", "b").await.status, 200);
    for who in ["taker", "other", "admin"] {
        let refused = take(who, "c").await;
        assert_eq!(refused.status, 429, "{refused:?}");
        let told = "too many leases in this namespace; limit: 2 (quota in auth-file, \
                    line 40)";
        assert!(refused.text_of("error").starts_with(told), "{refused:?}");
    }
    // Dialects that share a namespace share its quota. Other namespaces do not count.
    assert_eq!(scene.send("taker", "POST /lock?client=c", Value::Null).await.status, 429);
    let claim = json!({"resource": "a", "timeout": 1});
    assert_eq!(scene.send("taker", "POST /v1/claims", claim).await.status, 429, "waiting counts");
    let lease = json!({
        "tenant_id": "t", "lock_key": "x", "request_id": "r", "owner_id": "taker", "ttl_seconds": 10,
    });
    assert_eq!(scene.send("taker", "POST /leases/acquire", lease).await.status, 201);
    // A quota can be changed while the server runs.
    std::fs::write(scene.file("auth.toml"), quota(3)).expect("a file");
    scene.local.server.reload();
    let grown = async |_: &leasehold_testkit::Client| take("taker", "c").await.status == 200;
    scene.local.until("the new quota is in force", grown).await;
    assert_eq!(take("other", "d").await.status, 429);
    scene.stop().await;
}

#[tokio::test]
async fn anonymous_clients_are_distinguished_by_their_addresses() {
    let rules = RULES.to_owned()
        + "[[rule]]\nname = \"guests\"\nwho = [\"anonymous\"]\nmay = [\"read\"]\nnamespaces = [\"default\"]\n"
        + "[[quota]]\nwho = [\"anonymous\"]\nrequests-per-second = 2\n";
    let scene = Scene::with(&rules, &NAMES, |settings| {
        settings.http.trusted_proxies = ["127.0.0.0/8".parse().expect("a network")].into();
    })
    .await;
    let look =
        async |from: &str| scene.status(&[("x-forwarded-for", from)], "GET /v1/locks/x", "").await;
    let one = ["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:ffff::3"];
    for (n, from) in one.into_iter().enumerate() {
        assert_eq!(look(from).await, if n < 2 { 200 } else { 429 }, "{from}: one network");
    }
    for other in ["2001:db8:1:3::1", "192.0.2.1", "192.0.2.2"] {
        assert_eq!(look(other).await, 200, "{other} is another client");
    }
    scene.stop().await;
}

#[tokio::test]
async fn requests_are_limited_with_a_retry_after_that_is_true() {
    let rules = RULES.to_owned() + "[[quota]]\nwho = [\"*\"]\nrequests-per-second = 3\n";
    let scene = Scene::with(&rules, &NAMES, |_| {}).await;
    let look = async |who| scene.send(who, "GET /v1/locks/x", Value::Null).await;
    for _ in 0..3 {
        assert_eq!(look("reader").await.status, 200);
    }
    let refused = look("reader").await;
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(look("taker").await.status, 200, "each by itself");
    scene.local.advance_ms(1000);
    assert_eq!(look("reader").await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn wrong_credentials_are_limited_and_right_ones_are_not() {
    for wrong in ["Bearer lh_a_b", "Bearer something-else"] {
        limited([("authorization", wrong)]).await;
    }
}

async fn limited(wrong: [(&str, &str); 1]) {
    let scene = Scene::with(RULES, &NAMES, |settings| settings.auth.failures_per_minute = 3).await;
    for n in 0..6 {
        let (status, head) = scene.head(&wrong, "GET /v1/locks/x", "").await;
        assert_eq!(status, if n < 3 { 401 } else { 429 });
        assert_eq!(head.contains("retry-after: 20"), n >= 3, "{head}");
    }
    assert_eq!(
        scene.send("reader", "GET /v1/locks/x", Value::Null).await.status,
        200,
        "a neighbour"
    );
    assert_eq!(
        scene.send("", "GET /v1/locks/x", Value::Null).await.status,
        401,
        "no credential is no wrong one"
    );
    scene.local.advance_ms(20_000);
    assert_eq!(scene.status(&wrong, "GET /v1/locks/x", "").await, 401);
    scene.stop().await;
}

#[tokio::test]
async fn who_asks_too_often_can_still_renew_and_release() {
    let rules = RULES.to_owned() + "[[quota]]\nwho = [\"key:taker\"]\nrequests-per-second = 2\n";
    let scene = Scene::with(&rules, &NAMES, |_| {}).await;
    let taken = scene.send("taker", "POST /v1/locks/l/acquire", acquire("o")).await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(scene.send("taker", "GET /v1/locks/l", Value::Null).await.status);
    }
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    let proof = json!({
        "owner_id": "o", "lease_id": taken.text_of("lease_id"),
        "fencing_token": taken.number("fencing_token"),
    });
    let mut renewal = proof.clone();
    renewal["extend_by_ms"] = json!(1000);
    assert_eq!(scene.send("taker", "POST /v1/locks/l/renew", renewal).await.status, 200);
    assert_eq!(scene.send("taker", "POST /v1/locks/l/release", proof).await.status, 200);
    scene.stop().await;
}

#[tokio::test]
async fn only_what_renews_or_releases_is_beyond_the_limit_whatever_the_address_says() {
    let rules = RULES.to_owned() + "[[quota]]\nwho = [\"key:taker\"]\nrequests-per-second = 2\n";
    let scene = Scene::with(&rules, &NAMES, |_| {}).await;
    let send = async |line: &str| scene.send("taker", line, Value::Null).await.status;
    let renewal = "POST /lock?client=c&job=mine&ttl=60s";
    assert_eq!(send(renewal).await, 200);
    assert_eq!(send("GET /v1/locks/l").await, 200);
    for line in [
        "GET /v1/locks/l",
        "GET /v1/locks/l?lock=release",
        "GET /v1/events?lock=release",
        "GET /console/live?lock=refresh",
        "POST /lock?client=c&job=other",
        "POST /lock?client=d&job=mine",
        "POST /lock?job=mine",
    ] {
        assert_eq!(send(line).await, 429, "{line}");
    }
    assert_eq!(send(renewal).await, 200, "it has the lock");
    assert_eq!(send("DELETE /lock?client=c&job=mine").await, 200);
    assert_eq!(send(renewal).await, 429, "and now has it no longer");
    scene.stop().await;
}

#[tokio::test]
async fn a_file_session_counts_for_the_principal_that_opened_it() {
    let rules =
        RULES.to_owned() + "[[quota]]\nwho = [\"key:file-writer\"]\nrequests-per-second = 4\n";
    let scene = Scene::with(&rules, &NAMES, |_| {}).await;
    let session = async |who: &str| {
        let opened = scene.send(who, "POST /auth/session", Value::Null).await;
        format!("Bearer {}", opened.text_of("sessionId"))
    };
    let (limited, other) = (session("file-writer").await, session("other").await);
    let status =
        async |bearer: &str, line: &str| scene.status(&[("authorization", bearer)], line, "").await;
    for (line, expected) in [
        ("PUT /a.txt", 201),
        ("GET /a.txt?lock=acquire", 200),
        ("GET /a.txt", 200),
        ("GET /a.txt", 429),
        ("PUT /b.txt", 429),
        ("GET /auth/session", 429),
        ("POST /a.txt?lock=refresh", 200),
        ("POST /a.txt?lock=release", 200),
    ] {
        assert_eq!(status(&limited, line).await, expected, "{line}");
    }
    assert_eq!(scene.send("file-writer", "GET /a.txt", Value::Null).await.status, 429);
    assert_eq!(status(&other, "GET /a.txt").await, 200);
    scene.local.advance_ms(1000);
    // A request with both a key and its session counts once.
    let proof = scene.proof("file-writer").remove(0).1;
    let cookie = format!("hengdang_session={}", limited.trim_start_matches("Bearer "));
    let both = [("authorization", proof.as_str()), ("cookie", cookie.as_str())];
    for n in 0..5 {
        let expected = if n < 4 { 200 } else { 429 };
        assert_eq!(scene.status(&both, "GET /auth/session", "").await, expected, "{n}");
    }
    assert_eq!(status(&limited, "DELETE /auth/session").await, 204);
    scene.stop().await;
}
