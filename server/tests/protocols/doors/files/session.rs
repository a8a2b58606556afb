//! Tests of files sessions.

use hyper::Method;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Client, json, settings};

use crate::doors::files::{Editor, Home, check, check_refused};

const WEEK_S: u64 = 7 * 24 * 3600;

#[tokio::test]
async fn a_session_is_handed_out_with_its_cookie() {
    let home = Home::start().await;
    let opened = home.send(None, Method::POST, "/auth/session", "").await;
    let id = opened.text_of("sessionId");
    let expires_at = 1_736_726_400_000 + WEEK_S * 1000;
    let body = json!({"sessionId": id, "permissions": ["read", "write"], "expiresAt": expires_at});
    check(&opened, 201, body);
    let cookie =
        format!("hengdang_session={id}; Path=/; Max-Age={WEEK_S}; HttpOnly; SameSite=Strict");
    assert_eq!(opened.headers["set-cookie"], cookie.as_str());
    assert!(id.len() >= 64, "256 bits at least: {id}");
    assert_ne!(id, home.editor().await.id);
}

#[tokio::test]
async fn a_session_is_known_by_its_cookie_and_by_its_bearer_token() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let cookies = [
        format!("hengdang_session={}", editor.id),
        format!("a=b; hengdang_session={}; c=d", editor.id),
    ];
    for cookie in &cookies {
        let headers = [("cookie", cookie.as_str())];
        let seen = home.send_with(None, Method::GET, "/auth/session", &headers, "").await;
        assert_eq!(seen.status, 200, "{cookie}");
    }
    for bearer in [format!("Bearer {}", editor.id), format!("bearer  {}", editor.id)] {
        let headers = [("authorization", bearer.as_str())];
        let seen = home.send_with(None, Method::GET, "/auth/session", &headers, "").await;
        assert_eq!(seen.status, 200, "{bearer}");
    }
}

#[tokio::test]
async fn a_session_is_shown_without_its_secret() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let expires_at = 1_736_726_400_000 + WEEK_S * 1000;
    let shown = json!({
        "sessionId": editor.shown(), "permissions": ["read", "write"], "expiresAt": expires_at,
    });
    let seen = home.send(Some(&editor), Method::GET, "/auth/session", "").await;
    check(&seen, 200, shown.clone());
    let seen = home.send(Some(&editor), Method::GET, "/auth/sessions", "").await;
    check(&seen, 200, json!({"sessions": [shown]}));
}

#[tokio::test]
async fn a_deleted_session_is_over() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let deleted = home.delete(&editor, "/auth/session").await;
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    let cookie = deleted.headers["set-cookie"].to_str().expect("text");
    assert!(cookie.starts_with("hengdang_session=; Path=/; Max-Age=0;"), "{cookie}");
    check_refused(&home.delete(&editor, "/auth/session").await, 401, "Invalid session");
    check_refused(&home.put(&editor, "/f", "x").await, 401, "Invalid session");
}

#[tokio::test]
async fn without_a_session_nothing_is_changed() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.put(&editor, "/f", "x").await;
    for (method, path) in [
        (Method::PUT, "/f"),
        (Method::DELETE, "/f"),
        (Method::POST, "/folder/"),
        (Method::GET, "/f?lock=acquire"),
        (Method::POST, "/f?lock=acquire"),
        (Method::GET, "/f?lock=status"),
        (Method::GET, "/auth/session"),
        (Method::GET, "/auth/sessions"),
        (Method::DELETE, "/auth/session"),
    ] {
        let refused = home.send(None, method.clone(), path, "new").await;
        check_refused(&refused, 401, "Authentication required");
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
        let unknown = Editor { id: "0".repeat(84) };
        let refused = home.send(Some(&unknown), method, path, "new").await;
        check_refused(&refused, 401, "Invalid session");
    }
    assert_eq!(home.content("/f").await.as_deref(), Some("x"));
    assert!(!home.on_disk("folder").exists());
}

#[tokio::test]
async fn what_is_no_session_id_is_no_session() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let almost = format!("{}0", &editor.id[..83]);
    for id in ["", "x", &almost, &editor.id.to_uppercase(), &format!("{}00", editor.id)] {
        // One in sixteen ids ends in 0 anyway.
        if id == editor.id {
            continue;
        }
        let refused = home.put(&Editor { id: id.into() }, "/f", "x").await;
        check_refused(&refused, 401, "Invalid session");
    }
    for header in ["Basic dXNlcjpwYXNz", "Bearer", ""] {
        let headers = [("authorization", header)];
        let refused = home.send_with(None, Method::PUT, "/f", &headers, "x").await;
        check_refused(&refused, 401, "Invalid session");
    }
}

#[tokio::test]
async fn a_session_of_the_native_dialect_is_unknown_here() {
    let home = Home::start().await;
    let body = json!({"owner_id": "a", "ttl_ms": 60_000});
    let opened = home.local.client.post("/v1/sessions", body).await.expect("an answer");
    let native = Editor { id: opened.text_of("session_id") };
    check_refused(&home.put(&native, "/f", "x").await, 401, "Invalid session");
    let editor = home.editor().await;
    let native = home.get(&format!("/v1/sessions/{}", editor.id)).await;
    assert_eq!(native.status, 404, "{native:?}");
}

#[tokio::test]
async fn sessions_survive_a_restart_and_their_secrets_are_not_on_disk() {
    let data = leasehold_testkit::folder();
    let home = Home::with(settings(Some(data.path()))).await;
    let editor = home.editor().await;
    home.lock(&editor, "/f", "acquire").await;
    let Home { local, folder } = home;
    let clock = local.clock.clone();
    local.stop().await;
    for entry in std::fs::read_dir(data.path()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).unwrap_or_default();
        let secret = &editor.id.as_bytes()[20..];
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{path:?}");
    }
    let again = Settings { files: Some(folder.path().into()), ..settings(Some(data.path())) };
    let local = leasehold_testkit::Local::start_at(again, clock).await;
    let home = Home { local, folder };
    let other = home.editor().await;
    assert_eq!(home.put(&other, "/f", "x").await.status, 423);
    assert_eq!(home.put(&editor, "/f", "x").await.status, 201);
}

#[tokio::test]
async fn how_long_a_session_lasts_is_a_setting() {
    let mut short = settings(None);
    short.dialect.files.session_ttl = leasehold_core::Span::from_secs(60);
    let home = Home::with(short).await;
    let editor = home.editor().await;
    home.local.advance_ms(59_999);
    assert_eq!(home.put(&editor, "/f", "x").await.status, 201);
    home.local.advance_ms(1);
    check_refused(&home.put(&editor, "/f", "y").await, 401, "Invalid session");
}

#[tokio::test]
async fn there_are_at_most_so_many_sessions() {
    let mut few = settings(None);
    few.engine.limits.sessions_max = 1;
    let home = Home::with(few).await;
    let editor = home.editor().await;
    let refused = home.send(None, Method::POST, "/auth/session", "").await;
    check_refused(&refused, 429, "too many sessions");
    assert!(refused.headers.contains_key("retry-after"));
    home.delete(&editor, "/auth/session").await;
    let again = async |client: &Client| {
        client.post("/auth/session", json!({})).await.is_ok_and(|opened| opened.status == 201)
    };
    home.local.until("there is room again", again).await;
}

#[tokio::test]
async fn reading_without_a_session_is_for_public_files_only() {
    let mut private = settings(None);
    private.dialect.files.is_public = false;
    let home = Home::with(private).await;
    let editor = home.editor().await;
    home.put(&editor, "/f", "x").await;
    for method in [Method::GET, Method::HEAD] {
        for path in ["/f", "/", "/missing"] {
            let refused = home.send(None, method.clone(), path, "").await;
            assert_eq!(refused.status, 401, "{method} {path}");
        }
    }
    let read = home.send(Some(&editor), Method::GET, "/f", "").await;
    assert_eq!((read.status, read.text.as_str()), (200, "x"));
}
