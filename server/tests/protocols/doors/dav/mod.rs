//! Tests of WebDAV, request by request. `scripts/doors` tests real clients.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod attack;
mod cover;
mod crowd;
mod identity;
mod lock;
mod meeting;
mod property;
mod race;
mod slow;
mod tree;
mod write;

use std::path::PathBuf;

use leasehold_server::serve::Settings;
use leasehold_testkit::{Local, Method, Response, TempDir, folder, settings};

const MINUTE_MS: u64 = 60_000;

/// A server with files, in a directory that the tests can read.
struct Scene {
    local: Local,
    folder: TempDir,
}

/// The headers of a test request.
type Headers<'a> = &'a [(&'a str, &'a str)];

impl Scene {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = folder();
        let mut settings = Settings { files: Some(folder.path().into()), ..settings(None) };
        change(&mut settings);
        Self { local: Local::start(settings).await, folder }
    }

    fn on_disk(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Sends a request. `PUT /a` means the path `/dav/a`, and `PUT =/a` means `/a`.
    async fn ask(&self, line: &str, headers: Headers<'_>, body: impl Into<String>) -> Response {
        let (method, path) = line.split_once(' ').expect("a method");
        let path = match path.strip_prefix('=') {
            Some(path) => path.to_owned(),
            None => format!("/dav{path}"),
        };
        let method: Method = method.parse().unwrap();
        self.local.client.send_with(method, &path, headers, body.into()).await.unwrap()
    }

    async fn plain(&self, line: &str) -> Response {
        self.ask(line, &[], "").await
    }

    async fn put(&self, path: &str, body: &str) -> Response {
        self.ask(&format!("PUT {path}"), &[], body).await
    }

    /// Locks a path exclusively and returns the token.
    async fn lock(&self, path: &str, headers: Headers<'_>) -> String {
        let locked = self.ask(&format!("LOCK {path}"), headers, EXCLUSIVE).await;
        assert!([200, 201].contains(&locked.status), "{locked:?}");
        token(&locked)
    }

    async fn content(&self, path: &str) -> Option<String> {
        let got = self.plain(&format!("GET {path}")).await;
        (got.status == 200).then_some(got.text)
    }
}

/// Returns the lock token of a response, without its brackets.
#[track_caller]
fn token(locked: &Response) -> String {
    let text = locked.headers["lock-token"].to_str().unwrap();
    text.trim_matches(['<', '>']).into()
}

/// Returns an `If` list with one token.
fn shown(token: &str) -> String {
    format!("(<{token}>)")
}

#[track_caller]
fn is(answer: &Response, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
}

#[track_caller]
fn says(answer: &Response, status: u16, words: &[&str]) {
    is(answer, status);
    for word in words {
        assert!(answer.text.contains(word), "no {word:?} in {answer:?}");
    }
}

const EXCLUSIVE: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype>\
    <owner>alice at desk 5</owner></lockinfo>";
const SHARED: &str = "<D:lockinfo xmlns:D='DAV:'><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/>\
    </D:locktype></D:lockinfo>";
const ZERO: (&str, &str) = ("depth", "0");
const DEEP: (&str, &str) = ("depth", "infinity");
