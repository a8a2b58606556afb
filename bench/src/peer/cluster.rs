//! Three etcd members, used through etcd's own lock service, and as the store of three Leasehold servers.

use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use etcd_client::{Client as EtcdConnection, LockOptions};

use super::http::Connection;
use super::leasehold::{Leasehold, LeaseholdClient};
use super::process::{self, Process};
use super::{Client, Peer};

/// Number of etcd members, and of servers.
const N: usize = 3;
/// Time limit for creating a store, and for a server to become leader.
const PATIENCE: Duration = Duration::from_secs(30);

/// The etcd members, which are stopped when no peer uses them any more.
pub(crate) struct Members(Vec<Process>);

impl Members {
    pub(crate) fn start(data: &Path) -> Rc<Self> {
        let ports: Vec<_> =
            (0..N).map(|_| (process::free_address(), process::free_address())).collect();
        let all: Vec<_> = ports
            .iter()
            .enumerate()
            .map(|(n, (_, peers))| format!("m{n}=http://{peers}"))
            .collect();
        let begin = |n: usize| {
            let folder = process::empty(data, &format!("member-{n}"));
            let (address, peers) = ports[n];
            let (clients, peers) = (format!("http://{address}"), format!("http://{peers}"));
            let mut command = Command::new("etcd");
            command.arg("--name").arg(format!("m{n}")).arg("--data-dir").arg(folder.join("data"));
            command.args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
            command.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
            command.args(["--initial-cluster", &all.join(",")]);
            command.args(["--log-level", "error", "--quota-backend-bytes", "8589934592"]);
            (Process::begin(command, address, &folder), folder)
        };
        let begun: Vec<_> = (0..N).map(begin).collect();
        begun.iter().for_each(|(process, folder)| process.wait_for_port(folder));
        Rc::new(Self(begun.into_iter().map(|(process, _)| process).collect()))
    }

    fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Process::pid).collect()
    }

    fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|member| member.address.to_string()).collect()
    }
}

/// The lock service of etcd.
pub(crate) struct EtcdLock(pub(crate) Rc<Members>);

impl Peer for EtcdLock {
    type Client = EtcdLockClient;

    fn name(&self) -> &'static str {
        "etcd Lock, 3 members"
    }

    fn pid(&self) -> u32 {
        self.0.0[0].pid()
    }

    fn pids(&self) -> Vec<u32> {
        self.0.pids()
    }

    async fn connect(&self, _: usize) -> EtcdLockClient {
        let connected = EtcdConnection::connect(self.0.addresses(), None).await;
        let mut connection = connected.expect("a connection");
        let lease = connection.lease_grant(600, None).await.expect("a lease").id();
        EtcdLockClient { connection, lease, held: Vec::new() }
    }
}

pub(crate) struct EtcdLockClient {
    connection: EtcdConnection,
    lease: i64,
    held: Vec<u8>,
}

impl Client for EtcdLockClient {
    async fn acquire(&mut self, key: &str) {
        let options = LockOptions::new().with_lease(self.lease);
        let answer = self.connection.lock(key, Some(options)).await.expect("an answer");
        self.held = answer.key().to_vec();
    }

    async fn release(&mut self, _: &str) {
        let held = std::mem::take(&mut self.held);
        self.connection.unlock(held).await.expect("an answer");
    }
}

/// Creates a store, once the members have elected a leader.
fn init(binary: &str, store: &str) {
    let began = Instant::now();
    loop {
        let made = Command::new(binary).args(["init", "--store", store]).output().expect("a store");
        if made.status.success() {
            return;
        }
        let why = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(began.elapsed() < PATIENCE, "{why}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Servers that share a store on these members. Requests go to the leader.
pub(crate) struct LeaseholdOnEtcd {
    servers: Vec<Leasehold>,
    leader: usize,
    members: Rc<Members>,
}

impl LeaseholdOnEtcd {
    /// Starts the servers. Their directories and the prefix of their store have this name.
    pub(crate) fn start(name: &str, data: &Path, binary: &str, members: &Rc<Members>) -> Self {
        let store = format!("etcd://{}/{name}", members.addresses().join(","));
        init(binary, &store);
        let start = |n: usize| {
            let folder = process::empty(data, &format!("{name}-{n}"));
            let address = process::free_address();
            let mut command = Command::new(binary);
            command.arg("serve").arg(format!("--listen={address}")).args(["--store", &store]);
            command.arg(format!("--node-name=n{n}")).arg("--data").arg(folder.join("data"));
            Leasehold { process: Process::start(command, address, &folder) }
        };
        let servers: Vec<_> = (0..N).map(start).collect();
        let leader = leader(&servers);
        Self { servers, leader, members: members.clone() }
    }
}

fn leader(servers: &[Leasehold]) -> usize {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let leads = |server: &Leasehold| {
            let url = format!("http://{}/leaderz", server.process.address);
            let mut curl = Command::new("curl");
            let asked = curl.args(["--silent", "--fail", "--max-time", "1"]).arg(url).output();
            asked.is_ok_and(|answer| answer.status.success())
        };
        if let Some(leader) = servers.iter().position(leads) {
            return leader;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no server leads within {PATIENCE:?}");
}

impl Peer for LeaseholdOnEtcd {
    type Client = LeaseholdClient;

    fn name(&self) -> &'static str {
        "leasehold"
    }

    fn pid(&self) -> u32 {
        self.servers[self.leader].pid()
    }

    fn pids(&self) -> Vec<u32> {
        let servers = self.servers.iter().map(Leasehold::pid);
        servers.chain(self.members.pids()).collect()
    }

    async fn connect(&self, n: usize) -> LeaseholdClient {
        let connection = Connection::open(self.servers[self.leader].process.address).await;
        LeaseholdClient { connection, n, proof: String::new() }
    }
}
