//! Tests of `?lock=` beyond the original specification.

use hyper::Method;
use leasehold_testkit::{json, settings};

use crate::doors::files::{Home, MINUTE_MS, check, check_refused};

#[tokio::test]
async fn acquiring_again_renews() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.lock(&editor, "/f", "acquire").await;
    home.local.advance_ms(MINUTE_MS);
    let again = home.lock(&editor, "/f", "acquire").await;
    let body = json!({"message": "Lock acquired", "path": "/f", "sessionId": editor.shown()});
    check(&again, 200, body);
    let status = home.lock(&editor, "/f", "status").await;
    assert_eq!(status.body["lock"]["expiresAt"], 1_736_728_200_000 + MINUTE_MS);
}

#[tokio::test]
async fn post_does_what_get_does() {
    let home = Home::start().await;
    let editor = home.editor().await;
    for (operation, message) in [
        ("acquire", "Lock acquired"),
        ("refresh", "Lock refreshed"),
        ("status", ""),
        ("release", "Lock released"),
    ] {
        let path = format!("/f?lock={operation}");
        let done = home.send(Some(&editor), Method::POST, &path, "").await;
        assert_eq!((done.status, done.text_of("message").as_str()), (200, message));
    }
}

#[tokio::test]
async fn without_a_lock_there_is_nothing_to_release_or_refresh() {
    let home = Home::start().await;
    let editor = home.editor().await;
    for operation in ["release", "refresh"] {
        let refused = home.lock(&editor, "/f", operation).await;
        check_refused(&refused, 404, "No lock found or not owned by this session");
    }
}

#[tokio::test]
async fn what_is_no_operation_is_refused() {
    let home = Home::start().await;
    let editor = home.editor().await;
    for query in ["lock=", "lock=Acquire", "lock=steal", "lock", "lock=acquire%20"] {
        let refused = home.send(Some(&editor), Method::GET, &format!("/f?{query}"), "").await;
        check_refused(&refused, 400, "lock: must be");
    }
    for method in [Method::PUT, Method::DELETE, Method::HEAD] {
        let refused = home.send(Some(&editor), method.clone(), "/f?lock=acquire", "x").await;
        assert_eq!(refused.status, 400, "{method}");
    }
    let twice = home.send(Some(&editor), Method::GET, "/f?lock=status&lock=acquire", "").await;
    check_refused(&twice, 400, "lock");
    assert_eq!(home.lock(&editor, "/f", "status").await.get("locked"), &json!(false));
}

#[tokio::test]
async fn how_long_a_lock_lasts_is_a_setting() {
    let mut short = settings(None);
    short.dialect.files.lock_ttl = leasehold_core::Span::from_secs(60);
    let home = Home::with(short).await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.lock(&editor, "/f", "acquire").await;
    home.local.advance_ms(59_999);
    assert_eq!(home.lock(&other, "/f", "acquire").await.status, 423);
    home.local.advance_ms(1);
    assert_eq!(home.lock(&other, "/f", "acquire").await.status, 200);
}
