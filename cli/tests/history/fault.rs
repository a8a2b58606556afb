//! What happens to a cluster, and how it is over again.

use std::time::Duration;

use leasehold_testkit::{Host, Signal};

use super::World;
use super::cluster::Cluster;

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
}

impl Fault {
    /// Those that take no host of one's own.
    pub(super) const ANYWHERE: [Self; 8] = [
        Self::LeaderKilled,
        Self::EtcdLeaderKilled,
        Self::LeaderStopped,
        Self::EtcdLeaderStopped,
        Self::RollingRestart,
        Self::EtcdLeaderMoved,
        Self::FollowerLeftBehind,
        Self::QuorumLost,
    ];
    /// Those of the network.
    pub(super) const CUTS: [Self; 4] = [
        Self::LeaderCutFromEtcd,
        Self::LeaderNotHeardByEtcd,
        Self::LeaderCutFromPeers,
        Self::EtcdNotHeardByLeader,
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
            Self::RollingRestart => {
                for n in 0..cluster.servers.len() {
                    assert!(cluster.servers[n].take().expect("a server").terminate().success());
                    *world.servers.write().unwrap() = cluster.clients();
                    cluster.servers[n] = Some(cluster.serve(n));
                    *world.servers.write().unwrap() = cluster.clients();
                    cluster.leader(None).await;
                }
            }
        }
        None
    }
}

/// `QUORUM_LOST_S=30` loses it for longer than all that anybody waits for.
fn quorum_lost_for() -> Duration {
    let seconds = std::env::var("QUORUM_LOST_S").ok().and_then(|seconds| seconds.parse().ok());
    seconds.map_or(A_WHILE, Duration::from_secs)
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
    let host = cluster.host_of(n).expect("hosts of their own");
    let n_members = cluster.hosts.len() - cluster.servers.len();
    let others: Vec<&Host> = match whom {
        Whom::Etcd => cluster.hosts[..n_members].iter().collect(),
        Whom::Servers => cluster.hosts[n_members..]
            .iter()
            .filter(|other| other.address != host.address)
            .collect(),
    };
    let each = |act: fn(&Host, &Host)| {
        for other in &others {
            if direction != Direction::To {
                act(host, other);
            }
            if direction != Direction::From {
                act(other, host);
            }
        }
    };
    each(Host::loses);
    tokio::time::sleep(A_WHILE).await;
    each(Host::reaches);
}
