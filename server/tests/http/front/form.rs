//! Tests of malformed requests: hosts, slashes, chunks and lengths.

use std::time::Duration;

use leasehold_testkit::{Client, Local, json, settings};

use crate::front::{Raw, ask, post};

#[tokio::test]
async fn a_request_says_once_and_clearly_whom_it_is_for() {
    let local = Local::ephemeral().await;
    for (request, status) in [
        ("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("GET /healthz HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", 200),
        ("GET /healthz HTTP/1.0\r\n\r\n", 200),
        ("GET /v1/locks/x HTTP/1.0\r\n\r\n", 400),
        ("GET /v1/locks/x HTTP/1.0\r\nHost: a\r\n\r\n", 200),
        ("GET http://a/healthz HTTP/1.1\r\nHost: a\r\n\r\n", 200),
        ("GET /healthz HTTP/1.1\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost: me@a\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\nHost:\r\n\r\n", 400),
        ("GET http://b/healthz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ] {
        let answer = ask(local.address, request).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} "))
                || answer.starts_with(&format!("HTTP/1.0 {status} ")),
            "{request}{answer}"
        );
        assert!(status == 200 || answer.contains("connection: close"), "{request}{answer}");
    }
    // Calls that bypass the router are checked too.
    let acquire = json!({"owner_id": "a", "ttl_ms": 1000});
    let bad = post("/v1/locks/db/acquire", &acquire).replace("Host: a\r\n", "");
    assert!(ask(local.address, bad).await.starts_with("HTTP/1.1 400 "));
    assert_eq!(local.client.get("/v1/locks/db").await.get("held"), false);
}

#[tokio::test]
async fn slashes_too_many_at_the_start_of_a_path_do_no_harm() {
    let local = Local::ephemeral().await;
    let claims = local.client.get("//v1/claims/").await;
    assert_eq!((claims.status, claims.body), (200, json!([])));
    assert_eq!(local.client.get("///healthz").await.status, 200);
    let acquire = post("//v1/locks/db/acquire", &json!({"owner_id": "a", "ttl_ms": 60_000}));
    assert!(ask(local.address, acquire).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(local.client.get("/v1/locks/db").await.get("held"), true);
    // Elsewhere in the path, a double slash can be part of a name, or a mistake.
    assert_eq!(local.client.get("/v1//claims/").await.status, 404);
}

#[tokio::test]
async fn an_empty_namespace_is_told_so() {
    let local = Local::ephemeral().await;
    for path in [
        "/v1/namespaces//locks",
        "/v1/namespaces//locks/db",
        "/v1/namespaces//locks/db/acquire",
        "/v1/namespaces//events",
    ] {
        let refused = local.client.get(path).await;
        assert_eq!(
            (refused.status, refused.text_of("code").as_str()),
            (400, "INVALID_REQUEST"),
            "{path}"
        );
        assert!(refused.text.contains("namespace"), "{}", refused.text);
    }
}

#[tokio::test]
async fn only_chunks_are_a_transfer_coding() {
    let local = Local::ephemeral().await;
    let head = "POST /v1/locks/db/acquire HTTP/1.1\r\nHost: a\r\n";
    let chunks = "\r\n21\r\n{\"owner_id\":\"a\",\"ttl_ms\":60000}  \r\n0\r\n\r\n";
    for (coding, status) in [
        ("Transfer-Encoding: chunked\r\n", 200),
        ("Transfer-Encoding: gzip, chunked\r\n", 400),
        ("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Transfer-Encoding: identity\r\n", 400),
    ] {
        let answer = ask(local.address, format!("{head}{coding}{chunks}")).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{coding}{answer}");
    }
}

#[tokio::test]
async fn a_head_that_can_be_read_in_two_ways_is_refused() {
    let local = Local::ephemeral().await;
    let chunks = "21\r\n{\"owner_id\":\"a\",\"ttl_ms\":60000}  \r\n0\r\n\r\n";
    let line = "POST /v1/locks/db/acquire HTTP/1.1\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (n, head) in [
        format!("{line}Host: a\r\nContent-Length: 46\r\n{chunked}\r\n"),
        format!("{line}Host: a\r\n{chunked}Content-Length: 46\r\n\r\n"),
        format!("{line}Host: a\n{chunked}\r\n"),
        format!("{line}Host: a\r\n{chunked}\n"),
        format!("{}Host: a\r\n{chunked}\r\n", line.replace('\r', "")),
        format!("{}Host: a\r\n{chunked}\r\n", line.replace("acquire", "acquire#x")),
    ]
    .into_iter()
    .enumerate()
    {
        let answer = ask(local.address, format!("{head}{chunks}")).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
        assert!(answer.contains("connection: close"), "{head:?}: {answer}");
        assert_eq!(local.client.get("/v1/locks/db").await.get("held"), false, "{head:?}");
        // The same as the second request of a connection: the first is answered, and its body is not parsed as a head.
        let mut raw = Raw::connect(local.address).await;
        let first = post(
            &format!("/v1/locks/other{n}/acquire"),
            &json!({"owner_id": "#\n", "ttl_ms": 9, "metadata": "\n#\r\n"}),
        );
        raw.send(&first).await;
        let answer = raw.answer().await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        raw.send(format!("{head}{chunks}")).await;
        let answer = raw.rest().await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
        assert_eq!(local.client.get("/v1/locks/db").await.get("held"), false, "{head:?}");
    }
    let whole = format!("{line}Host: a\r\n{chunked}\r\n{chunks}");
    assert!(ask(local.address, whole).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_bare_line_feed_after_the_last_chunk_is_refused() {
    let local = Local::ephemeral().await;
    let head =
        "POST /v1/locks/db/acquire HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunk = "21\r\n{\"owner_id\":\"a\",\"ttl_ms\":60000}  \r\n0\r\n";
    for trailer in ["T: u\nV: w\r\n\r\n", "T: u\r\n\nV: w\r\n\r\n", "\nT: u\r\n\r\n"] {
        let mut raw = Raw::connect(local.address).await;
        raw.send(format!("{head}{chunk}{trailer}GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        let answer = raw.rest().await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{trailer:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{trailer:?}: {answer}");
        assert_eq!(local.client.get("/v1/locks/db").await.get("held"), false, "{trailer:?}");
    }
    let whole = format!("{head}{chunk}T: u\r\n\r\n");
    assert!(ask(local.address, whole).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn bodies_of_any_bytes_arrive_as_they_were_sent() {
    let local = Local::ephemeral().await;
    let opened = local.client.post("/auth/session", json!({})).await.unwrap();
    let session = opened.text_of("sessionId");
    let content =
        "GET /#\nContent-Length: 1\r\nTransfer-Encoding: chunked\n\r\n\r\n\n".repeat(5_000);
    let head = |length: &str| {
        format!("PUT /f HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {session}\r\n{length}\r\n\r\n")
    };
    let chunk = |bytes: &str| format!("{:x}\r\n{bytes}\r\n", bytes.len());
    let (one, other) = content.split_at(70_001);
    let mut raw = Raw::connect(local.address).await;
    for request in [
        head(&format!("Content-Length: {}", content.len())) + &content,
        head("Transfer-Encoding: chunked") + &chunk(one) + &chunk(other) + "0\r\nX: #\r\n\r\n",
    ] {
        raw.send(&request).await;
        let answer = raw.answer().await;
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        assert!(local.client.get("/f").await.text == content, "it arrived as it was");
    }
}

#[tokio::test]
async fn a_malformed_chunk_is_the_clients_mistake_and_not_a_timeout() {
    let local = Local::ephemeral().await;
    for path in ["/v1/locks/db/acquire", "/leases/acquire", "/v1/claims/"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        for chunk in ["zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}xx0\r\n\r\n", "-1\r\n{}\r\n"] {
            let answer = ask(local.address, format!("{head}{chunk}")).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{path} {chunk}{answer}");
        }
    }
}

#[tokio::test]
async fn a_length_beyond_the_limit_is_refused_before_anything_has_come() {
    let mut settings = settings(None);
    settings.http.body_timeout = Duration::from_secs(600);
    let local = Local::start(settings).await;
    for path in ["/v1/locks/db/acquire", "/v1/namespaces/n/locks/db/acquire", "/leases/acquire"] {
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n");
        let mut raw = Raw::connect(local.address).await;
        raw.send(head).await;
        let answer = raw.answer().await;
        assert!(answer.starts_with("HTTP/1.1 413 "), "{path}: {answer}");
        assert!(answer.contains("65536") && answer.contains("body-bytes-max"), "{answer}");
    }
    let client = Client::new(local.address);
    assert_eq!(client.acquire("db", "a", 1000, json!({})).await.status, 200);
}
