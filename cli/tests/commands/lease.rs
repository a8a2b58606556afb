//! `acquire`, `renew`, `release`, `revoke`.

use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use leasehold_testkit::{Method, fake, json};
use rustix::process::{Pid, Signal, kill_process};

use crate::{BINARY, Ended, World, command, until};

#[test]
fn a_lock_is_acquired_refused_renewed_and_released_only_once() {
    let world = World::new();
    let acquired = world.json(&["acquire", "db", "--owner", "ann", "--ttl", "1m"]);
    assert_eq!((&acquired["owner_id"], &acquired["fencing_token"]), (&json!("ann"), &json!(1)));

    let refused = world.leasehold(&["acquire", "db", "--owner", "ben"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    assert_eq!(refused.err, "leasehold: db: the lock is held (by ann)\n");
    let refused = world.leasehold(&["acquire", "db", "--owner", "ben", "--json"]);
    assert_eq!((refused.code, &refused.json()["reason"]), (1, &json!("HELD")));

    let lease_id = acquired["lease_id"].as_str().unwrap();
    let proof = ["db", "--owner", "ann", "--lease-id", lease_id, "--token", "1"];
    let renewed = world.json(&[&["renew", "--ttl", "1h"], &proof[..]].concat());
    assert!(renewed["expires_in_ms"].as_u64().unwrap() > 3_000_000, "{renewed}");
    let released = world.leasehold(&[&["release"], &proof[..]].concat());
    assert_eq!((released.code, released.out.as_str()), (0, "db is released\n"));
    for (verb, done) in [("release", "released"), ("renew", "renewed")] {
        let late = world.leasehold(&[&[verb, "--json"], &proof[..]].concat());
        assert_eq!((late.code, &late.json()[done]), (75, &json!(false)), "{late:?}");
    }
}

#[test]
fn a_value_that_cannot_be_is_a_mistake_on_the_command_line() {
    let world = World::new();
    let refused = |args: &[&str]| {
        let ended = world.leasehold(&[&["acquire", "db"], args].concat());
        assert_eq!(ended.code, 64, "{ended:?}");
        ended.err
    };
    assert!(refused(&["--ttl", "0"]).contains("--ttl <TTL>': must be more than 0"));
    assert!(refused(&["--ttl", "soon"]).contains("not a duration; write 30s"));
    for every in [
        &["ls", "--watch=0"][..],
        &["ls", "--watch=1ns"],
        &["session", "keep", "id", "--every", "99ms"],
        &["run", "--ttl", "1ms", "a", "true"],
    ] {
        let ended = world.leasehold(every);
        assert!(ended.code == 64 && ended.err.contains("must be at least 100ms"), "{ended:?}");
    }
    let long = refused(&["--ttl", "1000d"]);
    assert!(long.contains("--ttl: must be at most 1d (ttl-max)"), "{long}");
}

#[test]
fn maintenance_is_an_answer_and_not_waited_for() {
    let world = World::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (client, kind) = (&world.server.client, Some("application/json"));
    let on = client.send(Method::PUT, "/v1/admin/maintenance", kind, r#"{"on":true}"#);
    assert_eq!(runtime.block_on(on).unwrap().status, 200);
    for args in [&["acquire", "db"][..], &["run", "-n", "db", "true"]] {
        let ended = world.leasehold(args);
        assert_eq!(ended.code, 68, "{ended:?}");
        assert!(ended.err.contains("the server is in maintenance"), "{ended:?}");
    }
    let metrics = runtime.block_on(client.get("/metrics"));
    let counted = "lock_acquire_total{result=\"fail\"} 2";
    assert!(metrics.text.contains(counted), "asked more than once each: {}", metrics.text);
}

#[test]
fn the_script_in_the_help_works_in_a_shell() {
    let world = World::new();
    let script = r#"
        set -eu
        lease=$("$0" acquire nightly --ttl 10m --env) || exit
        eval "$lease"
        "$0" renew --ttl 20m
        "$0" release
        test "$LEASEHOLD_FENCING_TOKEN" = 1
        test "$LEASEHOLD_LOCK" = nightly
    "#;
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", script, BINARY]).env("LEASEHOLD_URL", world.url());
    let ended = Ended::of(shell.output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    let is_renewed = ["19m5", "20m00s"].iter().any(|left| ended.out.contains(left));
    assert!(is_renewed, "{ended:?}");
    assert!(ended.out.contains("nightly is released"), "{ended:?}");
}

#[test]
fn every_command_of_one_session_is_the_same_owner_unless_told_otherwise() {
    let world = World::new();
    let [a, b] = ["a", "b"].map(|lock| world.json(&["acquire", lock])["owner_id"].clone());
    assert_eq!(a, b);
    assert!(a.as_str().unwrap().contains('@'), "{a}");
    let mut named = world.command(&["acquire", "c", "--json"]);
    let named = Ended::of(named.env("LEASEHOLD_OWNER", "cem").output().unwrap());
    assert_eq!(named.json()["owner_id"], "cem");
}

/// As in a container that was entered from outside: the leaders of our terminal session and process group have no
/// number there.
#[test]
fn without_a_leader_that_can_be_named_there_is_still_an_owner() {
    let world = World::new();
    let script = r#""$0" acquire db && "$0" ls && "$0" run job -- true"#;
    let mut inside = std::process::Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        inside.args(["--user", "--map-root-user"]);
    }
    inside.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script, BINARY]);
    let ended = Ended::of(inside.env("LEASEHOLD_URL", world.url()).output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains(":0 "), "{ended:?}");
}

#[test]
fn a_name_cannot_slip_a_command_into_the_lines_for_the_shell() {
    let world = World::new();
    let name = "a'; touch hacked; '\n$(touch hacked)";
    let ended = world.leasehold(&["acquire", name, "--owner", name, "--env"]);
    let mut shell = std::process::Command::new("sh");
    let script = r#"eval "$1"; printf %s "$LEASEHOLD_OWNER""#;
    shell.args(["-c", script, "sh", &ended.out]).current_dir(world.folder.path());
    assert_eq!(Ended::of(shell.output().unwrap()).out, name);
    assert!(!world.folder.path().join("hacked").exists());
}

#[test]
fn the_next_waiter_gets_the_lock_when_it_is_released() {
    let world = World::new();
    let acquired = world.json(&["acquire", "db", "--owner", "ann", "--ttl", "1m"]);
    let mut waiter = world.command(&["acquire", "db", "--owner", "ben", "--wait", "60", "--json"]);
    let waiter = waiter.stdout(std::process::Stdio::piped()).spawn().unwrap();
    until("ben waits", || world.json(&["status", "db"])["n_waiting"] == 1);
    let lease_id = acquired["lease_id"].as_str().unwrap();
    world.json(&["release", "db", "--owner", "ann", "--lease-id", lease_id, "--token", "1"]);
    let granted = Ended::of(waiter.wait_with_output().unwrap());
    assert_eq!((granted.code, &granted.json()["fencing_token"]), (0, &json!(2)));
    let left = granted.json()["expires_in_ms"].as_u64().unwrap();
    assert!(left <= 30_000, "time in the queue is not counted in: {left}");
    let in_vain = world.leasehold(&["acquire", "db", "--owner", "cem", "--wait", "0.05", "--json"]);
    assert_eq!((in_vain.code, &in_vain.json()["reason"]), (1, &json!("WAIT_TIMEOUT")));
}

#[test]
fn an_interrupted_waiter_leaves_the_queue_immediately() {
    let world = World::new();
    world.json(&["acquire", "db", "--owner", "ann", "--ttl", "1m"]);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut waiter = world.command(&["acquire", "db", "--owner", "ben", "-w", "50"]);
        let mut waiter = waiter.spawn().unwrap();
        until("ben waits", || world.json(&["status", "db"])["n_waiting"] == 1);
        kill_process(Pid::from_child(&waiter), signal).unwrap();
        assert_eq!(waiter.wait().unwrap().signal(), Some(signal.as_raw()));
        let queue = &world.json(&["status", "db"])["queue"];
        assert!(queue.as_array().is_none_or(Vec::is_empty), "{signal:?}: {queue}");
    }
}

#[test]
fn what_is_evaluated_names_the_server_and_the_namespace_that_were_flags() {
    let world = World::new();
    let out = world.leasehold(&["acquire", "db", "--namespace", "shop", "--env"]).out;
    assert!(out.contains("export LEASEHOLD_NAMESPACE='shop'"), "{out}");
    assert!(!out.contains("LEASEHOLD_URL"), "it is set already: {out}");
    let by_flag = command(&["session", "open", "--url", &world.url(), "--env"]).output().unwrap();
    let out = Ended::of(by_flag).out;
    assert!(out.contains(&format!("export LEASEHOLD_URL='{}'", world.url())), "{out}");
}

#[test]
fn a_lock_can_be_shared_and_counted() {
    let world = World::new();
    world.json(&["acquire", "table", "--shared", "--owner", "ann"]);
    world.json(&["acquire", "table", "--shared", "--owner", "ben"]);
    assert_eq!(world.leasehold(&["acquire", "table"]).code, 1);
    world.json(&["acquire", "pool", "--limit", "2", "--owner", "ann"]);
    world.json(&["acquire", "pool", "--limit", "2", "--owner", "ben"]);
    assert_eq!(world.leasehold(&["acquire", "pool", "--limit", "2"]).code, 1);
    let other = world.leasehold(&["acquire", "pool", "--limit", "3", "--json"]);
    assert_eq!((other.code, &other.json()["code"]), (76, &json!("LIMIT_DIFFERS")));
}

#[test]
fn the_same_request_id_is_the_same_lease() {
    let world = World::new();
    let again = || world.json(&["acquire", "db", "--request-id", "r-1"])["lease_id"].clone();
    assert_eq!(again(), again());
}

#[test]
fn metadata_grace_and_namespace_reach_the_server() {
    let world = World::new();
    let metadata = r#"{"host":"a1"}"#;
    world.json(&["acquire", "db", "--metadata", metadata, "--grace", "1m", "--namespace", "team"]);
    assert_eq!(world.json(&["status", "db"])["held"], false, "another namespace");
    let mut status = world.command(&["status", "db", "--json"]);
    let status = Ended::of(status.env("LEASEHOLD_NAMESPACE", "team").output().unwrap()).json();
    assert_eq!(status["metadata"], json!({"host": "a1"}));
}

#[test]
fn a_revoked_lock_is_free_and_the_reason_is_reported() {
    let world = World::new();
    world.json(&["acquire", "db", "--owner", "ann"]);
    let revoked = world.leasehold(&["revoke", "db", "--reason", "host is gone"]);
    assert_eq!((revoked.code, revoked.out.as_str()), (0, "revoked db from ann, token 1\n"));
    let again = world.leasehold(&["revoke", "db", "--reason", "host is gone"]);
    assert_eq!((again.code, again.out.as_str()), (0, "db was not held\n"));
}

#[test]
fn each_way_to_fail_has_its_status() {
    let world = World::new();
    let status_of = |arguments: &[&str]| world.leasehold(arguments).code;
    assert_eq!(status_of(&["acquire"]), 64);
    assert_eq!(status_of(&["acquire", "db", "--metadata", "{"]), 64);
    assert_eq!(status_of(&["acquire", "db", "--url", "ftp://x"]), 64);
    assert_eq!(status_of(&["acquire", "db", "--api-key-file", "/nowhere"]), 64);
    assert_eq!(status_of(&["acquire", "db", "--api-key-file", "/dev/null"]), 64);
    assert_eq!(status_of(&["acquire", "db", "--ttl", "1000d"]), 64);
    let nowhere = ["ls", "--json", "--url", "http://127.0.0.1:1"];
    let unreachable = world.leasehold(&nowhere);
    assert_eq!((unreachable.code, &unreachable.json()["retryable"]), (68, &json!(true)));
    let unauthenticated = json!({
        "error": "no", "code": "UNAUTHENTICATED", "retryable": false, "may_have_taken_effect": false,
    });
    for (http, body, expected) in [
        (401, unauthenticated, 77),
        (401, json!("go away"), 76),
        (403, json!("go away"), 76),
        (302, json!(""), 76),
        (200, json!("hello"), 76),
        (404, json!("go away"), 76),
        (501, json!("go away"), 76),
        (500, json!("go away"), 68),
    ] {
        let is_ours = body.is_object();
        let url = fake::serve(move |_| (http, body.clone()));
        for words in [&["status", "db"][..], &["run", "-n", "db", "true"]] {
            let ended = Ended::of(
                command(&[&words[..1], &["--url", &url], &words[1..]].concat()).output().unwrap(),
            );
            assert_eq!(ended.code, expected, "{http}: {ended:?}");
            let is_told = ended.err.contains("Is this address another server or a proxy?");
            assert_eq!(is_told, !is_ours, "{ended:?}");
        }
    }
}

#[test]
fn a_key_is_sent_from_the_file_before_the_variable() {
    let (send, seen) = mpsc::channel();
    let send = Mutex::new(send);
    let url = fake::serve(move |question| {
        let key = question.headers.iter().find_map(|h| h.strip_prefix("authorization: bearer "));
        send.lock().unwrap().send(key.map(str::to_owned)).unwrap();
        (200, json!({"lock_name": "db", "held": false, "last_token": 0}))
    });
    let folder = leasehold_testkit::folder();
    let file = folder.path().join("key");
    std::fs::write(&file, "from-file\n").unwrap();
    let ask = |variables: &[(&str, &str)]| {
        let mut status = command(&["status", "db", "--url", &url]);
        let ended = Ended::of(status.envs(variables.iter().copied()).output().unwrap());
        assert_eq!(ended.code, 0, "{ended:?}");
        seen.recv().unwrap()
    };
    let (variable, file) = (("LEASEHOLD_API_KEY", "from-variable"), file.to_str().unwrap());
    assert_eq!(ask(&[]), None);
    assert_eq!(ask(&[variable]).as_deref(), Some("from-variable"));
    assert_eq!(ask(&[variable, ("LEASEHOLD_API_KEY_FILE", file)]).as_deref(), Some("from-file"));
}

#[test]
fn a_lost_answer_is_asked_for_again_with_the_same_id_but_a_revocation_is_not() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let url = fake::serve(move |question| {
        let mut asked = seen.lock().unwrap();
        asked.push(question.body["request_id"].clone());
        let unknown = json!({"error": "?", "code": "UNKNOWN", "retryable": true, "may_have_taken_effect": true});
        if asked.len() < 3 { (503, unknown) } else { (200, json!({"released": true})) }
    });
    let proof = ["db", "--lease-id", "1.x", "--token", "1", "--url", &url];
    let released = Ended::of(command(&[&["release"], &proof[..]].concat()).output().unwrap());
    assert_eq!(released.code, 0, "{released:?}");
    let ids = std::mem::take(&mut *asked.lock().unwrap());
    assert!(ids.len() == 3 && ids[0].is_string() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let revoke = ["revoke", "db", "--reason", "x", "--url", &url];
    assert_eq!(Ended::of(command(&revoke).output().unwrap()).code, 68);
    assert_eq!(asked.lock().unwrap().len(), 1);
}
