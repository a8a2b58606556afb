//! Power failures: a real server runs under strace, its disk is rebuilt as a power failure at any call could have left
//! it, and a server that starts on this disk must know every acknowledged request.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print what they did"
)]

mod chance;
mod disk;
mod trace;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use chance::Chance;
use disk::{Disk, Unsynced};
use leasehold_testkit::{Client, Process, TempDir, folder, json, wrapped};
use trace::{Event, Trace};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const FLAGS: &[&str] = &["--fold-interval=30ms", "--dialects=locks"];
const N_LOCKS: usize = 40;
const N_FAILURES: usize = 45;
/// In each run, one sync of each thread fails: first those of the startup, then those of requests.
const SYNCS_MAX: usize = 14;

/// What a client was told about a lock, with the times of its requests and responses.
#[derive(Debug)]
struct Told {
    lock: String,
    token: u64,
    acquired_at: f64,
    /// The time of the release request, and the time of its response.
    release: Option<(f64, f64)>,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// A data directory that was used before, and its disk.
struct Machine {
    folder: TempDir,
    data: PathBuf,
    disk: Disk,
    trace: Trace,
}

impl Machine {
    fn new() -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        assert!(Process::start(BINARY, &data, FLAGS).terminate().success());
        let disk = Disk::of(&data);
        Self { folder, data, disk, trace: Trace::default() }
    }

    /// Runs a server under strace until it ends or is killed, and records its calls.
    async fn run(&mut self, inject: &str, mut told: Vec<Told>) -> Vec<Told> {
        let log = self.folder.path().join("calls");
        let _ = std::fs::remove_file(&log);
        let trace = format!("-e trace={} {inject}", trace::CALLS);
        let before =
            format!("exec strace -D -f -qq -ttt -y -xx -s 9999999 -o {} {trace}", log.display());
        let wrapper = wrapped(self.folder.path(), &before, BINARY);
        if let Ok(server) = Process::try_start(&wrapper, &self.data, FLAGS) {
            work(&server.client, &mut told).await;
            server.kill();
        }
        self.trace.add(&log, &self.data);
        told
    }

    /// Simulates a power failure at this line of the log. Returns the acknowledged requests that are lost.
    async fn lost(
        &self,
        line: usize,
        unsynced: Unsynced,
        chance: &mut Chance,
        told: &[Told],
    ) -> Vec<String> {
        let at = self.trace.times.get(line).copied().unwrap_or(f64::INFINITY);
        let left = self.folder.path().join("left");
        let disk = self.disk.clone().until(&self.trace.events, line);
        disk.lose_power(unsynced, chance, &left);
        let server = Process::try_start(BINARY, &left, FLAGS);
        let server = server.unwrap_or_else(|why| panic!("line {line}, {unsynced:?}: {why}"));
        let mut lost = Vec::new();
        for told in told.iter().filter(|told| told.acquired_at < at) {
            let state = server.client.get(&format!("/v1/locks/{}", told.lock)).await;
            let is_held = state.get("held") == true && state.number("fencing_token") == told.token;
            let is_right = match told.release {
                Some((_, heard_at)) if heard_at < at => !is_held,
                Some((asked_at, _)) if asked_at < at => true,
                _ => is_held,
            };
            if !is_right || state.number("last_token") < told.token {
                lost.push(format!("line {line}, {unsynced:?}: {told:?}, but {}", state.text));
            }
        }
        assert!(server.terminate().success());
        leasehold_store::sqlite::verify(&left).expect("sound");
        lost
    }
}

/// Acquires and releases locks until a request fails or all are done.
async fn work(client: &Client, told: &mut Vec<Told>) {
    // The last client of the run before got no response. What a read now shows of its lock must stay true.
    told.extend(look(client, &format!("first-{}", told.len())).await);
    let run = if told.is_empty() { "first" } else { "second" };
    for n in 0..N_LOCKS {
        let lock = format!("{run}-{n}");
        let acquired = client.try_acquire(&lock, "a", 600_000, json!({})).await;
        let Ok(acquired) = acquired else { return };
        if acquired.status != 200 {
            assert_eq!(acquired.status, 503, "{acquired:?}");
            return;
        }
        let token = acquired.number("fencing_token");
        let acquired_at = now();
        told.push(Told { lock, token, acquired_at, release: None });
        if n % 3 == 0 {
            let asked_at = now();
            let released = client.try_release(&acquired, json!({})).await;
            let is_released = released.is_ok_and(|released| released.status == 200);
            let heard_at = if is_released { now() } else { f64::INFINITY };
            told.last_mut().unwrap().release = Some((asked_at, heard_at));
            if !is_released {
                return;
            }
        }
    }
}

/// Returns the state of a lock as a read shows it, if the lock is held.
async fn look(client: &Client, lock: &str) -> Option<Told> {
    let state = client.get(&format!("/v1/locks/{lock}")).await;
    let is_held = state.get("held") == true;
    let token = is_held.then(|| state.number("fencing_token"))?;
    Some(Told { lock: lock.into(), token, acquired_at: now(), release: None })
}

#[tokio::test]
async fn the_power_may_fail_at_any_call_and_nothing_acknowledged_is_lost() {
    let mut chance = Chance::new();
    let mut machine = Machine::new();
    let told = machine.run("", Vec::new()).await;
    assert_eq!(told.len(), N_LOCKS);
    let last = machine.trace.times.len();
    for n in 0..N_FAILURES {
        let line = if n < 3 { last } else { chance.below(last) };
        let unsynced = [Unsynced::Gone, Unsynced::Torn, Unsynced::Kept][n % 3];
        let lost = machine.lost(line, unsynced, &mut chance, &told).await;
        assert!(lost.is_empty(), "{lost:?}");
    }
    println!("{N_FAILURES} power failures, {} acknowledged, all true", told.len());
}

/// The page cache can contain data that never reached the disk. A server that starts after that must make this data
/// durable before it relies on it.
#[tokio::test]
async fn what_a_start_after_a_failed_sync_says_survives_the_power_failing_next() {
    let mut chance = Chance::new();
    let (mut n_failed, mut n_told) = (0, 0);
    for n in 1..SYNCS_MAX {
        let mut machine = Machine::new();
        let inject = format!("-e inject=fdatasync,fsync:error=EIO:when={n}");
        let mut told = machine.run(&inject, Vec::new()).await;
        let is_failed = |event: &Event| matches!(event.call, trace::Call::Sync { failed: true });
        n_failed += machine.trace.events.iter().filter(|event| is_failed(event)).count();
        told = machine.run("", told).await;
        n_told += told.len();
        let line = machine.trace.times.len();
        let lost = machine.lost(line, Unsynced::Gone, &mut chance, &told).await;
        assert!(lost.is_empty(), "sync {n}: {lost:?}");
    }
    println!("{n_failed} failed syncs, {n_told} acknowledged, all true");
    assert!(n_failed > 3, "hardly any sync failed: {n_failed}");
}

/// Without its syncs, the same server would lose nearly everything it acknowledged. This shows that the test can fail.
#[tokio::test]
async fn a_server_that_does_not_sync_is_found_out() {
    let mut chance = Chance::new();
    let mut machine = Machine::new();
    let told = machine.run("", Vec::new()).await;
    machine.trace.events.retain(|event| !matches!(event.call, trace::Call::Sync { .. }));
    let line = machine.trace.times.len();
    let lost = machine.lost(line, Unsynced::Gone, &mut chance, &told).await;
    assert!(lost.len() > N_LOCKS / 2, "{lost:?}");
}
