//! All processes that the command started, however they hide: none of them writes once another client can hold the
//! lock.

use std::time::Duration;

use leasehold::Moment;
use leasehold_testkit::json;
use rustix::process::{Signal, kill_process};

use crate::{World, now};

/// Starts a writer that leaves its process group, its session and its parent, and then keeps running itself.
const ESCAPING: &str = "setsid sh -c 'sh -c \"trap : TERM; echo \\$\\$ > pid; \
    while :; do read up _ < /proc/uptime; echo \\$up >> stamps; sleep 0.01; done\" & ' & \
    while :; do sleep 0.01; done";

impl World {
    fn writer(&self) -> i32 {
        self.until("it writes", || self.text("stamps").lines().count() > 2);
        self.text("pid").trim().parse().unwrap()
    }

    fn last_write(&self) -> Moment {
        let stamps = self.text("stamps");
        let last = stamps.lines().next_back().unwrap();
        Moment::from_boot(Duration::from_secs_f64(last.parse().unwrap()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_the_command_writes_once_the_lock_can_be_granted_again() {
    for contain in ["--contain=tree", "--contain=cgroup"] {
        let mut world = World::new();
        let run = world.run(&["a", "--ttl=3s", "--grace-kill=0.3", contain], ESCAPING);
        let writer = world.writer();
        assert_ne!(crate::parent(writer), Some(1), "it was adopted");
        world.replace_server();
        let wait = json!({"wait_ms": 30_000});
        let grant = world.server.client.acquire("a", "next", 60_000, wait).await;
        let granted_at = now();
        assert_eq!(grant.status, 200, "{grant:?}");
        assert!(!crate::is_alive(writer), "{contain}");
        let last = world.last_write();
        assert!(
            last < granted_at,
            "{contain}: wrote at {last:?}, another had it at {granted_at:?}"
        );
        println!("{contain}: last write {:?} before the next grant", granted_at.since(last));
        assert_eq!(run.code(), Some(75));
    }
}

#[test]
fn escaped_processes_die_with_run_with_its_warden_and_after_a_timeout() {
    let world = World::new();
    type Deed = fn(&crate::Running);
    let kill_run: Deed = |run| run.signal(Signal::KILL);
    let kill_warden: Deed = |run| kill_process(run.warden(), Signal::KILL).unwrap();
    let wait: Deed = |_| {};
    for (name, flags, deed, status) in [
        ("run", &["a"][..], kill_run, 137),
        ("warden", &["a"], kill_warden, 71),
        ("at most", &["a", "-w", "20", "--at-most", "3", "--grace-kill", "0.1"], wait, 124),
    ] {
        let _ = std::fs::remove_file(world.file("stamps"));
        let run = world.run(&[flags, &["--contain", "tree", "--ttl", "3s"]].concat(), ESCAPING);
        let writer = world.writer();
        deed(&run);
        world.until(name, || !crate::is_alive(writer));
        assert_eq!(run.code(), Some(status), "{name}");
    }
}

#[test]
fn what_is_left_running_when_the_command_ends_is_left_alone() {
    let world = World::new();
    let script = "setsid sh -c 'echo $$ > left; while [ ! -e go ]; do sleep 0.01; done' & \
                  while [ ! -s left ]; do sleep 0.01; done";
    for contain in ["tree", "cgroup", "group"] {
        assert_eq!(world.run(&["a", "--contain", contain], script).code(), Some(0));
        let left: i32 = world.text("left").trim().parse().unwrap();
        assert!(crate::is_alive(left), "{contain}");
        std::fs::write(world.file("go"), "").unwrap();
        world.until("it ends by itself", || !crate::is_alive(left));
        std::fs::remove_file(world.file("go")).unwrap();
        std::fs::remove_file(world.file("left")).unwrap();
    }
}
