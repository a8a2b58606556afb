//! A leader change with many leases and many waiters.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use leasehold_testkit::{Client, Method, Response, Value, json};
use tokio::task::JoinSet;

use super::cluster::{Cluster, number};

/// `MASS_LEASES=1000000 MASS_WAITERS=100000` runs with more of them, on three etcd members.
const LEASES: &str = "MASS_LEASES";
const WAITERS: &str = "MASS_WAITERS";
const N_LEASES: u64 = 2_048;
const N_WAITERS: u64 = 500;
/// Number of leases per acquire request. `N_GROUPS_AT_ONCE` such requests run at the same time.
const GROUP: u64 = 64;
const N_GROUPS_AT_ONCE: u64 = 16;
/// Number of waiters that share their connections.
const STREAMS: u64 = 200;
/// Number of waiters to start before checking that all of them are in the queue.
const N_ASKING: u64 = 1_000;
/// How many of the waiters that lost their server repeat their request per second.
const N_AGAIN_PER_S: u64 = 4_000;
const TTL_MS: u64 = 86_400_000;
const PATIENCE: Duration = Duration::from_secs(300);
const QUOTA: u64 = 8 << 30;
const FLAGS: [&str; 4] =
    ["--streams-max=250000", "--queue-max=250000", "--park-max=5m", "--pending-max=250000"];

struct Mass {
    cluster: Cluster,
    addresses: Vec<SocketAddr>,
}

impl Mass {
    fn client(&self, n: usize) -> Client {
        Client::new(self.addresses[n])
    }

    /// Acquires this many leases, and returns some of them.
    async fn hold(&self, leader: usize, n_leases: u64) -> Vec<Response> {
        let client = Client::over_http2(self.addresses[leader]);
        let (mut asked, mut some) = (JoinSet::new(), Vec::new());
        for n in 0..n_leases / GROUP {
            if asked.len() as u64 >= N_GROUPS_AT_ONCE {
                some.extend(asked.join_next().await.expect("one is under way").expect("no panic"));
            }
            let client = client.clone();
            asked.spawn(async move {
                let lock = |m: u64| json!({"lock_name": format!("lease-{n}-{m}")});
                let locks: Vec<Value> = (0..GROUP).map(lock).collect();
                let owner = format!("owner-{n}");
                let body = json!({"owner_id": owner, "ttl_ms": TTL_MS, "locks": locks});
                let granted = client.post("/v1/acquire", body).await.expect("an answer");
                assert_eq!(granted.status, 200, "{granted:?}");
                (n % 100 == 0).then_some(granted)
            });
        }
        while let Some(granted) = asked.join_next().await {
            some.extend(granted.expect("no panic"));
        }
        some
    }

    /// Waits until every server has read the journal up to its current end.
    async fn is_followed(&self) {
        let status = || -> Value {
            serde_json::from_str(&self.cluster.operate(&["cluster", "status", "--json"])).unwrap()
        };
        let (head, began) = (status()["head"].as_u64(), Instant::now());
        loop {
            let now = status();
            let nodes = now["nodes"].as_array().expect("nodes").clone();
            if nodes.len() == self.addresses.len()
                && nodes.iter().all(|node| node["seq"].as_u64() >= head)
            {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{now}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Starts this many waiters for one lock. A waiter without a response repeats its request, with the same request
    /// id, to another server.
    async fn wait(
        &self,
        leader: usize,
        n_waiters: u64,
        n_granted: &Arc<AtomicUsize>,
    ) -> JoinSet<()> {
        let again_within = Duration::from_secs(1 + n_waiters / N_AGAIN_PER_S);
        let mut waiters = JoinSet::new();
        let mut clients: Vec<Client> = Vec::new();
        for n in 0..n_waiters {
            if n % STREAMS == 0 {
                clients = self.addresses.iter().map(|at| Client::over_http2(*at)).collect();
            }
            if n % N_ASKING == 0 {
                self.waited_for(leader, n).await;
            }
            let pause = again_within.mul_f64(n as f64 / n_waiters as f64);
            waiters.spawn(wait_once(clients.clone(), n, pause, n_granted.clone()));
        }
        waiters
    }

    /// Waits until this many clients are in the queue, and returns how long that took.
    async fn waited_for(&self, leader: usize, n_waiters: u64) -> Duration {
        let (client, began) = (self.client(leader), Instant::now());
        loop {
            let seen = client.send(Method::GET, "/v1/locks/hot", None, "").await;
            let n_waiting = seen.map_or(0, |seen| seen.get("n_waiting").as_u64().unwrap_or(0));
            if n_waiting == n_waiters {
                return began.elapsed();
            }
            assert!(began.elapsed() < PATIENCE, "{n_waiting} of {n_waiters} wait");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn memory(&self, n: usize) -> String {
        let id = self.cluster.servers[n].as_ref().expect("a server").id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.expect("its memory").trim().into()
    }
}

async fn wait_once(clients: Vec<Client>, n: u64, pause: Duration, n_granted: Arc<AtomicUsize>) {
    let name = format!("w{n}");
    let more = json!({"wait_ms": 3_600_000, "request_id": name});
    for client in clients.iter().cycle().skip(n as usize) {
        let asked = client.try_acquire("hot", &name, TTL_MS, more.clone()).await;
        if asked.is_ok_and(|answer| answer.status == 200) {
            n_granted.fetch_add(1, Relaxed);
            return;
        }
        tokio::time::sleep(Duration::from_millis(100) + pause).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_leases_and_many_who_wait_outlast_who_leads() {
    let is_long = number(LEASES).is_some();
    let (n_leases, n_waiters) =
        (number(LEASES).unwrap_or(N_LEASES), number(WAITERS).unwrap_or(N_WAITERS));
    let cluster = Cluster::start_with(if is_long { 3 } else { 1 }, Vec::new(), QUOTA, &FLAGS);
    let addresses = cluster.servers.iter().flatten().map(|server| server.address).collect();
    let mut mass = Mass { cluster, addresses };
    let (leader, _) = mass.cluster.leader(None).await;
    let began = Instant::now();
    let some = mass.hold(leader, n_leases).await;
    println!("{n_leases} leases after {:?}", began.elapsed());
    let hot = mass.client(leader).acquire("hot", "holder", TTL_MS, json!({})).await;
    let n_granted = Arc::new(AtomicUsize::new(0));
    let mut waiters = mass.wait(leader, n_waiters, &n_granted).await;
    mass.waited_for(leader, n_waiters).await;
    println!("{n_waiters} waiters after {:?}", began.elapsed());
    mass.is_followed().await;
    println!("memory of each server: {:?}", [0, 1, 2].map(|n| mass.memory(n)));

    mass.cluster.servers[leader].take().expect("it leads").kill();
    let (next, took) = mass.cluster.leader(Some(leader)).await;
    let began = Instant::now();
    let first = mass.client(next).acquire("first", "a", TTL_MS, json!({})).await;
    assert_eq!(first.status, 200, "{first:?}");
    println!("another led after {took:?} and granted the first lock {:?} later", began.elapsed());
    assert!(took < Duration::from_secs(100), "{took:?}");
    let back = mass.waited_for(next, n_waiters).await;
    println!("all clients wait again after {back:?}; memory: {}", mass.memory(next));
    for granted in some {
        let leases: Value = granted.get("leases").clone();
        let owner = granted.text_of("owner_id");
        let body = json!({"owner_id": owner, "leases": leases, "extend_by_ms": TTL_MS});
        let renewed = mass.client(next).post("/v1/renew", body).await.expect("an answer");
        assert_eq!(renewed.status, 200, "{renewed:?}");
    }
    assert_eq!(n_granted.load(Relaxed), 0, "it was held all the time");
    assert_eq!(mass.client(next).release(&hot, json!({})).await.status, 200);
    waiters.join_next().await.expect("a waiter").expect("no panic");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(n_granted.load(Relaxed), 1, "one of them has it now");
}
