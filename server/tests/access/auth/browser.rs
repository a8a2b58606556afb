//! Tests of requests that a page of another site can make a browser send.

use leasehold_testkit::{Local, json, settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::auth::Scene;

#[tokio::test]
async fn a_name_that_is_not_ours_is_not_answered() {
    let scene = Scene::new().await;
    let reader = scene.proof("reader").remove(0).1;
    for (host, expected) in [("localhost", 200), ("127.0.0.1:1", 200), ("evil.example", 421)] {
        let headers = [("host", host), ("authorization", reader.as_str())];
        assert_eq!(scene.status(&headers, "GET /v1/locks/x", "").await, expected, "{host}");
    }
    // The host is checked before authentication. Health checks are exempt.
    let (status, _) = scene.head(&[("host", "evil.example")], "GET /v1/locks/x", "").await;
    assert_eq!(status, 421);
    assert_eq!(scene.status(&[("host", "evil.example")], "GET /healthz", "").await, 200);
    scene.stop().await;
}

#[tokio::test]
async fn a_cross_site_page_changes_nothing_on_a_server_without_authentication() {
    let local = Local::start(settings(None)).await;
    local.client.acquire("x", "o", 60_000, json!({})).await;
    let revoke = json!({"reason": "r"}).to_string();
    for foreign in [
        [("origin", "https://evil.example")],
        [("origin", "null")],
        [("origin", "http://localhost:3000")],
        [("sec-fetch-site", "cross-site")],
        [("sec-fetch-site", "same-site")],
    ] {
        let sent = local.client.send_with(
            hyper::Method::POST,
            "/v1/locks/x/revoke",
            &foreign,
            revoke.clone(),
        );
        let refused = sent.await.expect("an answer");
        let told = (refused.status, refused.text_of("code"));
        assert_eq!(told, (403, "ORIGIN_NOT_ALLOWED".into()), "{foreign:?}");
    }
    assert_eq!(local.client.get("/v1/locks/x").await.body["held"], true);
    let own = format!("http://{}", local.address);
    let headers = [
        ("origin", own.as_str()),
        ("sec-fetch-site", "same-origin"),
        ("content-type", "application/json"),
    ];
    let sent = local.client.send_with(hyper::Method::POST, "/v1/locks/x/revoke", &headers, revoke);
    assert_eq!(sent.await.expect("an answer").status, 200);
    local.stop().await;
}

#[tokio::test]
async fn pages_that_were_named_may_ask_and_others_may_not() {
    let mut settings = settings(None);
    settings.http.cors_origins = ["https://app.example".to_owned()].into();
    let local = Local::start(settings).await;
    let named = ("origin", "https://app.example");
    let other = ("origin", "https://app.example.evil");
    let asks = ("access-control-request-method", "POST");
    let send = async |method: &str, headers: &[(&str, &str)]| {
        let method = method.parse().expect("a method");
        local.client.send_with(method, "/v1/locks/x", headers, "").await.expect("an answer")
    };
    let preflight = send("OPTIONS", &[named, asks]).await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.headers["access-control-allow-origin"], named.1);
    assert!(preflight.headers.get("access-control-allow-credentials").is_none());
    let looked = send("GET", &[named, ("sec-fetch-site", "cross-site")]).await;
    assert_eq!(
        (looked.status, &looked.headers["vary"]),
        (200, &"origin".parse().expect("a value"))
    );
    assert_eq!(looked.headers["access-control-allow-origin"], named.1);
    for refused in [send("OPTIONS", &[other, asks]).await, send("GET", &[other]).await] {
        assert_eq!(refused.status, 403);
        assert!(refused.headers.get("access-control-allow-origin").is_none());
    }
    local.stop().await;
}

#[tokio::test]
async fn a_browser_says_what_it_sends() {
    let local = Local::start(settings(None)).await;
    let own = format!("http://{}", local.address);
    let body = json!({"owner_id": "o", "ttl_ms": 1000}).to_string();
    for (headers, expected) in [
        (&[][..], 200),
        (&[("origin", own.as_str())][..], 415),
        (&[("sec-fetch-site", "same-origin")][..], 415),
        (&[("sec-fetch-mode", "cors")][..], 415),
        (&[("sec-fetch-dest", "empty")][..], 415),
        (&[("origin", own.as_str()), ("origin", own.as_str())][..], 400),
        (&[("sec-fetch-site", "none"), ("sec-fetch-site", "none")][..], 400),
        (&[("origin", own.as_str()), ("content-type", "text/plain")][..], 415),
    ] {
        let path = "/v1/locks/x/acquire";
        let sent = local.client.send_with(hyper::Method::POST, path, headers, body.clone());
        assert_eq!(sent.await.expect("an answer").status, expected, "{headers:?}");
    }
    local.stop().await;
}

#[tokio::test]
async fn every_answer_tells_a_browser_to_keep_its_hands_off() {
    let local = Local::start(settings(None)).await;
    for path in [
        "/healthz",
        "/v1/locks/x",
        "/lock",
        "/v1/claims",
        "/missing",
        "/docs",
        "/lock/page",
        "/metrics",
    ] {
        let answer = local.client.get(path).await;
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        let policy = answer.headers["content-security-policy"].to_str().expect("text");
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert!(answer.headers.get("access-control-allow-origin").is_none(), "{path}");
        // The server's own pages can be cached if the browser revalidates them.
        let cached = &answer.headers["cache-control"];
        assert_eq!(cached, if path == "/docs" { "no-cache" } else { "no-store" }, "{path}");
    }
    // The most frequent calls, acquire and its refusals, carry the same headers.
    let acquired = local.client.acquire("l", "a", 60_000, json!({})).await;
    let refused = local.client.acquire("l", "b", 60_000, json!({})).await;
    let invalid = local.client.acquire("l", "", 60_000, json!({})).await;
    for (answer, status) in [(acquired, 200), (refused, 409), (invalid, 400)] {
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["cache-control"], "no-store");
        let policy = &answer.headers["content-security-policy"];
        assert_eq!(policy, "default-src 'none'; frame-ancestors 'none'");
    }
    local.stop().await;
}

#[tokio::test]
async fn no_cache_keeps_a_stream() {
    let local = Local::start(settings(None)).await;
    let held = local.client.acquire("l", "o", 60_000, json!({})).await;
    let watch = json!({
        "owner_id": "o", "lease_id": held.get("lease_id"), "fencing_token": held.get("fencing_token"),
    });
    let watch = watch.to_string();
    for (line, body) in [
        ("GET /v1/events", ""),
        ("GET /console/live", ""),
        ("POST /v1/locks/l/watch", watch.as_str()),
    ] {
        let head = stream_head(&local, line, body).await;
        for header in
            ["cache-control: no-store", "x-content-type-options: nosniff", "text/event-stream"]
        {
            assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(header), "{line}: {head}");
        }
        assert!(head.contains("content-security-policy: default-src 'none'"), "{line}: {head}");
    }
    local.stop().await;
}

/// Returns the head of a response whose body is a stream without an end.
async fn stream_head(local: &Local, line: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(local.address).await.expect("a connection");
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        assert!(stream.read_buf(&mut answer).await.expect("an answer") > 0, "it ended");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

/// The paths of health checks are public, so no file can be stored there.
#[tokio::test]
async fn no_file_can_be_where_health_is_asked_for() {
    let scene = Scene::new().await;
    for path in ["leaderz", "healthz", "health", "livez", "readyz"] {
        let host = [("host", "evil.example"), ("origin", "http://evil.example")];
        let written = scene.status(&host, &format!("PUT /{path}"), "x").await;
        assert!(matches!(written, 404 | 405), "{path}: {written}");
    }
    scene.stop().await;
}
