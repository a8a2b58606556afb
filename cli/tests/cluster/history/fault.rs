//! Faults in a cluster: how each one is caused and ended.

use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Host, Signal};

use super::World;
use super::cluster::{Cluster, binary, number};

const MANUAL: &str = include_str!("../../../../docs/operate/cluster-recover.md");
/// How often leadership moves to another server and back.
const N_THERE_AND_BACK: usize = 4;
/// How much longer a sync takes on a slow disk.
const SYNC_TAKES: Duration = Duration::from_millis(150);

/// Longer than etcd keeps the leader key of a server that is gone.
const A_WHILE: Duration = Duration::from_millis(3500);

/// A fault in a cluster of three servers and three etcd members.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    LeaderKilled,
    LeaderStopped,
    /// The leader and etcd cannot reach each other.
    LeaderCutFromEtcd,
    /// Messages from the leader to etcd are lost; messages from etcd arrive.
    LeaderNotHeardByEtcd,
    /// Messages from etcd to the leader are lost; messages from the leader arrive.
    EtcdNotHeardByLeader,
    /// The leader and the followers cannot reach each other. etcd can reach all of them.
    LeaderCutFromPeers,
    EtcdLeaderKilled,
    EtcdLeaderStopped,
    EtcdLeaderMoved,
    /// Two of three etcd members are gone for a while.
    QuorumLost,
    /// The servers are restarted one after the other.
    RollingRestart,
    /// A follower is stopped while etcd compacts revisions that it has not read yet.
    FollowerLeftBehind,
    /// Every sync of etcd is slow.
    SlowDisk,
    /// Another application fills etcd up to its quota, and an operator frees the space.
    NoSpace,
    /// Another server becomes leader, and then the first again, before the etcd lease of the first term would have
    /// ended. Each time, the leader is cut off from etcd and its leader key is deleted.
    ThereAndBack,
    /// An operator makes the leader step down.
    LeaderStepsDown,
    /// The leader and the followers cannot reach each other until another server leads.
    LeaderUnreachable,
    /// The leader and etcd cannot reach each other until [`Fault::mend`]. Another server leads.
    LeaderCutOff,
    /// The leader is stopped until [`Fault::mend`]. Another server leads.
    LeaderHangs,
}

impl Fault {
    /// Faults that do not need a separate host for each process.
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
    /// Faults of the network.
    pub(super) const CUTS: [Self; 5] = [
        Self::LeaderCutFromEtcd,
        Self::LeaderNotHeardByEtcd,
        Self::LeaderCutFromPeers,
        Self::EtcdNotHeardByLeader,
        Self::ThereAndBack,
    ];

    /// Causes the fault and ends it. If the leader was killed, returns how long it took until another server led.
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
            Self::LeaderCutOff => cut_off(cluster, leader).await,
            Self::LeaderHangs => hang(cluster, leader).await,
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

    /// Ends a fault that lasts. `leader` is the server that led before.
    pub(super) fn mend(self, cluster: &Cluster, leader: usize) {
        match self {
            Self::LeaderCutOff => {
                on_links(cluster, leader, Direction::Both, Whom::Etcd, Host::reaches);
            }
            Self::LeaderHangs => {
                cluster.servers[leader].as_ref().expect("it is stopped").signal(Signal::CONT);
            }
            _ => {}
        }
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

/// Returns how long quorum is lost. `QUORUM_LOST_S=30` makes it longer than every timeout.
fn quorum_lost_for() -> Duration {
    number("QUORUM_LOST_S").map_or(A_WHILE, Duration::from_secs)
}

/// Stops a server for a while, and does something else before the server continues.
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

/// Loses the packets that the host of a server sends, receives, or both, for a while.
async fn cut(cluster: &Cluster, n: usize, direction: Direction, whom: Whom) {
    on_links(cluster, n, direction, whom, Host::loses);
    tokio::time::sleep(A_WHILE).await;
    on_links(cluster, n, direction, whom, Host::reaches);
}

/// Cuts a leader off from etcd, and returns once another server leads.
async fn cut_off(cluster: &Cluster, leader: usize) {
    on_links(cluster, leader, Direction::Both, Whom::Etcd, Host::loses);
    cluster.leader(Some(leader)).await;
}

async fn hang(cluster: &Cluster, leader: usize) {
    cluster.servers[leader].as_ref().expect("it leads").signal(Signal::STOP);
    cluster.leader(Some(leader)).await;
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
        // The former leader follows the new one, so that it could lead again.
        cluster.which_is("/readyz", &[from]).await;
    }
    println!("there and back {N_THERE_AND_BACK} times within {:?}", began.elapsed());
    bystander.signal(Signal::CONT);
}

/// Frees space in etcd with the commands of the manual.
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
