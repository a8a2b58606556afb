//! Tests of an upload that pauses in the middle until the test continues it.

use std::time::Duration;

use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::doors::files::{Editor, Home, MINUTE_MS, check_locked, check_refused};

/// A `PUT` whose head was sent. The server has acquired its lock.
pub(crate) struct Slow {
    stream: TcpStream,
}

impl Slow {
    /// Starts an upload of this many bytes and waits until it holds the lock.
    pub(crate) async fn begin(home: &Home, editor: &Editor, path: &str, n_bytes: usize) -> Self {
        let slow = Self::send(home, editor, path, n_bytes).await;
        let status = format!("{path}?lock=status");
        let is_locked = async || {
            let seen = home.send(Some(editor), Method::GET, &status, "").await;
            seen.get("locked").as_bool() == Some(true)
        };
        home.local.until("the upload has the lock", async |_| is_locked().await).await;
        slow
    }

    async fn send(home: &Home, editor: &Editor, path: &str, n_bytes: usize) -> Self {
        let mut stream = TcpStream::connect(home.local.address).await.expect("a connection");
        let head = format!(
            "PUT {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-length: {n_bytes}\r\n\
             connection: close\r\n\r\n",
            editor.id
        );
        stream.write_all(head.as_bytes()).await.expect("sent");
        Self { stream }
    }

    pub(crate) async fn more(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.expect("sent");
    }

    /// Sends the rest and reads the whole response.
    pub(crate) async fn finish(mut self, bytes: &str) -> String {
        self.more(bytes).await;
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }
}

#[tokio::test]
async fn an_upload_that_outlived_its_lock_writes_nothing() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.put(&editor, "/f", "old").await;
    let slow = Slow::begin(&home, &editor, "/f", 4).await;
    home.local.advance_ms(30 * MINUTE_MS);
    let answer = slow.finish("late").await;
    assert!(answer.starts_with("HTTP/1.1 423"), "{answer}");
    for member in ["error", "message", "lockedBy", "lockedAt", "expiresAt"] {
        assert!(answer.contains(&format!("{member:?}:")), "no {member} in {answer}");
    }
    assert_eq!(home.content("/f").await.as_deref(), Some("old"));
    assert_eq!(home.lock(&other, "/f", "acquire").await.status, 200);
}

#[tokio::test]
async fn an_upload_cannot_overwrite_what_the_next_holder_wrote() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    let slow = Slow::begin(&home, &editor, "/f", 4).await;
    home.local.advance_ms(30 * MINUTE_MS);
    assert_eq!(home.put(&other, "/f", "theirs").await.status, 201);
    let answer = slow.finish("late").await;
    assert!(answer.starts_with("HTTP/1.1 423"), "{answer}");
    assert_eq!(home.content("/f").await.as_deref(), Some("theirs"));
}

#[tokio::test]
async fn an_upload_whose_lock_was_released_or_revoked_writes_nothing() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let slow = Slow::begin(&home, &editor, "/given", 4).await;
    assert_eq!(home.lock(&editor, "/given", "release").await.status, 200);
    assert!(slow.finish("late").await.starts_with("HTTP/1.1 423"));
    let slow = Slow::begin(&home, &editor, "/taken", 4).await;
    assert_eq!(home.delete(&editor, "/admin/locks/taken").await.status, 200);
    assert!(slow.finish("late").await.starts_with("HTTP/1.1 423"));
    let slow = Slow::begin(&home, &editor, "/closed", 4).await;
    assert_eq!(home.delete(&editor, "/auth/session").await.status, 204);
    assert!(slow.finish("late").await.starts_with("HTTP/1.1 423"));
    for path in ["/given", "/taken", "/closed"] {
        assert_eq!(home.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn right_before_the_end_a_lock_is_made_to_last_30_s() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    let slow = Slow::begin(&home, &editor, "/f", 4).await;
    home.local.advance_ms(30 * MINUTE_MS - 1);
    check_locked(&home.lock(&other, "/f", "acquire").await, &editor);
    let answer = slow.finish("just").await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(home.content("/f").await.as_deref(), Some("just"));
}

#[tokio::test]
async fn readers_see_the_old_content_until_the_new_is_complete() {
    let home = Home::start().await;
    let editor = home.editor().await;
    home.put(&editor, "/f", "old").await;
    let mut slow = Slow::begin(&home, &editor, "/f", 10).await;
    slow.more("01234").await;
    assert_eq!(home.content("/f").await.as_deref(), Some("old"));
    slow.finish("56789").await;
    assert_eq!(home.content("/f").await.as_deref(), Some("0123456789"));
}

#[tokio::test]
async fn an_upload_that_breaks_off_changes_nothing_and_gives_its_lock_back() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    let mut slow = Slow::begin(&home, &editor, "/f", 10).await;
    slow.more("01234").await;
    drop(slow);
    home.local
        .until("the lock is free", async |_| home.lock(&other, "/f", "acquire").await.status == 200)
        .await;
    assert_eq!(home.get("/f").await.status, 404);
    home.local
        .until("nothing is left", async |_| {
            std::fs::read_dir(home.on_disk(".leasehold/incoming")).expect("a folder").count() == 0
        })
        .await;
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_a_lock_that_was_taken_before() {
    let home = Home::start().await;
    let (editor, other) = (home.editor().await, home.editor().await);
    home.lock(&editor, "/f", "acquire").await;
    let mut slow = Slow::begin(&home, &editor, "/f", 10).await;
    slow.more("01234").await;
    drop(slow);
    home.local
        .until("nothing is left", async |_| {
            std::fs::read_dir(home.on_disk(".leasehold/incoming")).expect("a folder").count() == 0
        })
        .await;
    check_locked(&home.lock(&other, "/f", "acquire").await, &editor);
}

#[tokio::test]
async fn of_two_uploads_of_one_session_one_is_written_and_the_other_refused() {
    let home = Home::start().await;
    let editor = home.editor().await;
    let slow = Slow::begin(&home, &editor, "/f", 4).await;
    assert_eq!(home.put(&editor, "/f", "quick").await.status, 201);
    assert!(slow.finish("slow").await.starts_with("HTTP/1.1 423"));
    assert_eq!(home.content("/f").await.as_deref(), Some("quick"));
}

#[tokio::test]
async fn a_client_may_be_slow_but_not_silent() {
    let mut settings = leasehold_testkit::settings(None);
    settings.http.body_timeout = Duration::from_millis(50);
    let home = Home::with(settings).await;
    let editor = home.editor().await;
    let slow = Slow::send(&home, &editor, "/f", 4).await;
    let answer = slow.finish("no").await;
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    check_refused(&home.get("/f").await, 404, "no such file");
}
