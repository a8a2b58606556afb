//! An acquire that is dropped while its grant is on its way: no caller receives the lock, so it is released.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use leasehold::{Client, Error};
use leasehold_testkit::fake::{self, Question};
use leasehold_testkit::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const PATIENCE: Duration = Duration::from_secs(180);

/// Starts a server that grants immediately, but never sends its first response. It answers the next `n_uncertain`
/// acquires with 503. Returns a client and the requests that the server receives.
fn server(n_uncertain: usize) -> (Client, UnboundedReceiver<Question>) {
    let (asked, questions) = unbounded_channel();
    let (n_acquires, never) = (AtomicUsize::new(0), Barrier::new(2));
    let url = fake::serve(move |question: &Question| {
        let is_acquire = question.line.contains("/acquire");
        // Counted before the test sees it: the next acquire comes over another connection, thus on another thread, and
        // could otherwise be counted as the first one.
        let number = if is_acquire { n_acquires.fetch_add(1, SeqCst) } else { 0 };
        let _ = asked.send(question.clone());
        if is_acquire && number == 0 {
            never.wait();
        }
        if (1..=n_uncertain).contains(&number) {
            let code = "UNKNOWN";
            let failure = json!({"error": code, "code": code, "retryable": true, "may_have_taken_effect": true});
            return (503, failure);
        }
        let lease = json!({"lock_name": "a", "lease_id": "1.ab", "fencing_token": 7});
        let body = match is_acquire {
            false if question.line.contains("/cancel") => json!({"cancelled": false}),
            false => json!({"released": true, "leases": []}),
            true => {
                let mut granted = lease.clone();
                granted["leases"] = json!([lease]);
                granted["owner_id"] = question.body["owner_id"].clone();
                granted["acquired"] = true.into();
                granted["expires_after_send_ms"] = 30_000.into();
                granted
            }
        };
        (200, body)
    });
    // The timeout is long, so that no request is repeated on a busy machine.
    (Client::builder(&url).timeout(PATIENCE).build().unwrap(), questions)
}

/// Drops the acquire as soon as the server has seen it, and returns the requests that follow, up to the release.
async fn drop_midway<T: Send + 'static>(
    asking: impl Future<Output = Result<T, Error>> + Send + 'static,
    mut questions: UnboundedReceiver<Question>,
) -> Vec<(String, Value)> {
    let mut next =
        async || tokio::time::timeout(PATIENCE, questions.recv()).await.unwrap().unwrap();
    let asking = tokio::spawn(asking);
    let first = next().await;
    asking.abort();
    let mut seen: Vec<(String, Value)> = Vec::new();
    while seen.last().is_none_or(|(verb, _)| verb != "release") {
        let question = next().await;
        let verb = question.line.split(['/', ' ']).rev().nth(2).unwrap().to_owned();
        if verb != "release" {
            let id = "request_id";
            assert_eq!(question.body[id], first.body[id], "the request it is about: {question:?}");
        }
        seen.push((verb, question.body));
    }
    seen
}

fn verbs(seen: &[(String, Value)]) -> Vec<&str> {
    seen.iter().map(|(verb, _)| verb.as_str()).collect()
}

#[tokio::test]
async fn a_lock_whose_grant_is_dropped_is_released() {
    for wait in [Duration::ZERO, Duration::from_secs(60)] {
        let (client, questions) = server(0);
        let seen = drop_midway(client.lock("a").wait(wait).acquire(), questions).await;
        assert_eq!(verbs(&seen), ["cancel", "acquire", "release"], "{wait:?}");
        assert_eq!(seen[1].1["wait_ms"], Value::Null, "it does not wait again");
        assert_eq!(seen[2].1["lease_id"], "1.ab");
        assert_eq!(seen[2].1["fencing_token"], 7);
    }
}

#[tokio::test]
async fn several_locks_whose_grant_is_dropped_are_released() {
    let (client, questions) = server(0);
    let seen = drop_midway(client.locks().lock("a").lock("b").acquire(), questions).await;
    assert_eq!(verbs(&seen), ["cancel", "acquire", "release"]);
    assert_eq!(seen[2].1["leases"][0]["lease_id"], "1.ab");
}

/// The lease might have been granted. Without another try, it would be held until it expires.
#[tokio::test]
async fn a_lock_is_released_even_if_the_server_fails_in_the_meantime() {
    let (client, questions) = server(2);
    let seen = drop_midway(client.lock("a").acquire(), questions).await;
    assert_eq!(verbs(&seen), ["cancel", "acquire", "acquire", "acquire", "release"]);
    assert_eq!(seen[4].1["lease_id"], "1.ab");
}
