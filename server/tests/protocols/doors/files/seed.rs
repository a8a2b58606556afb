//! Tests of the dialect's original specification (002), one for each sentence.

use leasehold_testkit::json;

use crate::doors::files::{Home, MINUTE_MS, check, check_locked, check_refused};

const PATH: &str = "/documents/file.txt";

#[tokio::test]
async fn file_locks_are_automatically_acquired_during_put_operations() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    let slow = crate::doors::files::slow::Slow::begin(&home, &editor, PATH, 10).await;
    check_locked(&home.lock(&other, PATH, "acquire").await, &editor);
    let written = slow.finish("0123456789").await;
    assert!(written.starts_with("HTTP/1.1 201"), "{written}");
}

#[tokio::test]
async fn servers_must_attempt_to_acquire_a_lock_before_writing_if_locked_by_another_session_return_423()
 {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.put(&editor, PATH, "old").await;
    home.lock(&editor, PATH, "acquire").await;
    check_locked(&home.put(&other, PATH, "new").await, &editor);
    assert_eq!(home.content(PATH).await.as_deref(), Some("old"));
}

#[tokio::test]
async fn lock_acquire_acquires_the_lock_without_writing() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let acquired = home.lock(&editor, PATH, "acquire").await;
    let body = json!({"message": "Lock acquired", "path": PATH, "sessionId": editor.shown()});
    check(&acquired, 200, body);
    assert_eq!(home.get(PATH).await.status, 404);
}

#[tokio::test]
async fn lock_release_releases_an_existing_lock() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.lock(&editor, PATH, "acquire").await;
    let released = home.lock(&editor, PATH, "release").await;
    check(&released, 200, json!({"message": "Lock released", "path": PATH}));
    assert_eq!(home.lock(&other, PATH, "acquire").await.status, 200);
}

#[tokio::test]
async fn lock_refresh_extends_lock_expiry_by_30_minutes_for_the_owning_session() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.lock(&editor, PATH, "acquire").await;
    home.local.advance_ms(29 * MINUTE_MS);
    let refreshed = home.lock(&editor, PATH, "refresh").await;
    check(&refreshed, 200, json!({"message": "Lock refreshed", "path": PATH}));
    let status = home.lock(&editor, PATH, "status").await;
    assert_eq!(status.body["lock"]["expiresAt"], 1_736_726_400_000 + 59 * MINUTE_MS);
    assert_eq!(status.body["lock"]["lockedAt"], 1_736_726_400_000_u64);
}

#[tokio::test]
async fn lock_status_checks_the_lock_status() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    let free = json!({"locked": false, "ownedByThisSession": false});
    check(&home.lock(&editor, PATH, "status").await, 200, free.clone());
    home.lock(&editor, PATH, "acquire").await;
    let lock = json!({
        "path": PATH,
        "lockedBy": editor.shown(),
        "lockedAt": 1_736_726_400_000_u64,
        "expiresAt": 1_736_728_200_000_u64,
    });
    let of = |is_own: bool| json!({"locked": true, "lock": lock, "ownedByThisSession": is_own});
    check(&home.lock(&other, PATH, "status").await, 200, of(false));
    check(&home.lock(&editor, PATH, "status").await, 200, of(true));
    home.lock(&editor, PATH, "release").await;
    check(&home.lock(&editor, PATH, "status").await, 200, free);
}

#[tokio::test]
async fn when_a_file_is_locked_by_another_session_the_423_says_by_whom_since_when_and_until_when() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.lock(&editor, PATH, "acquire").await;
    home.local.advance_ms(5 * MINUTE_MS);
    for operation in ["acquire", "release", "refresh"] {
        check_locked(&home.lock(&other, PATH, operation).await, &editor);
    }
    check_locked(&home.put(&other, PATH, "x").await, &editor);
    check_locked(&home.delete(&other, PATH).await, &editor);
    assert!(!home.put(&other, PATH, "x").await.text.contains(&editor.id));
}

#[tokio::test]
async fn locks_expire_after_1800_seconds() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.lock(&editor, PATH, "acquire").await;
    home.local.advance_ms(1_800_000 - 1);
    check_locked(&home.lock(&other, PATH, "acquire").await, &editor);
    home.local.advance_ms(1);
    check_refused(&home.lock(&editor, PATH, "refresh").await, 404, "No lock found");
    assert_eq!(home.lock(&other, PATH, "acquire").await.status, 200);
}

#[tokio::test]
async fn only_the_locking_session_can_release_or_refresh() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.lock(&editor, PATH, "acquire").await;
    home.local.advance_ms(MINUTE_MS);
    for operation in ["release", "refresh"] {
        check_locked(&home.lock(&other, PATH, operation).await, &editor);
    }
    let status = home.lock(&editor, PATH, "status").await;
    assert_eq!(status.body["lock"]["expiresAt"], 1_736_728_200_000_u64);
    for operation in ["refresh", "release"] {
        assert_eq!(home.lock(&editor, PATH, operation).await.status, 200);
    }
}

#[tokio::test]
async fn locks_apply_to_individual_files_not_directories() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.lock(&editor, PATH, "acquire").await;
    assert_eq!(home.put(&other, "/documents/other.txt", "x").await.status, 201);
    for path in ["/documents", "/documents/", "/"] {
        for operation in ["acquire", "release", "refresh", "status"] {
            let refused = home.lock(&editor, path, operation).await;
            check_refused(&refused, 400, "not to folders");
        }
    }
}

#[tokio::test]
async fn locks_are_released_after_successful_put_operations() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    assert_eq!(home.put(&editor, PATH, "one").await.status, 201);
    assert_eq!(home.put(&other, PATH, "two").await.status, 200);
    home.lock(&editor, PATH, "acquire").await;
    assert_eq!(home.put(&editor, PATH, "three").await.status, 200);
    check_refused(&home.lock(&editor, PATH, "release").await, 404, "No lock found");
    assert_eq!(home.put(&other, PATH, "four").await.status, 200);
}

#[tokio::test]
async fn when_sessions_are_deleted_all_associated_locks_must_be_released_automatically() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    for path in ["/a", "/b", "/c/d"] {
        assert_eq!(home.lock(&editor, path, "acquire").await.status, 200);
    }
    assert_eq!(home.delete(&editor, "/auth/session").await.status, 204);
    for path in ["/a", "/b", "/c/d"] {
        assert_eq!(home.lock(&other, path, "acquire").await.status, 200);
    }
}

#[tokio::test]
async fn when_sessions_expire_all_associated_locks_must_be_released_automatically() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.local.advance_ms(7 * 24 * 60 * MINUTE_MS - MINUTE_MS);
    let other = home.editor().await;
    home.lock(&editor, PATH, "acquire").await;
    home.local.advance_ms(MINUTE_MS - 1);
    assert_eq!(home.lock(&other, PATH, "acquire").await.status, 423);
    home.local.advance_ms(1);
    check_refused(&home.lock(&editor, PATH, "status").await, 401, "Invalid session");
    assert_eq!(home.lock(&other, PATH, "acquire").await.status, 200);
}
