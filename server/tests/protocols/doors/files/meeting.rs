//! Tests of the same lock through this dialect and the others: one lock, one holder, one sequence of tokens.

use hyper::Method;
use leasehold_testkit::{json, settings};

use crate::doors::files::{Home, check_refused};

const NATIVE: &str = "/v1/namespaces/files/locks/%2Ff";

#[tokio::test]
async fn the_native_dialect_sees_the_lock_waits_for_it_and_its_tokens_go_on() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.lock(&editor, "/f", "acquire").await;
    let seen = home.get(NATIVE).await;
    let said = (seen.get("held"), seen.number("fencing_token"));
    assert_eq!(said, (&json!(true), 1));
    assert!(!seen.text.contains(&editor.id));
    let client = home.local.client.clone();
    let waiting = tokio::spawn(async move {
        let body = json!({"owner_id": "robot", "ttl_ms": 60_000, "wait_ms": 60_000});
        client.post(&format!("{NATIVE}/acquire"), body).await.expect("an answer")
    });
    home.local
        .until("it waits", async |client| {
            client.get(NATIVE).await.get("queue").as_array().is_some_and(|queue| queue.len() == 1)
        })
        .await;
    home.lock(&editor, "/f", "release").await;
    let granted = waiting.await.expect("an answer");
    assert_eq!((granted.status, granted.number("fencing_token")), (200, 2));
    let refused = home.put(&editor, "/f", "x").await;
    assert_eq!((refused.status, refused.text_of("lockedBy").as_str()), (423, "robot"));
    home.local.advance_ms(60_000);
    assert_eq!(home.put(&editor, "/f", "x").await.status, 201);
    assert_eq!(home.get(NATIVE).await.number("last_token"), 3);
}

#[tokio::test]
async fn what_another_dialect_holds_cannot_be_released_or_refreshed_here() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let body = json!({"owner_id": "robot", "ttl_ms": 60_000});
    home.local.client.post(&format!("{NATIVE}/acquire"), body).await.expect("an answer");
    for operation in ["acquire", "release", "refresh"] {
        let refused = home.lock(&editor, "/f", operation).await;
        assert_eq!((refused.status, refused.text_of("lockedBy").as_str()), (423, "robot"));
    }
    let status = home.lock(&editor, "/f", "status").await;
    assert_eq!(status.get("ownedByThisSession"), &json!(false));
}

#[tokio::test]
async fn a_file_kept_for_its_last_holder_is_locked() {
    let mut shared = settings(None);
    shared.dialect.sticky.namespace = "files".into();
    let home = Home::with(shared).await;
    let editor = home.editor().await;
    let path = "/lock?client=laptop&job=%2Ff&ttl=10s";
    assert_eq!(home.send(None, Method::POST, path, "").await.status, 200);
    home.local.advance_ms(11_000);
    let refused = home.put(&editor, "/f", "x").await;
    let said = (refused.status, refused.text_of("lockedBy"), refused.number("expiresAt"));
    assert_eq!(said, (423, "laptop".into(), 1_736_726_415_000));
    home.local.advance_ms(4_000);
    assert_eq!(home.put(&editor, "/f", "x").await.status, 201);
}

#[tokio::test]
async fn the_namespace_of_files_is_a_setting() {
    let mut other = settings(None);
    other.dialect.files.namespace = "share".into();
    let home = Home::with(other).await;
    let editor = home.editor().await;
    home.lock(&editor, "/f", "acquire").await;
    assert_eq!(home.get(NATIVE).await.get("held"), &json!(false));
    let seen = home.get("/v1/namespaces/share/locks/%2Ff").await;
    assert_eq!(seen.get("held"), &json!(true));
}

#[tokio::test]
async fn without_the_dialect_its_paths_are_nothing() {
    let mut without = settings(None);
    // Other dialects keep content in the same directory, so they are disabled too.
    without.dialects.retain(|dialect| !dialect.keeps_content());
    let home = Home::with(without).await;
    for path in ["/f", "/", "/files/f", "/auth/session", "/admin/locks"] {
        let refused = home.get(path).await;
        assert_eq!((refused.status, refused.text_of("code").as_str()), (404, "NOT_FOUND"));
    }
    assert!(!home.on_disk(".leasehold").exists());
}

#[tokio::test]
async fn a_waiter_of_another_dialect_is_before_later_clients() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let shared = json!({"owner_id": "reader", "ttl_ms": 60_000, "mode": "shared"});
    let held = home.local.client.post(&format!("{NATIVE}/acquire"), shared).await;
    assert_eq!(held.expect("an answer").status, 200);
    let refused = home.put(&editor, "/f", "x").await;
    assert_eq!((refused.status, refused.text_of("lockedBy").as_str()), (423, "reader"));
    check_refused(&home.get("/f").await, 404, "no such file");
}
