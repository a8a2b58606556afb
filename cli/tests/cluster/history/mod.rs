//! Kills, stops and slows down the real server while every request and response over HTTP is recorded. The recorded
//! history must be linearizable, and two clients must never hold a lock at the same time.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests fail by panicking and print their seeds"
)]

#[cfg(feature = "etcd")]
mod cluster;
#[cfg(feature = "etcd")]
mod fault;
#[cfg(feature = "etcd")]
mod fifo;
#[cfg(feature = "etcd")]
mod link;
#[cfg(feature = "etcd")]
mod mass;
#[cfg(feature = "etcd")]
mod partition;
#[cfg(feature = "etcd")]
mod put_back;
#[cfg(feature = "etcd")]
mod silence;
#[cfg(feature = "etcd")]
mod takeover;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use leasehold_judge::{Exclusion, Mode, Operation, What, is_linearizable};
use leasehold_testkit::{Client, Process, Response, Signal, folder, json};

const BINARY: &str = env!("CARGO_BIN_EXE_leasehold");
const N_CLIENTS: u64 = 6;
const N_LOCKS: u64 = 3;
const N_ROUNDS: u64 = 9;
/// Time limit for a response after the last fault.
const ANSWER_MAX: Duration = Duration::from_secs(180);

/// A generator of random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

struct World {
    began: Instant,
    /// The servers. A request can go to any of them: a server that does not lead forwards or rejects it.
    servers: RwLock<Vec<Client>>,
    n_asked: AtomicUsize,
    /// No client starts another operation.
    is_ending: AtomicBool,
    /// No client waits for a response any more.
    is_over: AtomicBool,
    recorded: Mutex<BTreeMap<u64, Vec<Operation>>>,
}

impl World {
    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn new(servers: Vec<Client>) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            servers: RwLock::new(servers),
            n_asked: AtomicUsize::new(0),
            is_ending: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            recorded: Mutex::default(),
        })
    }

    /// Returns the servers in turn.
    fn server(&self) -> Client {
        let servers = self.servers.read().unwrap();
        servers[self.n_asked.fetch_add(1, Relaxed) % servers.len()].clone()
    }

    fn n_recorded(&self) -> usize {
        self.recorded.lock().unwrap().values().map(Vec::len).sum()
    }

    /// Waits until `n` more operations are recorded, which takes longer on a busy machine. If none are, [`judge`]
    /// reports why.
    async fn until_recorded(&self, n: usize) {
        let target = self.n_recorded() + n;
        let recording = async {
            while self.n_recorded() < target {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(ANSWER_MAX, recording).await;
    }

    fn record(&self, lock: u64, called_at: u64, what: What) {
        let operation = Operation { called_at, returned_at: self.now(), what };
        self.recorded.lock().unwrap().entry(lock).or_default().push(operation);
    }

    /// Repeats the same request, with the same request id, until there is a response.
    async fn ask(&self, path: &str, body: &leasehold_testkit::Value) -> Option<Response> {
        loop {
            let client = self.server();
            match client.post(path, body.clone()).await {
                Ok(answer) if answer.status < 500 => return Some(answer),
                _ if self.is_over.load(Relaxed) => return None,
                _ => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    }
}

/// Returns the seed of all random choices.
fn seed() -> u64 {
    leasehold_testkit::seed("SEED")
}

/// Acquires and releases locks, tries to release ended leases, and reads locks.
async fn work(world: Arc<World>, n: u64, seed: u64) {
    let mut random = Random(seed ^ (n << 32));
    for round in 0.. {
        if world.is_ending.load(Relaxed) {
            return;
        }
        let lock = random.below(N_LOCKS);
        let path = |what: &str| format!("/v1/locks/lock-{lock}{what}");
        if random.below(4) == 0 {
            let client = world.server();
            let called_at = world.now();
            let seen = client.send(leasehold_testkit::Method::GET, &path(""), None, "").await;
            if let Some(seen) = seen.ok().filter(|seen| seen.status == 200) {
                world.record(lock, called_at, What::Seen(seen.get("fencing_token").as_u64()));
            }
            continue;
        }
        let body = json!({
            "owner_id": format!("client-{n}"), "ttl_ms": 600_000, "request_id": format!("a{round}"),
        });
        let called_at = world.now();
        let Some(answer) = world.ask(&path("/acquire"), &body).await else { return };
        if answer.status == 409 {
            world.record(lock, called_at, What::Refused);
            continue;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let token = answer.number("fencing_token");
        world.record(lock, called_at, What::Granted(token));
        tokio::time::sleep(Duration::from_millis(random.below(5))).await;
        for id in ["first", "second"] {
            let body = json!({
                "owner_id": answer.get("owner_id"), "lease_id": answer.get("lease_id"),
                "fencing_token": token, "request_id": format!("{id}-{round}"),
            });
            let called_at = world.now();
            let Some(released) = world.ask(&path("/release"), &body).await else { return };
            let is_released = released.status == 200;
            assert_eq!(is_released, id == "first", "{released:?}");
            let what = if is_released { What::Released(token) } else { What::NotReleased(token) };
            world.record(lock, called_at, what);
        }
    }
}

/// Returns a program that runs the server on a disk whose syncs take 20 ms.
fn slow_disk(folder: &Path) -> String {
    let path = folder.join("slow");
    let inject = "-e trace=fdatasync,fsync -e inject=fdatasync,fsync:delay_exit=20000";
    let script =
        format!("#!/bin/sh\nexec strace -D -f -qq -o /dev/null {inject} \"{BINARY}\" \"$@\"\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_see_under_kills_stops_and_a_slow_disk_is_linearizable() {
    let seed = seed();
    let mut random = Random(seed);
    let folder = folder();
    let (data, slow) = (folder.path().join("data"), slow_disk(folder.path()));
    let mut server = Process::start(BINARY, &data, &[]);
    let world = World::new(vec![server.client.clone()]);
    let tasks: Vec<_> =
        (0..N_CLIENTS).map(|n| tokio::spawn(work(world.clone(), n, seed))).collect();
    for round in 0..N_ROUNDS {
        tokio::time::sleep(Duration::from_millis(50 + random.below(100))).await;
        world.until_recorded(15).await;
        if round % 3 == 0 {
            server.signal(Signal::STOP);
            tokio::time::sleep(Duration::from_millis(random.below(200))).await;
            server.signal(Signal::CONT);
            continue;
        }
        server.kill();
        server = Process::start(if round % 3 == 1 { &slow } else { BINARY }, &data, &[]);
        *world.servers.write().unwrap() = vec![server.client.clone()];
    }
    judge(&world, tasks, seed).await;
}

/// Ends the run, and checks that the recorded history could have happened.
async fn judge(world: &World, tasks: Vec<tokio::task::JoinHandle<()>>, seed: u64) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.is_ending.store(true, Relaxed);
    // A request without a response might have taken effect. All faults are over, so every request now gets a response.
    let ending = async {
        for task in tasks {
            task.await.expect("every answer made sense");
        }
    };
    let ended = tokio::time::timeout(ANSWER_MAX, ending).await;
    world.is_over.store(true, Relaxed);
    assert!(ended.is_ok(), "there is no answer after {ANSWER_MAX:?}");
    let recorded = std::mem::take(&mut *world.recorded.lock().unwrap());
    let n_operations: usize = recorded.values().map(Vec::len).sum();
    println!("{n_operations} operations on {} locks", recorded.len());
    assert!(n_operations > 100, "too little happened to prove anything");
    for (lock, operations) in recorded {
        check_one_holder(lock, &operations);
        assert!(is_linearizable(operations), "lock {lock} did what no lock can do (SEED={seed})");
    }
}

/// Checks that no other client is granted the lock between the response to an acquire and the request to release it.
fn check_one_holder(lock: u64, operations: &[Operation]) {
    let granted = operations.iter().filter_map(|operation| match operation.what {
        What::Granted(token) => Some((operation.returned_at, token)),
        _ => None,
    });
    let mut granted: Vec<_> = granted.collect();
    granted.sort_unstable();
    let mut holders = Exclusion::default();
    for (from, token) in granted {
        let released = operations.iter().find(|other| other.what == What::Released(token));
        let until = released.map_or(u64::MAX, |release| release.called_at);
        let begun = holders.begin(token, Mode::Exclusive, from);
        let conflicts: Vec<_> = begun.into_iter().chain(holders.end(token, until)).collect();
        assert!(conflicts.is_empty(), "lock {lock}: {conflicts:?}");
    }
}
