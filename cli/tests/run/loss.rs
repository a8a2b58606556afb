//! The dangerous part: what happens to the command when the lock is lost.

use std::time::Duration;

use leasehold::Moment;
use leasehold_testkit::{Client, Process, Response, json};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{BINARY, QUOTED, World, is_alive, now};

const TTL: &str = "--ttl=3s";

/// Writes the time since boot to `stamps` in a loop, and does not end on SIGTERM.
const STAMPING: &str = "trap 'echo term >> stamps' TERM; echo $$ > pid; \
    while :; do read up _ < /proc/uptime; echo $up >> stamps; sleep 0.01; done";

/// Waits in the queue of the lock, so that the lock is granted as soon as possible. Returns the grant and its time.
async fn next_grant(client: Client) -> (Response, Moment) {
    let grant = client.acquire("a", "next", 60_000, json!({"wait_ms": 600_000})).await;
    assert_eq!(grant.status, 200, "{grant:?}");
    (grant, now())
}

impl World {
    /// Returns the last time the command was seen alive. `/proc/uptime` is truncated to hundredths of a second.
    fn last_stamp(&self) -> Moment {
        let stamps = self.text("stamps");
        let last = stamps.lines().rfind(|line| *line != "term").expect("it ran");
        Moment::from_boot(Duration::from_secs_f64(last.parse().unwrap()))
    }

    fn started(&self) -> Pid {
        self.until("it is there", || {
            self.text("pid").ends_with('\n') && !self.text("stamps").is_empty()
        });
        Pid::from_raw(self.text("pid").trim().parse().unwrap()).unwrap()
    }
}

fn assert_dead_before(world: &World, granted_at: Moment) {
    let last = world.last_stamp();
    assert!(
        last < granted_at,
        "it was alive at {last:?}, and another had the lock at {granted_at:?}"
    );
    println!("dead {:?} before another could have the lock", granted_at.since(last));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_server_is_gone_ends_before_its_lease_does() {
    let mut world = World::new();
    let run = world.run(&["a", TTL, "--grace-kill=0.9"], STAMPING);
    world.started();
    world.replace_server();
    let (_, granted_at) = next_grant(world.server.client.clone()).await;
    assert_eq!(run.code(), Some(75));
    assert!(world.text("stamps").contains("term"), "it was asked to end before it was killed");
    assert_dead_before(&world, granted_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_ends_when_asked_to_is_not_killed() {
    let mut world = World::new();
    let script =
        "trap 'echo cleaned up >> log; exit 0' TERM; touch ready; while :; do sleep 0.01; done";
    let run = world.run(&["a", TTL], script);
    world.until("it is ready", || world.file("ready").exists());
    world.replace_server();
    assert_eq!(run.code(), Some(75));
    assert_eq!(world.text("log"), "cleaned up\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_run_is_stopped_the_warden_ends_the_command_in_time() {
    let world = World::new();
    let mut run = world.run(&["a", TTL], STAMPING);
    let command = world.started();
    run.signal(Signal::STOP);
    let (_, granted_at) = next_grant(world.server.client.clone()).await;
    assert!(!run.is_over());
    assert!(!is_alive(command.as_raw_nonzero().get()), "another has the lock already");
    assert_dead_before(&world, granted_at);
    let continued_at = now();
    run.signal(Signal::CONT);
    assert_eq!(run.code(), Some(75));
    println!("over {:?} after it was continued", now().since(continued_at));
}

/// A fencing gate in a database, as in the documentation, and a table of the accepted writes.
const GATE: &str = "CREATE TABLE gate (resource TEXT PRIMARY KEY, token INTEGER NOT NULL); \
    CREATE TABLE writes (id INTEGER PRIMARY KEY, token INTEGER NOT NULL); \
    INSERT INTO gate VALUES ('report', 0);";

fn write_sql(token: &str) -> String {
    format!(
        "PRAGMA busy_timeout = 60000; BEGIN IMMEDIATE; \
         UPDATE gate SET token = {token} WHERE resource = 'report' AND token <= {token}; \
         INSERT INTO writes (token) SELECT {token} WHERE changes() = 1; COMMIT;"
    )
}

/// As when the whole machine is suspended: no process runs, not even the warden.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_pause_past_the_ttl_the_command_is_killed_at_once_and_its_late_write_refused() {
    let world = World::new();
    let database = rusqlite::Connection::open(world.file("gate.db")).unwrap();
    database.execute_batch(GATE).unwrap();
    let sql = write_sql("$LEASEHOLD_FENCING_TOKEN");
    let script = format!(
        "echo $$ > pid; while :; do echo try >> stamps; sqlite3 gate.db \"{sql}\" > /dev/null; \
         while [ -e hold ]; do touch idle; sleep 0.01; done; done"
    );
    let run = world.run(&["a", TTL], &script);
    let group = world.started();
    database.busy_timeout(Duration::from_secs(60)).unwrap();
    world.until("it wrote", || count(&database, 1) > 0);

    let warden = run.warden();
    // The writer is not stopped within a transaction, because that would block all other writers.
    std::fs::write(world.file("hold"), "").unwrap();
    world.until("it writes no more", || world.file("idle").exists());
    run.signal(Signal::STOP);
    kill_process(warden, Signal::STOP).unwrap();
    kill_process_group(group, Signal::STOP).unwrap();
    let (grant, _) = next_grant(world.server.client.clone()).await;
    assert_eq!(grant.number("fencing_token"), 2);
    database.execute_batch(&write_sql("2")).unwrap();
    let n_written = count(&database, 1);
    std::fs::remove_file(world.file("hold")).unwrap();

    // The command continues first and tries to write again, as it could after any pause.
    let n_tries = world.text("stamps").lines().count();
    kill_process_group(group, Signal::CONT).unwrap();
    world.until("it tried", || world.text("stamps").lines().count() > n_tries + 2);
    let continued_at = now();
    run.signal(Signal::CONT);
    assert_eq!(run.code(), Some(75));
    let took = now().since(continued_at);
    println!("killed {took:?} after it was continued");
    assert!(took < Duration::from_secs(20), "{took:?} is not at once");
    assert_eq!(count(&database, 1), n_written, "a late write came through");
    assert_eq!(count(&database, 2), 1);
}

fn count(database: &rusqlite::Connection, token: i64) -> i64 {
    let sql = "SELECT count(*) FROM writes WHERE token = ?";
    database.query_row(sql, [token], |row| row.get(0)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_lock_kills_its_command_at_once() {
    let world = World::new();
    // The TTL is so long that no renewal can report the revocation.
    let run = world.run(&["a", "--ttl=10m"], STAMPING);
    world.started();
    let reason = json!({"reason": "test"});
    let revoked = world.server.client.post("/v1/locks/a/revoke", reason).await.unwrap();
    let revoked_at = now();
    assert_eq!(revoked.status, 200);
    assert_eq!(run.code(), Some(75));
    let took = world.last_stamp().since(revoked_at);
    println!("the last sign of life came {took:?} after the revocation");
    // It takes 200 ms on an idle machine.
    assert!(took < Duration::from_secs(60), "{took:?}");
}

#[test]
fn a_command_that_ends_just_after_its_lock_was_taken_away_is_told_so() {
    let world = World::new();
    // The command revokes its own lock, and ends before `run` notices.
    let script = format!("{QUOTED} revoke a --reason test > /dev/null && exit 0");
    assert_eq!(world.run(&["a"], &script).code(), Some(75));
}

#[test]
fn a_command_that_ends_while_the_server_is_gone_keeps_its_status() {
    let mut world = World::new();
    let run = world.run(&["a"], "touch ready; while [ ! -e go ]; do sleep 0.01; done; exit 4");
    world.until("it is ready", || world.file("ready").exists());
    world.replace_server();
    std::fs::write(world.file("go"), "").unwrap();
    assert_eq!(run.code(), Some(4));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lives_through_restarts_of_the_server() {
    let mut world = World::new();
    let script = "touch ready; while [ ! -e go ]; do sleep 0.01; done; exit 4";
    let run = world.run(&["a", "--ttl=20s"], script);
    world.until("it is ready", || world.file("ready").exists());
    let (began_at, listen) = (now(), format!("--listen={}", world.server.address));
    while now().since(began_at) < Duration::from_secs(22) {
        world.server.signal(Signal::KILL);
        world.server.wait();
        // Renewals can fail in the meantime.
        tokio::time::sleep(Duration::from_millis(500)).await;
        world.server = Process::start(BINARY, &world.file("data"), &[&listen]);
        let renewed = "lock_renew_total{result=\"success\"} 1";
        let client = world.server.client.clone();
        while !client.get("/metrics").await.text.contains(renewed) {
            assert!(now().since(began_at) < crate::PATIENCE, "it was not renewed");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let state = world.server.client.get("/v1/locks/a").await;
    assert_eq!(state.number("fencing_token"), 1, "the same lease all along: {state:?}");
    std::fs::write(world.file("go"), "").unwrap();
    assert_eq!(run.code(), Some(4));
}
