//! The command that `run` starts: what it receives, what is passed on, and how it ends.

use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::json;
use rustix::process::Signal;

use crate::{BINARY, World, is_alive};

#[test]
fn the_exit_status_is_that_of_the_command() {
    let world = World::new();
    let statuses = [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)];
    for (script, status) in statuses {
        assert_eq!(world.run(&["a"], script).code(), Some(status), "{script}");
    }
}

#[test]
fn what_goes_wrong_before_the_command_has_a_status_of_its_own() {
    let world = World::new();
    let not_started = world.run_command(&["a"], &["/nonexistent/command"]);
    assert_eq!(not_started.code(), Some(69));
    let statuses = [
        (vec!["a", "--no-such-flag"], 64),
        (vec!["a", "-n", "-w", "1"], 64),
        (vec!["a", "-s", "--limit", "2"], 64),
        (vec!["a", "--grace-kill", "20"], 64),
        (vec!["a", "--url", "ftp://x"], 64),
        (vec!["a", "--api-key-file", "missing"], 64),
        (vec!["a", "--ttl", "48h"], 64),
        (vec!["a", "-n", "--url", "http://127.0.0.1:1"], 68),
    ];
    for (flags, status) in statuses {
        assert_eq!(world.run(&flags, "touch started").code(), Some(status), "{flags:?}");
    }
    assert!(!world.file("started").exists());
    let nothing = Command::new(BINARY).args(["run", "a"]).output().unwrap();
    assert_eq!(nothing.status.code(), Some(64));
}

#[tokio::test]
async fn the_command_knows_its_lock_its_token_its_lease_and_its_deadline() {
    let world = World::new();
    let script = "printf '%s\\n' \"$LEASEHOLD_LOCK\" $LEASEHOLD_FENCING_TOKEN $LEASEHOLD_LEASE_ID \
                  $LEASEHOLD_DEADLINE > known; read up _ < /proc/uptime; echo $up >> known";
    assert_eq!(world.run(&["a / b", "--owner=one"], script).code(), Some(0));
    let known = world.text("known");
    let known: Vec<_> = known.lines().collect();
    assert_eq!(known[..2], ["a / b", "1"]);
    let left = known[3].parse::<f64>().unwrap() - known[4].parse::<f64>().unwrap();
    assert!((20.0..30.0).contains(&left), "{left} s of 30 s are left");
    let body = json!({"owner_id": "one", "lease_id": known[2], "fencing_token": 1});
    let path = "/v1/locks/a%20%2F%20b/release";
    let released = world.server.client.post(path, body).await.unwrap();
    assert_eq!(released.text_of("reason"), "NOT_OWNER", "it was released at the end");
}

#[test]
fn words_of_the_command_are_none_of_ours() {
    let world = World::new();
    let echo = ["sh", "-c", "echo \"$@\" > said", "serve", "serve", "--config", "x", "-n", "--"];
    assert_eq!(world.run_command(&["serve"], &echo).code(), Some(0));
    assert_eq!(world.text("said"), "serve --config x -n --\n");
}

#[test]
fn signals_are_passed_on() {
    let world = World::new();
    let signals = [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
    ];
    for (signal, name) in signals {
        let script = format!(
            "trap 'echo got {name} >> got; exit 5' {name}; touch ready-{name}; \
             while :; do sleep 0.01; done"
        );
        let run = world.run(&["a"], &script);
        world.until("it is ready", || world.file(&format!("ready-{name}")).exists());
        run.signal(signal);
        assert_eq!(run.code(), Some(5), "{name}");
        assert!(world.text("got").contains(name));
    }
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let world = World::new();
    let mut nohup = Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh", BINARY, "run", "a", "--", "sh", "-c"]);
    nohup.arg("touch ready; sleep 0.3; exit 7").current_dir(world.folder.path());
    nohup.env("LEASEHOLD_URL", format!("http://{}", world.server.address));
    let run = crate::Running { child: nohup.spawn().unwrap() };
    world.until("it is ready", || world.file("ready").exists());
    run.signal(Signal::HUP);
    assert_eq!(run.code(), Some(7));
}

#[test]
fn with_run_its_command_dies_and_whatever_that_started() {
    let world = World::new();
    let script = "(sleep 1000 & echo $! >> pids; wait) & echo $! >> pids; echo $$ >> pids; wait";
    let run = world.run(&["a"], script);
    world.until("all are there", || world.text("pids").lines().count() == 3);
    let pids: Vec<i32> = world.text("pids").lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    run.signal(Signal::KILL);
    world.until("all are gone", || !pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn without_its_warden_the_command_is_ended() {
    let world = World::new();
    let mut run = world.run(&["a"], "echo $$ > pid; while :; do sleep 0.01; done");
    world.until("it is there", || world.text("pid").ends_with('\n'));
    let pid: i32 = world.text("pid").trim().parse().unwrap();
    let warden = run.warden();
    assert_eq!(crate::parent(pid), Some(warden.as_raw_nonzero().get()));
    rustix::process::kill_process(warden, Signal::KILL).unwrap();
    world.until("it is gone", || !is_alive(pid));
    world.until("run is over", || run.is_over());
    assert_eq!(run.code(), Some(71));
    assert_eq!(world.run(&["a", "-n"], "true").code(), Some(0), "the lock was released");
}

#[tokio::test]
async fn nothing_is_renewed_once_the_command_has_ended() {
    let world = World::new();
    let renewals = async || {
        let metrics = world.server.client.get("/metrics").await.text;
        let lines = metrics.lines().filter(|line| line.starts_with("lock_renew_total{"));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    let run = world.run(&["a", "--ttl=6s"], "while [ ! -e go ]; do sleep 0.01; done");
    let began = Instant::now();
    while renewals().await < 2 {
        assert!(began.elapsed() < crate::PATIENCE, "it is not renewed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    std::fs::write(world.file("go"), "").unwrap();
    assert_eq!(run.code(), Some(0));
    let n = renewals().await;
    let held = world.server.client.get("/v1/locks/a").await;
    assert_eq!(held.get("held"), false);
    // The next renewal would be due after a third of the TTL.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(renewals().await, n);
}
