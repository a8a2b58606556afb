//! What happens to a cluster, and how it is over again.

use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Host, Signal};

use super::World;
use super::cluster::{Cluster, binary, number};

const MANUAL: &str = include_str!("../../../../docs/operate/cluster-recover.md");
/// So many times another leads, and the first again.
const N_THERE_AND_BACK: usize = 4;
/// So much longer a sync takes on a slow disk.
const SYNC_TAKES: Duration = Duration::from_millis(150);

/// Longer than etcd keeps the seat of one who is gone.
const A_WHILE: Duration = Duration::from_millis(3500);

/// What may happen to three servers and three members of etcd.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    LeaderKilled,
    LeaderStopped,
    /// The one who leads and etcd do not hear each other.
    LeaderCutFromEtcd,
    /// What the one who leads sends to etcd is lost; what etcd sends arrives.
    LeaderNotHeardByEtcd,
    /// The other way round.
    EtcdNotHeardByLeader,
    /// The servers do not hear each other; etcd hears them all.
    LeaderCutFromPeers,
    EtcdLeaderKilled,
    EtcdLeaderStopped,
    EtcdLeaderMoved,
    /// Two of three members are gone for a while.
    QuorumLost,
    /// One server after the other is ended and started.
    RollingRestart,
    /// A server is stopped while etcd forgets what it did not read yet.
    FollowerLeftBehind,
    /// Every sync of etcd takes long.
    SlowDisk,
    /// Somebody else fills etcd up; an operator makes room.
    NoSpace,
    /// Another one leads, and then the first again, before the lease of the first seat would have ended. Whoever leads
    /// is cut off from etcd, and has its seat taken away.
    ThereAndBack,
    /// An operator has another one lead.
    LeaderStepsDown,
    /// The servers do not hear each other until another one leads.
    LeaderUnreachable,
}

impl Fault {
    /// Those that take no host of one's own.
    pub(super) const ANYWHERE: [Self; 11] = [
        Self::LeaderKilled,
        Self::EtcdLeaderKilled,
        Self::LeaderStopped,
        Self::EtcdLeaderStopped,
        Self::RollingRestart,
        Self::EtcdLeaderMoved,
        Self::FollowerLeftBehind,
        Self::QuorumLost,
        Self::SlowDisk,
        Self::NoSpace,
        Self::LeaderStepsDown,
    ];
    /// Those of the network.
    pub(super) const CUTS: [Self; 5] = [
        Self::LeaderCutFromEtcd,
        Self::LeaderNotHeardByEtcd,
        Self::LeaderCutFromPeers,
        Self::EtcdNotHeardByLeader,
        Self::ThereAndBack,
    ];

    /// Happens, lasts, and is over. If the one who led was killed: how long it took until another did.
    pub(super) async fn befall(self, cluster: &mut Cluster, world: &World) -> Option<Duration> {
        let (leader, _) = cluster.leader(None).await;
        match self {
            Self::LeaderKilled => {
                cluster.servers[leader].take().expect("it leads").kill();
                *world.servers.write().unwrap() = cluster.clients();
                let (_, took) = cluster.leader(Some(leader)).await;
                cluster.servers[leader] = Some(cluster.serve(leader));
                *world.servers.write().unwrap() = cluster.clients();
                return Some(took);
            }
            Self::LeaderStopped => pause(cluster, leader, || {}).await,
            Self::FollowerLeftBehind => {
                let etcd = &cluster.etcd;
                let forget = || {
                    let said = etcd.ctl(&["get", "x", "--write-out=json"]);
                    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
                    let revision = said["header"]["revision"].to_string();
                    etcd.ctl(&["compact", &revision]);
                };
                pause(cluster, (leader + 1) % cluster.servers.len(), forget).await;
            }
            Self::LeaderCutFromEtcd => cut(cluster, leader, Direction::Both, Whom::Etcd).await,
            Self::LeaderNotHeardByEtcd => cut(cluster, leader, Direction::From, Whom::Etcd).await,
            Self::EtcdNotHeardByLeader => cut(cluster, leader, Direction::To, Whom::Etcd).await,
            Self::LeaderCutFromPeers => cut(cluster, leader, Direction::Both, Whom::Servers).await,
            Self::ThereAndBack => there_and_back(cluster, leader).await,
            Self::LeaderStepsDown => {
                cluster.operate(&["cluster", "step-down"]);
                cluster.leader(Some(leader)).await;
            }
            Self::LeaderUnreachable => {
                on_links(cluster, leader, Direction::Both, Whom::Servers, Host::loses);
                cluster.leader(Some(leader)).await;
                on_links(cluster, leader, Direction::Both, Whom::Servers, Host::reaches);
            }
            Self::SlowDisk => {
                let _slow = cluster.etcd.slow_disks(SYNC_TAKES);
                tokio::time::sleep(A_WHILE).await;
            }
            Self::NoSpace => {
                cluster.etcd.fill_up();
                tokio::time::sleep(A_WHILE).await;
                make_room(cluster);
            }
            Self::EtcdLeaderKilled => {
                let leader = cluster.etcd.leader();
                cluster.etcd.kill(leader);
                tokio::time::sleep(A_WHILE).await;
                cluster.etcd.restart(leader);
            }
            Self::EtcdLeaderStopped => {
                let leader = cluster.etcd.leader();
                cluster.etcd.signal(leader, Signal::STOP);
                tokio::time::sleep(A_WHILE).await;
                cluster.etcd.signal(leader, Signal::CONT);
            }
            Self::EtcdLeaderMoved => cluster.etcd.move_leader(),
            Self::QuorumLost => {
                let gone = [1, 2];
                gone.iter().for_each(|n| cluster.etcd.kill(*n));
                tokio::time::sleep(quorum_lost_for()).await;
                gone.iter().for_each(|n| cluster.etcd.restart(*n));
            }
            Self::RollingRestart => restart_each(cluster, world).await,
        }
        None
    }
}

async fn restart_each(cluster: &mut Cluster, world: &World) {
    cluster.binary = binary();
    for n in 0..cluster.servers.len() {
        assert!(cluster.servers[n].take().expect("a server").terminate().success());
        *world.servers.write().unwrap() = cluster.clients();
        cluster.servers[n] = Some(cluster.serve(n));
        *world.servers.write().unwrap() = cluster.clients();
        cluster.leader(None).await;
    }
    cluster.operate(&["upgrade", "--finish"]);
}

/// `QUORUM_LOST_S=30` loses it for longer than all that anybody waits for.
fn quorum_lost_for() -> Duration {
    number("QUORUM_LOST_S").map_or(A_WHILE, Duration::from_secs)
}

/// A server is stopped for a while; meanwhile something else happens.
async fn pause(cluster: &Cluster, n: usize, meanwhile: impl FnOnce()) {
    let stopped = cluster.servers[n].as_ref().expect("a server");
    stopped.signal(Signal::STOP);
    tokio::time::sleep(A_WHILE).await;
    meanwhile();
    stopped.signal(Signal::CONT);
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    From,
    To,
    Both,
}

#[derive(Clone, Copy)]
enum Whom {
    Etcd,
    Servers,
}

/// What the host of a server sends, or is sent, is lost for a while.
async fn cut(cluster: &Cluster, n: usize, direction: Direction, whom: Whom) {
    on_links(cluster, n, direction, whom, Host::loses);
    tokio::time::sleep(A_WHILE).await;
    on_links(cluster, n, direction, whom, Host::reaches);
}

fn on_links(cluster: &Cluster, n: usize, direction: Direction, whom: Whom, act: fn(&Host, &Host)) {
    let host = cluster.host_of(n).expect("hosts of their own");
    let n_members = cluster.hosts.len() - cluster.servers.len();
    let others: Vec<&Host> = match whom {
        Whom::Etcd => cluster.hosts[..n_members].iter().collect(),
        Whom::Servers => cluster.hosts[n_members..]
            .iter()
            .filter(|other| other.address != host.address)
            .collect(),
    };
    for other in others {
        if direction != Direction::To {
            act(host, other);
        }
        if direction != Direction::From {
            act(other, host);
        }
    }
}

async fn there_and_back(cluster: &Cluster, first: usize) {
    let n_servers = cluster.servers.len();
    let [second, third] = [1, 2].map(|n| (first + n) % n_servers);
    let bystander = cluster.servers[third].as_ref().expect("a server");
    bystander.signal(Signal::STOP);
    let began = Instant::now();
    for (from, to) in [(first, second), (second, first)].repeat(N_THERE_AND_BACK) {
        on_links(cluster, from, Direction::Both, Whom::Etcd, Host::loses);
        cluster.etcd.ctl(&["del", "/test/leader"]);
        cluster.which_is("/leaderz", &[to]).await;
        on_links(cluster, from, Direction::Both, Whom::Etcd, Host::reaches);
        // It has heard of the other, and could lead again.
        cluster.which_is("/readyz", &[from]).await;
    }
    println!("there and back {N_THERE_AND_BACK} times within {:?}", began.elapsed());
    bystander.signal(Signal::CONT);
}

/// Runs the commands of the manual.
fn make_room(cluster: &Cluster) {
    cluster.etcd.ctl(&["del", "--prefix", "/fill/"]);
    let blocks = MANUAL.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next());
    let commands: Vec<_> = blocks.filter(|block| block.contains("alarm disarm")).collect();
    let [commands] = commands[..] else { panic!("{commands:?}") };
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", commands]);
    shell.env("ETCDCTL_API", "3").env("ETCDCTL_ENDPOINTS", cluster.etcd.addresses().join(","));
    let done = shell.output().expect("bash");
    assert!(done.status.success(), "{commands:?}: {}", String::from_utf8_lossy(&done.stderr));
}
