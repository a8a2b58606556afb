//! The flags of `run`, starting with those of `flock`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use leasehold_testkit::{Value, json};
use rustix::process::Signal;

use crate::{QUOTED, Running, World};

#[test]
fn no_dashes_are_needed_before_the_command() {
    let world = World::new();
    let said = |words: &[&str]| world.ran(words);
    assert_eq!(said(&["a", "echo", "-n", "x"]), (0, "x".into(), String::new()));
    assert_eq!(said(&["-n", "a", "-x", "echo", "--ttl"]), (0, "--ttl\n".into(), String::new()));
    assert_eq!(said(&["-l", "a", "echo", "-l"]), (0, "-l\n".into(), String::new()));
    assert_eq!(said(&["-e", "-o", "a", "--", "echo", "--"]), (0, "--\n".into(), String::new()));
}

#[test]
fn a_string_is_for_the_shell() {
    let world = World::new();
    assert_eq!(
        world.ran(&["a", "-c", "echo one | tr o 0; exit 3"]),
        (3, "0ne\n".into(), String::new())
    );
    let mut run = world.leasehold_run(&["-c", "echo $0 $BASH_VERSION", "a"]);
    let output = run.env("SHELL", "/bin/bash").output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("/bin/bash 5"), "{output:?}");
}

#[test]
fn what_contradicts_itself_is_refused() {
    let world = World::new();
    let lines: [(&[&str], &str); 9] = [
        (&["a"], "no command given"),
        (&["-l", "a"], "no command given"),
        (&["-n"], "no lock given"),
        (&["a", "-c", "x", "y"], "either -c STRING or a command"),
        (&["a", "--hold", "--", "y"], "cannot be used with"),
        (&["a", "--skip-if-busy", "-E", "3", "y"], "cannot be used with"),
        (&["a", "--metadata", "{", "y"], "is not JSON"),
        (&["-l", "a", "-l", "b", "-l", "a", "y"], "lock \"a\" is given twice"),
        (&["a", "--at-most", "0", "y"], "must be more than 0"),
    ];
    for (words, why) in lines {
        let (code, _, err) = world.ran(words);
        assert_eq!(code, 64, "{words:?}");
        assert!(err.contains(why), "{words:?}: {err}");
    }
}

#[test]
fn verbose_says_what_is_done() {
    let world = World::new();
    let (_, _, err) = world.ran(&["-v", "a", "true"]);
    let lines: Vec<_> = err.lines().collect();
    assert!(
        lines[0].starts_with("leasehold: a: acquired after ") && lines[0].ends_with(", token 1")
    );
    assert_eq!(lines[1], "leasehold: running true, contained by its process tree");
    assert_eq!(world.ran(&["a", "true"]).2, "");
}

#[tokio::test]
async fn metadata_is_shown_and_bare_numbers_are_seconds() {
    let world = World::new();
    let flags = ["a", "--ttl", "60", "--metadata", r#"{"host":"a1"}"#];
    let _run = world.run(&flags, "touch held; sleep 1000");
    world.until("it is held", || world.file("held").exists());
    let state = world.server.client.get("/v1/locks/a").await;
    let holder = &state.get("holders")[0];
    assert_eq!(holder["metadata"], json!({"host": "a1"}));
    assert!(holder["expires_in_ms"].as_u64().unwrap() > 50_000, "{holder}");
}

#[test]
fn a_busy_lock_can_be_skipped_without_a_word() {
    let world = World::new();
    let _holder = world.run(&["a"], "touch held; sleep 1000");
    world.until("it is held", || world.file("held").exists());
    let silent = (0, String::new(), String::new());
    assert_eq!(world.ran(&["--skip-if-busy", "a", "touch", "wrong"]), silent);
    assert!(world.ran(&["-v", "--skip-if-busy", "a", "touch", "wrong"]).2.contains("skipped"));
    assert!(!world.file("wrong").exists());
    assert_eq!(world.ran(&["--skip-if-busy", "b", "touch", "right"]), silent);
    assert!(world.file("right").exists());
}

#[test]
fn a_quick_job_keeps_the_lock_as_long_as_it_should() {
    let world = World::new();
    let began = Instant::now();
    // Longer than the TTL: `run` exits and leaves the lock held.
    assert_eq!(world.ran(&["--at-least", "10s", "--ttl", "5s", "a", "true"]).0, 0);
    assert_eq!(world.ran(&["--skip-if-busy", "a", "touch", "again"]).0, 0);
    assert!(!world.file("again").exists(), "another host ran it again");
    assert_eq!(world.ran(&["-w", "60", "a", "true"]).0, 0);
    let held = began.elapsed();
    assert!(held >= Duration::from_secs(10), "free after {held:?}");
    // Shorter than the TTL: `run` keeps running until the time is over.
    let began = Instant::now();
    assert_eq!(world.ran(&["--at-least", "0.5", "b", "true"]).0, 0);
    assert!(began.elapsed() >= Duration::from_millis(500));
    assert_eq!(world.ran(&["-n", "b", "true"]).0, 0, "and then it is free");
}

#[test]
fn a_time_that_the_server_does_not_allow_is_refused_before_the_command_starts() {
    let world = World::with(&["--ttl-max", "1m"]);
    let refused = |words: &[&str]| {
        let (code, _, err) = world.ran(&[words, &["a", "touch", "wrong"]].concat());
        assert_eq!(code, 64, "{words:?}: {err}");
        assert!(!world.file("wrong").exists(), "{words:?}");
        err
    };
    let err = refused(&["--at-least", "48h"]);
    assert!(err.contains("--at-least: 2days is too long for this server"), "{err}");
    assert!(err.contains("must be at most 1m (ttl-max)"), "{err}");
    refused(&["-l", "b", "--at-least", "61", "-l"]);
    assert!(refused(&["--ttl", "61"]).contains("--ttl: must be at most 1m (ttl-max)"));
    assert!(refused(&["--ttl", "1ms"]).contains("must be at least 100ms"));
    assert!(refused(&["--grace-kill", "11"]).contains("more than a third of --ttl"));
    // The refused commands left no lease behind, so this one does not have to wait.
    assert_eq!(world.ran(&["-n", "--at-least", "60", "--ttl", "10", "a", "true"]).0, 0);
    assert_eq!(world.ran(&["-n", "a", "true"]).0, 1, "it stays held");
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let world = World::new();
    let (code, _, err) = world.ran(&["--at-most", "0.2", "a", "sleep", "1000"]);
    assert_eq!(code, 124);
    assert!(err.contains("a: the command was ended after 200ms (--at-most)"), "{err}");
    // A command that ignores SIGTERM is killed after the grace period.
    let deaf = "trap '' TERM; while :; do sleep 0.01; done";
    let (code, ..) = world.ran(&["--at-most", "0.2", "--grace-kill", "0.2", "a", "sh", "-c", deaf]);
    assert_eq!(code, 124);
    assert_eq!(world.ran(&["-n", "--at-most", "20", "a", "sh", "-c", "exit 3"]).0, 3);
}

#[test]
fn a_lock_can_be_held_until_the_input_ends() {
    let world = World::new();
    let mut hold = world.leasehold_run(&["a", "--hold"]);
    hold.stdin(Stdio::piped()).stdout(std::fs::File::create(world.file("said")).unwrap());
    let mut hold = Running { child: hold.spawn().unwrap() };
    world.until_text("said", "holding a, token 1\n");
    assert_eq!(world.ran(&["-n", "a", "true"]).0, 1);
    drop(hold.child.stdin.take());
    assert_eq!(hold.code(), Some(0));
    assert_eq!(world.ran(&["-n", "a", "true"]).0, 0);
}

/// As in the background of a script, in a service and in cron.
#[test]
fn without_an_input_a_lock_is_held_until_a_signal() {
    let world = World::new();
    let mut hold = world.leasehold_run(&["a", "--hold"]);
    hold.stdout(std::fs::File::create(world.file("said")).unwrap());
    let mut hold = Running { child: hold.stdin(Stdio::null()).spawn().unwrap() };
    world.until_text("said", "holding a, token 1\n");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!hold.is_over());
    let refused = world.ran(&["-n", "a", "--hold", "--json"]);
    let told: Value = serde_json::from_str(&refused.1).unwrap();
    assert_eq!((refused.0, &told["reason"]), (1, &json!("HELD")), "{told}");
    hold.signal(Signal::INT);
    assert_eq!(hold.code(), Some(130));
    assert_eq!(world.ran(&["-n", "a", "true"]).0, 0);
}

#[test]
fn a_lock_can_be_held_until_a_signal() {
    let world = World::new();
    let mut hold = world.leasehold_run(&["-l", "a", "--hold", "--json"]);
    hold.stdin(Stdio::piped()).stdout(std::fs::File::create(world.file("said")).unwrap());
    let hold = Running { child: hold.spawn().unwrap() };
    world.until_text("said", "}\n");
    let lease: Value = serde_json::from_str(&world.text("said")).unwrap();
    assert_eq!((&lease["lock_name"], &lease["fencing_token"]), (&json!("a"), &json!(1)));
    hold.signal(Signal::TERM);
    assert_eq!(hold.code(), Some(143));
    assert_eq!(world.ran(&["-n", "a", "true"]).0, 0);
}

#[test]
fn the_command_can_renew_and_is_told_everything_but_the_key() {
    let world = World::new();
    let script = format!("{QUOTED} renew --ttl 10m && env | grep ^LEASEHOLD_ | sort");
    let mut run = world.leasehold_run(&["--namespace", "shop", "a", "-c", &script]);
    run.env("LEASEHOLD_API_KEY", "secret").env("LEASEHOLD_OWNER", "ann");
    let output = run.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("a is renewed for 9m5") || said.starts_with("a is renewed for 10m00"),
        "{said}"
    );
    for line in [
        "LEASEHOLD_LOCK=a",
        "LEASEHOLD_OWNER=ann",
        "LEASEHOLD_NAMESPACE=shop",
        "LEASEHOLD_URL=http://127",
    ] {
        assert!(said.contains(&format!("\n{line}")), "{line} in {said}");
    }
    assert!(!said.contains("secret"), "{said}");
    let leases = said.lines().find_map(|line| line.strip_prefix("LEASEHOLD_LEASES=")).unwrap();
    let leases: Value = serde_json::from_str(leases).unwrap();
    assert_eq!((&leases[0]["lock_name"], &leases[0]["fencing_token"]), (&json!("a"), &json!(1)));

    let mut run = world.leasehold_run(&["--pass-api-key", "a", "-c", "echo $LEASEHOLD_API_KEY"]);
    let output = run.env("LEASEHOLD_API_KEY", "secret").output().unwrap();
    assert_eq!(output.stdout, b"secret\n");
}

#[test]
fn a_run_inside_of_itself_is_refused_at_once() {
    let world = World::new();
    let began = Instant::now();
    let inner = format!("{QUOTED} run a true");
    let deep = format!("{QUOTED} run b {inner}");
    for command in [&inner, &deep] {
        let (code, _, err) = world.ran(&["a", "-c", command]);
        assert_eq!(code, 1, "{command}");
        assert!(err.contains("lock \"a\" is already held by the `leasehold run`"), "{err}");
    }
    let skipped = format!("{QUOTED} run --skip-if-busy a touch wrong");
    assert_eq!(world.ran(&["a", "-c", &skipped]), (0, String::new(), String::new()));
    assert!(!world.file("wrong").exists());
    // Two shared leases work until another client requests the lock exclusively. Then the two commands would wait for
    // each other.
    let reader = format!("{QUOTED} run -s a true");
    for (outer, text) in [("-s", "sharing it again might"), ("-x", "would never end")] {
        let (code, _, err) = world.ran(&[outer, "a", "-c", &reader]);
        assert!(code == 1 && err.contains(text), "{outer}: {err}");
    }
    let (code, _, err) = world.ran(&["-s", "a", "-c", &inner]);
    assert!(code == 1 && err.contains("would never end"), "{err}");
    assert!(began.elapsed() < Duration::from_secs(100));
    let elsewhere = format!("{QUOTED} run --namespace other a true");
    assert_eq!(world.ran(&["a", "-c", &elsewhere]).0, 0);
    // `run` ignores the variables of a lease that has ended.
    let script = format!(
        "lease=$({QUOTED} acquire a --env) && eval \"$lease\" && {QUOTED} run a true; echo $?; \
         {QUOTED} release && {QUOTED} run a true && echo free again"
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("LEASEHOLD_URL", format!("http://{}", world.server.address));
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(said, "1\na is released\nfree again\n", "{output:?}");
}

#[test]
fn a_signal_that_was_sent_to_us_is_what_we_die_of() {
    let world = World::new();
    for (signal, number) in [(Signal::TERM, 15), (Signal::HUP, 1), (Signal::QUIT, 3)] {
        let ready = format!("ready-{number}");
        let run = world.run(&["a"], &format!("touch {ready}; exec sleep 1000"));
        world.until("it is ready", || world.file(&ready).exists());
        run.signal(signal);
        use std::os::unix::process::ExitStatusExt;
        let status = run.wait();
        assert_eq!(status.signal(), Some(number), "{status:?}");
        assert!(!status.core_dumped());
    }
}

#[test]
fn several_locks_are_held_all_or_none() {
    let world = World::new();
    let script = "echo \"$LEASEHOLD_LOCK.\" > told; echo \"$LEASEHOLD_LEASES\" >> told; touch held; \
                  while [ ! -e go ]; do sleep 0.01; done";
    let mut run = world.leasehold_run(&["-l", "a", "-l", "b", "sh", "-c", script]);
    let run = Running { child: run.spawn().unwrap() };
    world.until("both are held", || world.file("held").exists());
    let told = world.text("told");
    assert!(told.starts_with(".\n"), "one lock of several is not the lock: {told}");
    let leases: Value = serde_json::from_str(told.lines().nth(1).unwrap()).unwrap();
    assert_eq!([&leases[0]["lock_name"], &leases[1]["lock_name"]], [&json!("a"), &json!("b")]);
    for lock in ["a", "b"] {
        let (code, _, err) = world.ran(&["-n", lock, "true"]);
        assert_eq!((code, err.contains(&format!("{lock}: "))), (1, true), "{err}");
    }
    // One of the locks is held, so the other is not acquired either.
    let (code, _, err) = world.ran(&["-n", "-l", "c", "-l", "b", "true"]);
    assert_eq!((code, err.contains("b: ")), (1, true), "{err}");
    assert_eq!(world.ran(&["-n", "c", "true"]).0, 0);
    std::fs::write(world.file("go"), "").unwrap();
    assert_eq!(run.code(), Some(0));
    assert_eq!(world.ran(&["-n", "-l", "b", "-l", "a", "true"]).0, 0, "both were released");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_that_is_revoked_ends_the_command() {
    let world = World::new();
    let mut run = world.leasehold_run(&[
        "--ttl",
        "10m",
        "-l",
        "a",
        "-l",
        "b",
        "-c",
        "touch held; sleep 1000",
    ]);
    let run = Running { child: run.spawn().unwrap() };
    world.until("both are held", || world.file("held").exists());
    let reason = json!({"reason": "test"});
    world.server.client.post("/v1/locks/b/revoke", reason).await.unwrap();
    assert_eq!(run.code(), Some(75));
    assert_eq!(world.ran(&["-n", "-l", "b", "-l", "a", "true"]).0, 0, "the other was released");
}
