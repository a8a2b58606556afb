//! Three real servers that share a store in a real etcd, each behind a link. All drivers use the same cluster at the
//! same time, so a fault of a leader affects all of them.

mod part;
mod run;
mod turns;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leasehold_testkit::{Etcd, Method};
use serde_json::Value;

use crate::flaw::{Outcome, broken, demand};
use crate::link::Link;
use crate::seen::Log;
use crate::server::{KEEPS_PLACES, Server};

pub use run::{NAMES, run};

const N_SERVERS: usize = 3;

/// The time limit of a leader change. It normally takes the TTL of the leader key, which is 2 s.
const FAIL_OVER_MAX: Duration = Duration::from_secs(60);

/// The time limit of the check whether a server leads.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// The servers and their links. All of it is stopped when this value is dropped.
struct Cluster {
    servers: [Server; N_SERVERS],
    links: [Link; N_SERVERS],
    log: Log,
    start: Instant,
    _etcd: Etcd,
}

impl Cluster {
    /// Starts everything, and waits for a leader.
    async fn start(binary: &Path) -> Outcome<Self> {
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
        let log = Log::default();
        let serve = async |n: usize| {
            let mut server = Server::new(binary.to_owned());
            let link = Link::open(n, server.upstream(), log.clone()).await.map_err(broken)?;
            server.flags = vec![
                format!("--store={store}"),
                format!("--node-name=n{n}"),
                // Makes the followers refer clients to the leader's link, which is the address that the clients use.
                format!("--advertise={}", link.url()),
            ];
            server.flags.extend(KEEPS_PLACES.map(String::from));
            server.start_again().await?;
            Outcome::Ok((server, link))
        };
        let (a, b, c) = tokio::try_join!(serve(0), serve(1), serve(2))?;
        let (servers, links) = ([a.0, b.0, c.0], [a.1, b.1, c.1]);
        let cluster = Self { servers, links, log, start: Instant::now(), _etcd: etcd };
        cluster.leader(&[]).await?;
        Ok(cluster)
    }

    /// Waits until a server that is not in `but` leads, and returns it.
    async fn leader(&self, but: &[usize]) -> Outcome<usize> {
        let give_up_at = Instant::now() + FAIL_OVER_MAX;
        loop {
            for (n, server) in self.servers.iter().enumerate().filter(|(n, _)| !but.contains(n)) {
                let asked = server.ask(Method::GET, "/leaderz", Value::Null);
                let asked = tokio::time::timeout(LOOK_MAX, asked).await;
                if asked.is_ok_and(|asked| asked.is_ok_and(|answer| answer.status == 200)) {
                    return Ok(n);
                }
            }
            demand!(Instant::now() < give_up_at, "no server leads within {FAIL_OVER_MAX:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Kills a server with SIGKILL. From then on, connections to it are refused.
    async fn kill(&self, n: usize) {
        self.servers[n].kill().await;
        self.links[n].refuse();
    }

    /// Returns the URLs, starting with that of this server.
    fn urls_from(&self, first: usize) -> Vec<String> {
        (0..N_SERVERS).map(|n| self.links[(first + n) % N_SERVERS].url()).collect()
    }
}
