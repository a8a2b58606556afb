//! Tests of warnings about leases held or waiting too long and about suspected deadlocks. They become events and
//! metrics, are stored in the history, and are sent to a webhook.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use leasehold_core::{Limits, Span};
use leasehold_server::serve::Settings;
use leasehold_server::webhook;
use leasehold_testkit::{Client, Local, Value, folder, json, settings};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn with_warnings(data: Option<&Path>) -> Settings {
    let mut settings = settings(data);
    settings.engine.limits = Limits {
        held_warn: Span::from_secs(30),
        wait_warn: Span::from_secs(10),
        ..Limits::default()
    };
    settings
}

/// Makes a client wait for a lock in the background.
async fn wait(local: &Local, lock: &'static str, owner: &'static str, n_waiting: u64) {
    let client = local.client.clone();
    let waiting = async move {
        let _ = client.try_acquire(lock, owner, 90_000, json!({"wait_ms": 90_000})).await;
    };
    tokio::spawn(waiting);
    let path = format!("/v1/locks/{lock}");
    let waits = async |client: &Client| client.get(&path).await.get("n_waiting") == n_waiting;
    local.until("it waits", waits).await;
}

/// Returns the warnings in a lock's history, oldest first: kind, owner and reason.
async fn noted(local: &Local, lock: &str) -> Vec<(String, String, Option<String>)> {
    let answer = local.client.get(&format!("/v1/locks/{lock}/history")).await;
    let events = answer.get("events").as_array().unwrap().clone();
    let text = |event: &Value, name: &str| event[name].as_str().map(str::to_owned);
    let of = |event: &Value| {
        (text(event, "kind").unwrap(), text(event, "owner_id").unwrap(), text(event, "reason"))
    };
    let is_note = |(kind, ..): &(String, String, Option<String>)| {
        ["held_long", "waited_long", "deadlock_suspected"].contains(&kind.as_str())
    };
    events.iter().rev().map(of).filter(is_note).collect()
}

/// Sends a request, so that the engine first processes everything that has fallen due.
async fn sweep(local: &Local) {
    local.client.get("/v1/locks/nothing").await;
}

async fn metric(local: &Local, line: &str) -> u64 {
    let text = local.client.get("/metrics").await.text;
    let value = text.lines().find_map(|known| known.strip_prefix(line)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{line} in {text}")).parse().unwrap()
}

#[tokio::test]
async fn held_and_waited_too_long_is_told_once_and_a_restart_repeats_nothing() {
    let data = folder();
    let local = Local::start(with_warnings(Some(data.path()))).await;
    local.client.acquire("db", "holder", 90_000, json!({})).await;
    wait(&local, "db", "waiter", 1).await;
    local.advance_ms(9_999);
    sweep(&local).await;
    assert_eq!(noted(&local, "db").await, []);
    local.advance_ms(1);
    sweep(&local).await;
    let waited = ("waited_long".to_owned(), "waiter".to_owned(), None);
    assert_eq!(noted(&local, "db").await, std::slice::from_ref(&waited));
    local.advance_ms(20_000);
    sweep(&local).await;
    sweep(&local).await;
    let both = [waited, ("held_long".to_owned(), "holder".to_owned(), None)];
    assert_eq!(noted(&local, "db").await, both);
    assert_eq!(metric(&local, "leasehold_notes_total{note=\"held_long\"}").await, 1);
    assert_eq!(metric(&local, "leasehold_notes_total{note=\"waited_long\"}").await, 1);
    let clock = local.clock.clone();
    local.stop().await;
    let local = Local::start_at(with_warnings(Some(data.path())), clock).await;
    local.advance_ms(1_000);
    sweep(&local).await;
    assert_eq!(noted(&local, "db").await, both, "from the history, and nothing new");
    local.stop().await;
}

#[tokio::test]
async fn a_deadlock_is_suspected_and_no_request_is_refused() {
    let local = Local::ephemeral().await;
    let a = local.client.acquire("a", "x", 90_000, json!({})).await;
    local.client.acquire("b", "y", 90_000, json!({})).await;
    wait(&local, "b", "x", 1).await;
    wait(&local, "a", "y", 1).await;
    local.advance_ms(1_000);
    sweep(&local).await;
    let told = noted(&local, "a").await;
    let why = Some("y waits for a because of x; x waits for b because of y".to_owned());
    assert_eq!(told, [("deadlock_suspected".to_owned(), "y".to_owned(), why)]);
    assert_eq!(metric(&local, "leasehold_notes_total{note=\"deadlock_suspected\"}").await, 2);
    assert_eq!(local.client.get("/v1/locks/a").await.get("n_waiting"), 1);
    assert_eq!(local.client.release(&a, json!({})).await.status, 200);
    let owner = async |client: &Client| client.get("/v1/locks/a").await.text_of("owner_id");
    local.until("the next has it", async |client| owner(client).await == "y").await;
    local.stop().await;
}

#[tokio::test]
async fn a_free_lock_that_a_group_waits_for_is_shown() {
    let local = Local::ephemeral().await;
    local.client.acquire("b", "x", 90_000, json!({})).await;
    assert_eq!(metric(&local, "leasehold_convoy_locks").await, 0);
    let all = json!({"owner_id": "y", "ttl_ms": 90_000, "wait_ms": 90_000,
                     "locks": [{"lock_name": "a"}, {"lock_name": "b"}]});
    let client = local.client.clone();
    tokio::spawn(async move { client.post("/v1/acquire", all).await });
    let waits = async |client: &Client| client.get("/v1/locks/b").await.get("n_waiting") == 1;
    local.until("they wait", waits).await;
    assert_eq!(metric(&local, "leasehold_convoy_locks").await, 1);
    local.stop().await;
}

/// A request that the webhook received: its head and its body.
struct Sent {
    head: String,
    body: String,
}

impl Sent {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// Receives one request and answers it with this status.
async fn receive(listener: &TcpListener, status: &str) -> Sent {
    let (mut stream, _) = listener.accept().await.unwrap();
    let sent = read(&mut stream).await;
    let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    sent
}

async fn read(stream: &mut TcpStream) -> Sent {
    let mut text = String::new();
    loop {
        let mut bytes = [0; 4096];
        let n = stream.read(&mut bytes).await.unwrap();
        text.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let sent = Sent { head: head.into(), body: body.into() };
        let length: usize = sent.header("content-length").unwrap().parse().unwrap();
        if sent.body.len() == length {
            return sent;
        }
    }
}

/// Starts a server whose webhook is a listener of the test.
async fn hooked(change: impl FnOnce(&mut webhook::Options)) -> (Local, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?key=1", listener.local_addr().unwrap());
    let mut options = webhook::Options::new(url.parse().unwrap());
    options.retry_min = Duration::from_millis(1);
    options.retry_max = Duration::from_millis(1);
    change(&mut options);
    let mut settings = with_warnings(None);
    settings.webhook = Some(options);
    (Local::start(settings).await, listener)
}

/// Holds this lock for too long.
async fn hold_long(local: &Local, lock: &str) {
    local.client.acquire(lock, "holder", 90_000, json!({})).await;
    local.advance_ms(30_000);
    sweep(local).await;
}

#[tokio::test]
async fn a_webhook_is_signed_and_repeated_until_it_is_taken() {
    let folder = folder();
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("{SECRET}\n")).unwrap();
    let (local, listener) = hooked(|options| options.secret_file = Some(file)).await;
    hold_long(&local, "db").await;
    let first = receive(&listener, "503").await;
    let second = receive(&listener, "429").await;
    let third = receive(&listener, "204").await;
    assert!(first.head.starts_with("POST /hook?key=1 HTTP/1.1\r\n"), "{}", first.head);
    assert_eq!((&first.body, &second.body), (&third.body, &third.body));
    let body: Value = third.body.parse().unwrap();
    assert_eq!((&body["kind"], &body["lock_name"]), (&json!("held_long"), &json!("db")));
    assert_eq!(body["held_ms"], 30_000);
    assert!(body["id"].as_str().is_some_and(|id| id.contains('-')));
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    let timestamp = third.header("leasehold-timestamp").unwrap();
    mac.update(format!("{timestamp}.{}", third.body).as_bytes());
    let code: String = mac.finalize().into_bytes().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(third.header("leasehold-signature"), Some(&*format!("v1={code}")));
    let success = "leasehold_webhooks_total{result=\"success\"}";
    let counted = async |client: &Client| client.get("/metrics").await.text.contains(success);
    local.until("it is counted", counted).await;
    local.stop().await;
}

#[tokio::test]
async fn a_webhook_that_refuses_is_not_asked_again_and_the_next_note_is_sent() {
    let (local, listener) = hooked(|_| {}).await;
    hold_long(&local, "db").await;
    let refused = receive(&listener, "400").await;
    assert_eq!(refused.header("leasehold-signature"), None, "no secret, no signature");
    hold_long(&local, "other").await;
    let next = receive(&listener, "200").await;
    assert!(next.body.contains("\"other\""), "{}", next.body);
    assert_eq!(metric(&local, "leasehold_webhooks_total{result=\"fail\"}").await, 1);
    local.stop().await;
}

#[tokio::test]
async fn a_webhook_is_given_up_after_so_many_attempts_and_so_much_time() {
    // Long enough for the test to answer in time.
    let timeout = Duration::from_secs(3);
    let (local, listener) = hooked(|options| {
        (options.attempts_max, options.timeout) = (2, timeout);
    })
    .await;
    hold_long(&local, "db").await;
    // The first attempt gets no response. The second gets an error that invites a retry, but the number of attempts is
    // used up.
    let (silent, _) = listener.accept().await.unwrap();
    receive(&listener, "500").await;
    hold_long(&local, "other").await;
    let next = receive(&listener, "200").await;
    assert!(next.body.contains("\"other\""), "{}", next.body);
    assert_eq!(metric(&local, "leasehold_webhooks_total{result=\"fail\"}").await, 1);
    drop(silent);
    local.stop().await;
}

#[tokio::test]
async fn notes_that_do_not_fit_the_queue_are_dropped_and_counted() {
    let (local, listener) = hooked(|options| options.queue_max = 1).await;
    hold_long(&local, "first").await;
    // It is being sent, so it is no longer in the queue.
    let (mut busy, _) = listener.accept().await.unwrap();
    read(&mut busy).await;
    for lock in ["second", "third", "fourth"] {
        hold_long(&local, lock).await;
    }
    assert_eq!(metric(&local, "leasehold_webhook_queue").await, 1);
    assert_eq!(metric(&local, "leasehold_webhooks_total{result=\"dropped\"}").await, 2);
    local.stop().await;
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_stops_the_start() {
    let mut settings = with_warnings(None);
    let mut options = webhook::Options::new("http://127.0.0.1:1/".parse().unwrap());
    options.secret_file = Some("/nowhere/secret".into());
    settings.webhook = Some(options);
    let why = leasehold_server::serve::Server::start(settings).await.err().unwrap().to_string();
    assert!(why.contains("/nowhere/secret"), "{why}");
}
