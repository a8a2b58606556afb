//! `load`, against a server that keeps its guarantees and against servers that break them.

use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use leasehold_testkit::fake::{self, Question};
use leasehold_testkit::{Process, Value, json};
use rustix::process::{Pid, Signal, kill_process};

use crate::{BINARY, Ended, World, command, until};

/// Runs 8 clients on 2 locks with this TTL, for this long, with these flags. Returns the report.
fn run(world: &World, ttl: &str, duration: &str, more: &[&str]) -> Value {
    let plan = ["--clients", "8", "--locks", "2", "--ttl", ttl, "--duration", duration];
    let report = world.json(&[&["load"], &plan[..], more].concat());
    assert_eq!(report["n_breaches"], 0, "{report}");
    let held = world.leasehold(&["ls", "--state", "held"]);
    assert_eq!(held.out, "", "all of it is over");
    report
}

#[test]
fn clients_that_work_write_and_are_timed() {
    // With such a long TTL, no lease ends before its client writes.
    let report = run(&World::new(), "60s", "1s", &["--failrate", "0", "--keeprate", "0"]);
    let number = |name: &str| report[name].as_u64().unwrap();
    assert!(number("n_grants") > 0 && number("n_writes") == number("n_grants"), "{report}");
    assert_eq!(report["acquire"]["n"], report["n_grants"]);
    let [p50, max] = ["p50_us", "max_us"].map(|name| report["acquire"][name].as_u64().unwrap());
    assert!(0 < p50 && p50 <= max, "{report}");
}

#[test]
fn clients_that_are_paused_all_go_on_and_everything_stale_is_rejected() {
    let report = run(&World::new(), "200ms", "1s", &["--failrate", "1", "--keeprate", "0"]);
    let n_pauses = report["n_pauses"].as_u64().unwrap();
    assert!(n_pauses > 0, "{report}");
    for stale in ["stale_writes", "stale_renewals", "stale_releases"] {
        assert_eq!(report[stale], json!({"injected": n_pauses, "rejected": n_pauses}), "{stale}");
    }
}

#[test]
fn clients_that_hold_for_longer_than_the_ttl_do_so_by_renewals() {
    let report = run(&World::new(), "1s", "4s", &["--failrate", "0", "--keeprate", "1"]);
    let number = |name: &str| report[name].as_u64().unwrap();
    assert!(number("n_renewals") > 0 && number("n_writes") > 0, "{report}");
}

#[test]
fn promises_are_kept_over_a_kill_of_the_server() {
    let mut world = World::with(&[]);
    let listen = format!("--listen={}", world.server.address);
    let plan = ["load", "--clients", "8", "--locks", "2", "--duration", "1h", "--ttl", "300ms"];
    let mut load = world.command(&[&plan[..], &["--failrate", "0.1", "--json"]].concat());
    let load = load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let granted = |world: &World| world.json(&["status", "lockload-0"])["last_token"].as_u64();
    until("it has begun", || granted(&world) > Some(3));
    world.server.signal(Signal::KILL);
    world.server.wait();
    world.server = Process::start(BINARY, &world.folder.path().join("data"), &[&listen]);
    let before = granted(&world).unwrap();
    until("it goes on", || granted(&world) > Some(before + 3));
    kill_process(Pid::from_child(&load), Signal::INT).unwrap();
    let ended = Ended::of(load.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
}

/// Returns the response of a correct server to an acquire.
fn granted(question: &Question, token: u64) -> (u16, Value) {
    let owner = question.body["owner_id"].clone();
    let granted = json!({
        "acquired": true, "lock_name": "lockload", "owner_id": owner, "lease_id": "1.x",
        "fencing_token": token, "lease_expiry_ms": null, "expires_in_ms": 60_000,
        "expires_after_send_ms": 60_000,
    });
    (200, granted)
}

/// Returns the kinds of breaches that are found in a server that handles acquires like this, and accepts all other
/// requests.
fn breaches(
    chances: &[&str],
    acquire: impl Fn(&Question) -> (u16, Value) + Send + Sync + 'static,
) -> Vec<String> {
    let url = fake::serve(move |question| {
        let is = |what| question.line.contains(what);
        match () {
            () if is("/acquire") => acquire(question),
            () if is("/renew") => (
                200,
                json!({
                    "renewed": true, "lease_expiry_ms": null, "expires_in_ms": 60_000,
                    "expires_after_send_ms": 60_000,
                }),
            ),
            () => (200, json!({"released": true})),
        }
    });
    let plan = ["load", "--clients", "4", "--duration", "300ms", "--hold", "20ms", "--json"];
    let arguments = [&plan[..], chances, &["--url", &url]].concat();
    let ended = Ended::of(command(&arguments).output().unwrap());
    assert_eq!(ended.code, 70, "{ended:?}");
    let report = ended.json();
    let seen = report["breaches"].as_array().unwrap().iter();
    let mut kinds: Vec<_> = seen.map(|seen| seen["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

#[test]
fn a_server_that_grants_every_request_is_detected() {
    let n_grants = AtomicU64::new(0);
    let seen = breaches(&["--failrate", "0", "--keeprate", "0"], move |question| {
        granted(question, n_grants.fetch_add(1, SeqCst) + 1)
    });
    assert!(seen.contains(&"two_holders".into()), "{seen:?}");
}

#[test]
fn a_server_whose_tokens_do_not_grow_is_found_out() {
    let seen = breaches(&["--failrate", "0", "--keeprate", "0"], |question| granted(question, 7));
    assert!(seen.contains(&"token_not_grown".into()), "{seen:?}");
}

#[test]
fn a_server_that_obeys_the_dead_is_found_out() {
    let n_grants = AtomicU64::new(0);
    let seen = breaches(&["--failrate", "1", "--keeprate", "0"], move |question| {
        granted(question, n_grants.fetch_add(1, SeqCst) + 1)
    });
    for kind in ["stale_release_accepted", "stale_renewal_accepted"] {
        assert!(seen.contains(&kind.into()), "{seen:?}");
    }
}

#[test]
fn an_interrupt_ends_it_early_with_the_report() {
    let world = World::new();
    let mut load =
        world.command(&["load", "--clients", "4", "--duration", "1h", "--ttl", "1s", "--json"]);
    let load = load.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let n_granted = || world.json(&["status", "lockload"])["last_token"].as_u64().unwrap();
    until("it has begun", || n_granted() > 3);
    kill_process(Pid::from_child(&load), Signal::INT).unwrap();
    let ended = Ended::of(load.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    let report = ended.json();
    assert!(report["n_grants"].as_u64().unwrap() > 3, "{report}");
    assert!(report["seconds"].as_f64().unwrap() < 60.0, "{report}");
}

#[test]
fn without_a_server_or_a_lock_nothing_was_tested() {
    let nowhere = command(&["load", "--url", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(68));
    let world = World::new();
    world.json(&["acquire", "lockload", "--ttl", "10m"]);
    let nothing = world.leasehold(&["load", "--clients", "2", "--duration", "100ms"]);
    assert_eq!(nothing.code, 1);
    assert!(nothing.out.contains("NOTHING: no lock was ever acquired"), "{nothing:?}");
}

#[test]
fn a_plan_that_makes_no_sense_is_refused() {
    for bad in [
        &["--failrate", "1.5"][..],
        &["--failrate", "0.6", "--keeprate", "0.6"],
        &["--clients", "0"],
        &["--clients", "10001"],
        &["--locks", "0"],
        &["--ttl", "0s"],
    ] {
        let ended = command(&[&["load"], bad].concat()).output().unwrap();
        assert_eq!(ended.status.code(), Some(64), "{bad:?}");
    }
}
