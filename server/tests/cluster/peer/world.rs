//! Complete servers in this process that share a store in a real etcd.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use leasehold_server::cluster::{self, Access, Options};
use leasehold_server::dialect::Dialect;
use leasehold_server::serve::{Error, Server, Settings};
use leasehold_testkit::{Client, Etcd, TempDir, Value, folder, settings};

pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

/// An etcd cluster with a store in it.
pub(crate) struct World {
    pub(crate) etcd: Etcd,
    folder: TempDir,
}

/// A server of the cluster.
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
}

impl World {
    pub(crate) async fn new() -> Self {
        let (etcd, folder) = (Etcd::start(), folder());
        let world = Self { etcd, folder };
        let access = world.access();
        let made = tokio::task::spawn_blocking(move || cluster::init(&access));
        made.await.expect("no panic").expect("a new store");
        world
    }

    fn access(&self) -> Access {
        let location = self.etcd.url("test").parse().expect("a location");
        Access { location, ca_file: None, identity_files: None, user: None }
    }

    pub(crate) fn settings(&self, name: &str, data: &str) -> Settings {
        let data = self.folder.path().join(data);
        let cluster = Options {
            access: self.access(),
            node: name.into(),
            advertise: None,
            peer_listen: None,
            peer_secret_file: None,
            lead_without_memory: false,
            never_lead: false,
            compacts: true,
            quota: 2 << 30,
        };
        let shared = settings(Some(&data));
        Settings {
            cluster: Some(cluster),
            dialects: vec![Dialect::Native, Dialect::Redis],
            ..shared
        }
    }

    pub(crate) async fn start(&self, settings: Settings) -> Result<Node, Error> {
        let server = Server::start(settings).await?;
        let address = server.address().expect("it listens");
        Ok(Node { server, client: Client::new(address), address })
    }

    /// Starts a server with this name and its own data directory.
    pub(crate) async fn node(&self, name: &str) -> Node {
        self.start(self.settings(name, name)).await.expect("a start")
    }

    /// Starts a leader and a follower.
    pub(crate) async fn pair(&self) -> (Node, Node) {
        let first = self.node("n1").await;
        first.until("/leaderz", 200).await;
        let second = self.node("n2").await;
        second.until("/readyz", 200).await;
        (first, second)
    }

    /// Returns the JSON value of a key in etcd.
    pub(crate) fn value(&self, key: &str) -> Value {
        let text = self.etcd.ctl(&["get", "--print-value-only", &format!("/test/{key}")]);
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }
}

impl Node {
    /// Waits until a path answers with this status.
    pub(crate) async fn until(&self, path: &str, status: u16) {
        let began = Instant::now();
        while self.client.get(path).await.status != status {
            assert!(began.elapsed() < PATIENCE, "{path} is not {status} in time");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns the number of waiters for a lock.
    pub(crate) async fn n_waiting(&self, lock: &str) -> u64 {
        let seen = self.client.get(&format!("/v1/locks/{lock}")).await;
        seen.get("n_waiting").as_u64().unwrap_or(0)
    }

    pub(crate) async fn until_waiting(&self, lock: &str, n: u64) {
        let began = Instant::now();
        while self.n_waiting(lock).await != n {
            assert!(began.elapsed() < PATIENCE, "not {n} in time");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
