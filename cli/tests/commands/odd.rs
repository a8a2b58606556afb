//! Servers with unexpected responses: a command neither overloads the server nor misbehaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use leasehold_testkit::fake::Said;
use leasehold_testkit::{fake, json};

use crate::{Ended, command};

#[test]
fn a_server_that_ends_every_wait_at_once_is_not_asked_in_a_loop() {
    let n_asked = Arc::new(AtomicU64::new(0));
    let counted = n_asked.clone();
    let url = fake::serve(move |_| {
        counted.fetch_add(1, SeqCst);
        let refusal = json!({
            "acquired": false, "lock_name": "a", "current_owner_id": null, "current_expiry_ms": null,
            "recommended_retry_ms": 0, "reason": "WAIT_TIMEOUT", "error": "no",
        });
        (409, refusal)
    });
    let run = |locks: &[&str]| {
        n_asked.store(0, SeqCst);
        let flags = ["-w", "2", "--url", &url, "--", "true"];
        let ended = command(&[&["run"], locks, &flags].concat()).output().unwrap();
        assert_eq!(Ended::of(ended).code, 1);
        n_asked.load(SeqCst)
    };
    // A wait that ends early was cancelled or revoked, so it is not repeated.
    assert_eq!(run(&["a"]), 1);
    // A wait for several locks can also end early for other reasons. It is repeated, at most every 50 ms.
    let n_asked = run(&["-l", "a", "-l", "b"]);
    assert!((3..=60).contains(&n_asked), "{n_asked} requests in 2 s");
}

#[test]
fn an_answer_without_a_safe_deadline_is_no_answer() {
    let url = fake::serve(|_| {
        let granted = json!({
            "acquired": true, "lock_name": "a", "owner_id": "o", "lease_id": "1.x", "fencing_token": 1,
            "lease_expiry_ms": null, "expires_in_ms": 60_000,
        });
        (200, granted)
    });
    let ended = Ended::of(command(&["acquire", "a", "--url", &url]).output().unwrap());
    assert_ne!(ended.code, 0, "it must not look like a lease that never expires: {ended:?}");
    assert!(ended.err.contains("not a response of a Leasehold server"), "{ended:?}");
}

#[test]
fn a_ttl_that_is_shorter_than_a_fail_over_of_the_cluster_is_warned_of() {
    let url = fake::serve(|question| {
        let body = if question.line.contains("/release ") {
            json!({"released": true})
        } else if question.line.contains("/renew ") {
            json!({"renewed": true, "lease_expiry_ms": null, "expires_in_ms": 9000, "expires_after_send_ms": 9000})
        } else if question.line.contains("/v1/sessions") {
            json!({"session_id": "1.s", "owner_id": "o", "expires_in_ms": 9000, "expires_after_send_ms": 9000})
        } else {
            json!({"acquired": true, "lock_name": "a", "owner_id": "o", "lease_id": "1.a", "fencing_token": 1,
                   "lease_expiry_ms": null, "expires_in_ms": 9000, "expires_after_send_ms": 9000})
        };
        Said { status: 200, headers: vec![("leasehold-failover-ms", "10000".into())], body }
    });
    let renew = ["renew", "a", "--lease-id=1.a", "--token=1", "--owner=o"];
    for words in [&["acquire", "a"][..], &renew, &["session", "open"], &["run", "a"]] {
        // `run` keeps up to 5 s of the lease for --grace-kill.
        let [short, enough] = if words[0] == "run" { ["14s", "15s"] } else { ["9s", "10s"] };
        for (ttl, is_warned) in [("3s", true), (short, true), (enough, false)] {
            let flags = ["--ttl", ttl, "--url", &url];
            let work = if words[0] == "run" { &["--", "true"][..] } else { &[] };
            let ended = Ended::of(command(&[words, &flags, work].concat()).output().unwrap());
            assert_eq!(ended.code, 0, "{ended:?}");
            let warning = format!("warning: --ttl {ttl} is too short for a fail-over");
            let n = ended.err.matches(&warning).count();
            assert_eq!(n, usize::from(is_warned), "{words:?} --ttl {ttl}: {ended:?}");
            let least = format!("use at least {enough}");
            assert_eq!(ended.err.contains(&least), is_warned, "{words:?} --ttl {ttl}: {ended:?}");
        }
    }
}
