//! The output to `tracing`: spans, and warnings that name the lock.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::Client;
use leasehold::clock::FakeClock;
use leasehold_testkit::fake::{self, Said};
use leasehold_testkit::{Local, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// A subscriber that keeps every span and every warning as a line.
#[derive(Clone, Default)]
struct Spans {
    lines: Arc<Mutex<Vec<String>>>,
    n_spans: Arc<AtomicU64>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!(" {field}={value:?}");
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
            && (metadata.is_span() || *metadata.level() == Level::WARN)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(span.metadata().name().into());
        span.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
        Id::from_u64(self.n_spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = Line("warning".into());
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn an_acquire_has_a_span_with_its_locks_and_its_owner() {
    let spans = Spans::default();
    let _here = tracing::subscriber::set_default(spans.clone());
    let local = Local::ephemeral().await;
    let url = format!("http://{}", local.address);
    let client = Client::builder(&url).owner("ann").build().unwrap();
    client.lock("orders").acquire().await.unwrap().release().await.unwrap();
    client.locks().lock("a").lock("b").acquire().await.unwrap().release().await.unwrap();
    let lines = spans.lines.lock().unwrap().clone();
    let ours: Vec<_> = lines.iter().filter(|line| line.starts_with("leasehold.")).collect();
    let expected = [
        "leasehold.acquire lock=\"orders\" owner=\"ann\"",
        "leasehold.acquire lock=\"a, b\" owner=\"ann\"",
    ];
    assert_eq!(ours, expected);
    local.stop().await;
}

#[tokio::test]
async fn what_goes_wrong_in_the_background_names_the_lock_and_the_reason() {
    let spans = Spans::default();
    let _here = tracing::subscriber::set_default(spans.clone());
    let local = Local::ephemeral().await;
    let url = format!("http://{}", local.address);
    let clock = FakeClock::default();
    let client = Client::builder(&url).clock(clock.clone()).build().unwrap();
    let ttl = Duration::from_secs(30);
    let renewed = client.locks().lock("a").lock("b").ttl(ttl).acquire().await.unwrap();
    // A client cannot see whether the watch of its lease has started. Without the watch there is no reason, so this is
    // repeated.
    let revoked = async |_: &leasehold_testkit::Client| {
        let watched = client.lock("orders").ttl(ttl).watched().acquire().await.unwrap();
        client.look("orders").await.unwrap();
        client.revoke("orders", "by an operator").await.unwrap();
        watched.lost().await;
        watched.ending().is_some()
    };
    local.until("the reason is told", revoked).await;
    client.revoke("b", "by an operator").await.unwrap();
    clock.advance(ttl / 3);
    renewed.lost().await;
    let warnings = spans.lines.lock().unwrap().clone();
    let warned = |what: &str, why: &str| {
        let is_it = |line: &&String| line.contains(&format!("lock={what:?}")) && line.contains(why);
        assert!(warnings.iter().any(|line| is_it(&line)), "{what}: {warnings:?}");
    };
    warned("orders", "by an operator");
    warned("a, b", "the server reports that the lease has ended");
    local.stop().await;
}

/// Starts a server that looks like part of a cluster, except in responses under the path `/single`.
fn cluster() -> String {
    fake::serve(|question| {
        let body = if question.line.contains("/release ") {
            json!({"released": true, "leases": []})
        } else if question.line.contains("/v1/sessions") {
            json!({"session_id": "1.s", "owner_id": "o", "expires_in_ms": 9000, "expires_after_send_ms": 9000})
        } else {
            json!({"acquired": true, "lock_name": "a", "owner_id": "o", "lease_id": "1.a", "fencing_token": 1,
                   "lease_expiry_ms": null, "expires_in_ms": 9000, "expires_after_send_ms": 9000, "leases": []})
        };
        let is_single = question.line.contains(" /single/");
        let failover = ("leasehold-failover-ms", "10000".to_owned());
        let headers = if is_single { Vec::new() } else { vec![failover] };
        Said { status: 200, headers, body }
    })
}

#[tokio::test]
async fn a_ttl_that_is_shorter_than_a_fail_over_is_warned_of_once() {
    let url = cluster();
    for (path, seconds, n) in [("", 3, 1), ("", 10, 0), ("/single", 3, 0)] {
        for way in ["lock", "session"] {
            let spans = Spans::default();
            let _here = tracing::subscriber::set_default(spans.clone());
            let client = Client::new(&format!("{url}{path}")).unwrap();
            assert_eq!(client.failover_time(), None);
            for _ in 0..2 {
                take(&client, way, Duration::from_secs(seconds)).await;
            }
            let is_known = client.failover_time().is_some();
            assert_eq!(is_known, path.is_empty(), "{:?}", client.failover_time());
            let lines = spans.lines.lock().unwrap().clone();
            let warned: Vec<_> = lines.iter().filter(|line| line.contains("fail-over")).collect();
            assert_eq!(warned.len(), n, "{path} {seconds} {way}: {lines:?}");
        }
    }
}

/// Acquires and releases a lock, or opens and closes a session.
async fn take(client: &Client, way: &str, ttl: Duration) {
    match way {
        "lock" => client.lock("a").ttl(ttl).acquire().await.unwrap().release().await.unwrap(),
        _ => client.session().ttl(ttl).open().await.unwrap().close().await.unwrap(),
    }
}
