//! Tests that a connection that sends the same credential again skips the full check, but still notices every change.

use leasehold_testkit::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::auth::idp::{Idp, Key, NOW};
use crate::auth::{RULES, Scene, write_keys};

/// A keep-alive connection.
struct Line(TcpStream);

impl Line {
    async fn open(scene: &Scene) -> Self {
        Self(TcpStream::connect(scene.local.address).await.expect("a connection"))
    }

    /// Reads a lock with these headers. Returns the status and the response text.
    async fn look(&mut self, lock: &str, headers: &[String]) -> (u16, String) {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let path = format!("/v1/namespaces/{lock}");
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        self.0.write_all(request.as_bytes()).await.expect("it is there");
        let mut answer = Vec::new();
        let whole = loop {
            assert!(self.0.read_buf(&mut answer).await.expect("more") > 0, "it was closed");
            let text = String::from_utf8_lossy(&answer).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.to_lowercase();
            let length = length.split("content-length: ").nth(1).expect("a length");
            let n: usize = length.lines().next().expect("a number").parse().expect("a number");
            if body.len() >= n {
                break text;
            }
        };
        let status = whole.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, whole)
    }
}

fn bearer(text: &str) -> Vec<String> {
    vec![format!("authorization: Bearer {text}")]
}

const X: &str = "default/locks/x";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_revoked_is_refused_on_the_connection_it_was_good_on() {
    let scene = Scene::new().await;
    let mut line = Line::open(&scene).await;
    let (reader, taker) = (bearer(&scene.keys["reader"].text), bearer(&scene.keys["taker"].text));
    for _ in 0..3 {
        assert_eq!(line.look(X, &reader).await.0, 200);
    }
    scene.revoke("reader");
    scene.local.server.reload();
    scene
        .local
        .until("it is gone", async |_| Line::open(&scene).await.look(X, &reader).await.0 == 401)
        .await;
    let (status, told) = line.look(X, &reader).await;
    assert!(status == 401 && told.contains("unknown API key"), "{told}");
    assert_eq!(line.look(X, &taker).await.0, 200, "another's counts");
    assert_eq!(line.look(X, &[]).await.0, 401, "and no key is no principal");
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_was_taken_away_is_missed_on_the_same_connection() {
    let scene = Scene::new().await;
    let mut line = Line::open(&scene).await;
    let reader = bearer(&scene.keys["reader"].text);
    assert_eq!(line.look(X, &reader).await.0, 200);
    assert_eq!(line.look(X, &reader).await.0, 200);
    let rules = RULES.replace("may = [\"read\"]", "may = [\"files-read\"]");
    std::fs::write(scene.file("auth.toml"), rules).expect("a file");
    scene.local.server.reload();
    scene
        .local
        .until("it is in force", async |_| Line::open(&scene).await.look(X, &reader).await.0 == 403)
        .await;
    assert_eq!(line.look(X, &reader).await.0, 403);
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_or_repeated_credential_is_checked_again() {
    let scene = Scene::new().await;
    let mut line = Line::open(&scene).await;
    let key = &scene.keys["taker"].text;
    assert_eq!(line.look(X, &bearer(key)).await.0, 200);
    let last = if key.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &key[..key.len() - 1]);
    assert_eq!(line.look(X, &bearer(&wrong)).await.0, 401);
    assert_eq!(line.look(X, &bearer(&key[..key.len() - 1])).await.0, 401);
    assert_eq!(line.look(X, &[bearer(key), bearer(key)].concat()).await.0, 401);
    // A cookie is a second credential, and two credentials are refused.
    let cookie = vec!["cookie: __Host-leasehold=0".to_owned()];
    assert_eq!(line.look(X, &[bearer(key), cookie].concat()).await.0, 401);
    assert_eq!(line.look(X, &bearer(key)).await.0, 200);
    // Two principals that alternate on one connection are kept apart.
    let others = "files/locks/x";
    for _ in 0..3 {
        assert_eq!(line.look(X, &bearer(&scene.keys["reader"].text)).await.0, 200);
        assert_eq!(line.look(others, &bearer(&scene.keys["reader"].text)).await.0, 403);
        assert_eq!(line.look(others, &bearer(&scene.keys["revoker"].text)).await.0, 200);
    }
    scene.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_has_expired_is_refused_on_the_connection_it_was_good_on() {
    let scene = Scene::new().await;
    scene.local.clock.set_wall_ms(NOW * 1000);
    let before = scene.send("admin", "GET /v1/admin/auth", leasehold_testkit::Value::Null).await;
    // The key expires ten seconds after the current time of the test.
    write_keys(scene.file("keys.toml"), &scene.keys, "expires = 2023-11-14T22:13:30Z");
    scene.local.server.reload();
    scene
        .local
        .until("it is in force", async |_| {
            let auth = "GET /v1/admin/auth";
            let now = scene.send("admin", auth, leasehold_testkit::Value::Null).await;
            now.text_of("hash") != before.text_of("hash")
        })
        .await;
    let mut line = Line::open(&scene).await;
    let reader = bearer(&scene.keys["reader"].text);
    assert_eq!(line.look(X, &reader).await.0, 200);
    assert_eq!(line.look(X, &reader).await.0, 200);
    scene.local.clock.set_wall_ms((NOW + 10) * 1000);
    assert_eq!(line.look(X, &reader).await.0, 401);
    scene.stop().await;
}

async fn line_status(scene: &Scene, headers: &[String]) -> u16 {
    Line::open(scene).await.look(X, headers).await.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_counts_on_a_connection_as_long_as_it_counts_anywhere() {
    let idp = Idp::start(Key::ec()).await;
    let scene = crate::auth::token::scene(&idp, "leeway = \"0s\"").await;
    let mut claims = idp.claims();
    claims["exp"] = json!(NOW + 60);
    let (short, long) = (bearer(&idp.token_of("first", &claims)), bearer(&idp.token()));
    let (mut one, mut other) = (Line::open(&scene).await, Line::open(&scene).await);
    for _ in 0..3 {
        assert_eq!(one.look(X, &short).await.0, 200);
        assert_eq!(other.look(X, &long).await.0, 200);
    }
    scene.local.clock.set_wall_ms((NOW + 60) * 1000);
    assert_eq!(one.look(X, &short).await.0, 401, "it has ended");
    assert_eq!(other.look(X, &long).await.0, 200);
    // The issuer withdraws the key that signed the token.
    {
        let mut keys = idp.keys.lock().expect("not poisoned");
        keys.clear();
        keys.insert("second".into(), Key::ec());
    }
    scene.local.advance_ms(300_000);
    scene
        .local
        .until("its keys were fetched again", async |_| {
            scene.local.server.reload();
            line_status(&scene, &long).await == 401
        })
        .await;
    assert_eq!(other.look(X, &long).await.0, 401, "also where it was remembered");
    scene.stop().await;
}
