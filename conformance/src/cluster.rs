//! Two real servers that share a store in a real etcd, each behind a link.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Etcd, Method};
use serde_json::Value;

use crate::flaw::{Outcome, broken, demand};
use crate::link::Link;
use crate::seen::Log;
use crate::server::Server;

/// Most of it is what etcd waits for one who is gone.
const FAIL_OVER_MAX: Duration = Duration::from_secs(15);

/// What only the one that leads answers with 200.
const LEADS: &str = "/readyz";

/// Two servers, one store. All of it is gone when dropped.
pub struct Cluster {
    /// The servers.
    pub servers: [Server; 2],
    /// The ways to them.
    pub links: [Link; 2],
    _etcd: Etcd,
}

impl Cluster {
    /// All of it, started, with a leader.
    pub async fn start(binary: &Path, log: &Log) -> Outcome<Self> {
        let own = binary.to_owned();
        let made = tokio::task::spawn_blocking(move || {
            let etcd = Etcd::start();
            let store = etcd.url("conformance");
            let init = Command::new(own).args(["init", "--store", &store]).output();
            (etcd, store, init)
        });
        let (etcd, store, init) = made.await.map_err(broken)?;
        let init = init.map_err(broken)?;
        demand!(init.status.success(), "no store: {}", String::from_utf8_lossy(&init.stderr));
        let serve = |n: usize| {
            let flags = vec![format!("--store={store}"), format!("--node-name=n{n}")];
            Server::start_with(binary.to_owned(), flags)
        };
        let servers = [serve(0).await?, serve(1).await?];
        let link = |n: usize| Link::open(n, servers[n].upstream(), log.clone());
        let links = [link(0).await.map_err(broken)?, link(1).await.map_err(broken)?];
        let cluster = Self { servers, links, _etcd: etcd };
        cluster.leader().await?;
        Ok(cluster)
    }

    /// Which of them leads, once one does.
    pub async fn leader(&self) -> Outcome<usize> {
        let give_up_at = Instant::now() + FAIL_OVER_MAX;
        loop {
            for (n, server) in self.servers.iter().enumerate() {
                let asked = server.ask(Method::GET, LEADS, Value::Null).await;
                if asked.is_ok_and(|answer| answer.status == 200) {
                    return Ok(n);
                }
            }
            demand!(Instant::now() < give_up_at, "nobody leads within {FAIL_OVER_MAX:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
