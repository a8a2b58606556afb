//! Tests of the dialect `files`: unfinished uploads, guessed session ids, and the rights of a session.

use leasehold_testkit::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::auth::{NAMES, RULES, Scene};

async fn session(scene: &Scene, who: &str) -> String {
    let opened = scene.send(who, "POST /auth/session", Value::Null).await;
    format!("Bearer {}", opened.text_of("sessionId"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_under_way_is_not_published_without_the_right_to() {
    for (is_key_gone, expected) in [(true, "401"), (false, "403")] {
        let scene = Scene::new().await;
        let bearer = session(&scene, "file-writer").await;
        let mut stream = TcpStream::connect(scene.local.address).await.expect("a connection");
        let head = format!(
            "PUT /f.txt HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\
             content-length: 4\r\nconnection: close\r\n\r\nab"
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        let locks = "GET /admin/locks";
        scene
            .local
            .until("the upload has begun", async |_| {
                scene.send("revoker", locks, Value::Null).await.text.contains("/f.txt")
            })
            .await;
        if is_key_gone {
            scene.revoke("file-writer");
        } else {
            let rules = RULES.replace("may = [\"files-write\"]", "may = [\"files-read\"]");
            std::fs::write(scene.file("auth.toml"), rules).expect("a file");
        }
        scene.local.server.reload();
        let writes = [("authorization", bearer.as_str())];
        scene
            .local
            .until("the right is gone", async |_| {
                let status = scene.status(&writes, "PUT /g.txt", "x").await;
                status.to_string() == expected
            })
            .await;
        stream.write_all(b"cd").await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{answer}");
        assert_eq!(scene.send("admin", "GET /f.txt", Value::Null).await.status, 404);
        scene
            .local
            .until("its lock is released", async |_| {
                !scene.send("revoker", locks, Value::Null).await.text.contains("/f.txt")
            })
            .await;
        scene.stop().await;
    }
}

#[tokio::test]
async fn guesses_of_sessions_are_limited_and_the_right_one_is_not() {
    let scene = Scene::with(RULES, &NAMES, |settings| settings.auth.failures_per_minute = 3).await;
    let good = session(&scene, "file-reader").await;
    let guess = format!("Bearer {}", "0".repeat(84));
    let cookie = format!("hengdang_session={}", "1".repeat(84));
    for n in 0..8 {
        let header = match n % 2 {
            0 => ("authorization", guess.as_str()),
            _ => ("cookie", cookie.as_str()),
        };
        let line = if n % 4 < 2 { "GET /f.txt" } else { "GET /auth/session" };
        let (status, head) = scene.head(&[header], line, "").await;
        assert_eq!(status, if n < 3 { 401 } else { 429 }, "{n}");
        assert_eq!(head.contains("retry-after: "), n >= 3, "{head}");
    }
    assert_eq!(scene.status(&[("authorization", &good)], "GET /auth/session", "").await, 200);
    scene.local.advance_ms(20_000);
    assert_eq!(scene.status(&[("authorization", &guess)], "GET /f.txt", "").await, 401);
    scene.stop().await;
}

#[tokio::test]
async fn a_session_reports_the_rights_of_its_principal() {
    let scene = Scene::new().await;
    for (who, expected) in [
        ("file-reader", json!(["read"])),
        ("file-writer", json!(["read", "write"])),
        ("admin", json!(["read", "write"])),
    ] {
        let opened = scene.send(who, "POST /auth/session", Value::Null).await;
        assert_eq!(opened.body["permissions"], expected, "{who}");
        let bearer = format!("Bearer {}", opened.text_of("sessionId"));
        let headers = [("authorization", bearer.as_str())];
        let sent =
            scene.local.client.send_with(hyper::Method::GET, "/auth/session", &headers, "").await;
        assert_eq!(sent.expect("an answer").body["permissions"], expected, "{who}");
    }
    scene.stop().await;
}

/// Opens a session and returns its id and its cookie.
async fn cookie(scene: &Scene, who: &str) -> (String, String) {
    let bearer = session(scene, who).await;
    let id = bearer.trim_start_matches("Bearer ").to_owned();
    (bearer, format!("hengdang_session={id}"))
}

#[tokio::test]
async fn two_sessions_in_one_request_are_one_too_many() {
    let scene = Scene::new().await;
    let (bearer, same) = cookie(&scene, "file-writer").await;
    let (_, other) = cookie(&scene, "file-reader").await;
    let look = async |cookie: &str| {
        let headers = [("authorization", bearer.as_str()), ("cookie", cookie)];
        scene.status(&headers, "GET /auth/session", "").await
    };
    assert_eq!(look(&same).await, 200);
    assert_eq!(look(&other).await, 401);
    scene.stop().await;
}

#[tokio::test]
async fn a_cookie_counts_only_on_connections_that_keep_it_private() {
    let origins = |settings: &mut leasehold_server::serve::Settings| {
        settings.http.cors_origins = ["https://app.example".to_owned()].into();
    };
    let scene = Scene::with(RULES, &NAMES, origins).await;
    let (_, cookie) = cookie(&scene, "file-reader").await;
    let key = format!("Bearer {}", scene.keys["file-reader"].text);
    for (more, is_private) in [
        (("accept", "*/*"), true),
        // With a proxy in between, the connection might be readable by others, so cookies are not accepted.
        (("x-forwarded-for", "192.0.2.1"), false),
        (("origin", "https://app.example"), false),
    ] {
        let opened = [("authorization", key.as_str()), more];
        let (status, head) = scene.head(&opened, "POST /auth/session", "").await;
        assert_eq!((status, head.contains("set-cookie: ")), (201, is_private), "{head}");
        let status = scene.status(&[("cookie", &cookie), more], "GET /auth/session", "").await;
        assert_eq!(status, if is_private { 200 } else { 401 }, "{more:?}");
    }
    scene.stop().await;
}

/// Auth file with two tenants, each with its own directory.
const TENANTS: &str = r#"
version = 1
key-files = ["keys.toml"]

[[rule]]
name = "alice"
who = ["key:alice"]
may = ["files-read", "files-write"]
namespaces = ["files"]
locks = ["/alice/*"]

[[rule]]
name = "bob"
who = ["key:bob"]
may = ["files-read", "files-write"]
namespaces = ["files"]
locks = ["/bob/*"]
"#;

#[tokio::test]
async fn one_key_with_all_the_locks_it_can_have_does_not_keep_another_from_writing() {
    let scene = Scene::with(TENANTS, &["alice", "bob"], |settings| {
        settings.engine.limits.holders_max = 4;
        settings.engine.limits.principal_leases_max = 40;
    })
    .await;
    let (alice, bob) = (session(&scene, "alice").await, session(&scene, "bob").await);
    let ask = async |bearer: &str, line: &str| {
        scene.status(&[("authorization", bearer)], line, "x").await
    };
    assert_eq!(ask(&alice, "GET /bob?lock=acquire").await, 403);
    let mut n = 0;
    let refused = loop {
        match ask(&alice, &format!("GET /alice/f{n}?lock=acquire")).await {
            200 => n += 1,
            refused => break refused,
        }
    };
    // A lock on a file in a directory takes three leases. The principal's own limit stops it; other principals are not
    // affected.
    assert_eq!((n, refused), (40 / 3, 429));
    assert_eq!(ask(&alice, "PUT /alice/more").await, 429);
    assert_eq!(ask(&bob, "PUT /bob/f").await, 201);
    assert_eq!(ask(&bob, "GET /bob/g?lock=acquire").await, 200);
    assert_eq!(ask(&bob, "PUT /bob/g").await, 201);
    scene.stop().await;
}

#[tokio::test]
async fn downloads_with_a_session_count_for_the_principal_that_opened_it() {
    let scene = Scene::with(TENANTS, &["alice", "bob"], |settings| {
        settings.http.principal_downloads_max = 0;
    })
    .await;
    let alice = session(&scene, "alice").await;
    let status = scene.status(&[("authorization", alice.as_str())], "GET /alice/f", "").await;
    assert_eq!(status, 429, "the address is exempt, the principal is not");
    scene.stop().await;
}

#[tokio::test]
async fn over_tls_the_cookie_is_one_that_only_this_host_can_set() {
    let scene = Scene::with(RULES, &NAMES, |settings| {
        settings.http.trusted_proxies = ["127.0.0.0/8".parse().expect("a network")].into();
    })
    .await;
    let tls = ("x-forwarded-proto", "https");
    let key = scene.proof("file-writer").remove(0).1;
    let (status, head) =
        scene.head(&[tls, ("authorization", &key)], "POST /auth/session", "").await;
    assert_eq!(status, 201);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(cookie.starts_with("__host-hengdang_session="), "{cookie}");
    assert!(cookie.contains("; path=/;") && cookie.contains("; secure"), "{cookie}");
    assert!(!cookie.contains("domain"), "{cookie}");
    let id = cookie.split(['=', ';']).nth(1).expect("an id");
    let (own, plain) = (format!("__Host-hengdang_session={id}"), format!("hengdang_session={id}"));
    let tossed = format!("hengdang_session={}; {own}", "0".repeat(84));
    let browser = ("sec-fetch-site", "same-origin");
    for (cookie, browser, expected) in [
        (&own, Some(browser), 200),
        (&own, None, 200),
        // In a browser, another host of the same domain could have set a cookie without the `__Host-` prefix. A program
        // does not have this problem.
        (&plain, Some(browser), 401),
        (&plain, None, 200),
        (&tossed, Some(browser), 200),
    ] {
        let mut headers = vec![tls, ("cookie", cookie.as_str())];
        headers.extend(browser);
        let status = scene.status(&headers, "GET /auth/session", "").await;
        assert_eq!(status, expected, "{cookie} {browser:?}");
    }
    scene.stop().await;
}
