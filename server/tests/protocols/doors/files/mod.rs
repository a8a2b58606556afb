//! Tests of the dialect `files` over real HTTP, with a clock that the tests control.

mod admin;
mod folder;
mod foreign;
mod lock;
mod meeting;
mod path;
mod read;
mod seed;
mod session;
mod share;
mod slow;
mod turn;
mod ugly;
mod write;

use std::path::PathBuf;

use hyper::Method;
use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, Response, TempDir, Value, folder, json, settings};

/// The time at which the lock of the specification's example was acquired.
const WALL_MS: i64 = 1_736_726_400_000;
const MINUTE_MS: u64 = 60_000;

/// A server with files, in a directory that the tests can read.
struct Home {
    local: Local,
    folder: TempDir,
}

/// A client with a files session.
#[derive(Clone)]
struct Editor {
    id: String,
}

impl Home {
    async fn start() -> Self {
        Self::with(settings(None)).await
    }

    async fn with(settings: Settings) -> Self {
        let folder = folder();
        let local = Local::start(Settings { files: Some(folder.path().into()), ..settings }).await;
        local.clock.set_wall_ms(WALL_MS);
        Self { local, folder }
    }

    /// Returns where a file is on disk.
    fn on_disk(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    async fn editor(&self) -> Editor {
        let opened = self.send(None, Method::POST, "/auth/session", "").await;
        assert_eq!(opened.status, 201, "{opened:?}");
        Editor { id: opened.text_of("sessionId") }
    }

    async fn send(
        &self,
        editor: Option<&Editor>,
        method: Method,
        path: &str,
        body: &str,
    ) -> Response {
        self.send_with(editor, method, path, &[], body).await
    }

    async fn send_with(
        &self,
        editor: Option<&Editor>,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response {
        let bearer = editor.map(|editor| format!("Bearer {}", editor.id));
        let mut all = headers.to_vec();
        all.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        let sent = self.local.client.send_with(method, path, &all, body.to_owned());
        sent.await.expect("an answer")
    }

    async fn put(&self, editor: &Editor, path: &str, body: &str) -> Response {
        self.send(Some(editor), Method::PUT, path, body).await
    }

    async fn delete(&self, editor: &Editor, path: &str) -> Response {
        self.send(Some(editor), Method::DELETE, path, "").await
    }

    /// Sends `GET` with `?lock=…`, as in the original specification.
    async fn lock(&self, editor: &Editor, path: &str, operation: &str) -> Response {
        self.send(Some(editor), Method::GET, &format!("{path}?lock={operation}"), "").await
    }

    async fn get(&self, path: &str) -> Response {
        self.local.client.get(path).await
    }

    /// Returns the content of a file, or `None` if it cannot be read.
    async fn content(&self, path: &str) -> Option<String> {
        let got = self.get(path).await;
        (got.status == 200).then_some(got.text)
    }
}

impl Editor {
    /// Returns the shortened session id that other clients see.
    fn shown(&self) -> String {
        format!("{}...", &self.id[..20])
    }
}

#[track_caller]
fn check(answer: &Response, status: u16, body: Value) {
    assert_eq!((answer.status, &answer.body), (status, &body), "{answer:?}");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.headers["content-type"], "application/json");
}

/// Checks that `editor` has held the lock on the file for half an hour's ttl since the start.
#[track_caller]
fn check_locked(answer: &Response, editor: &Editor) {
    let body = json!({
        "error": "File is locked",
        "message": "This file is currently being edited by another session",
        "lockedBy": editor.shown(),
        "lockedAt": 1_736_726_400_000_u64,
        "expiresAt": 1_736_728_200_000_u64,
    });
    check(answer, 423, body);
}

/// Checks an error in this dialect's shape whose text contains `word`.
#[track_caller]
fn check_refused(answer: &Response, status: u16, word: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    let members: Vec<_> = answer.body.as_object().expect("an object").keys().collect();
    assert_eq!(members, ["error", "message"], "{answer:?}");
    assert!(answer.text.contains(word), "no {word} in {}", answer.text);
}
