//! The servers of a cluster, for display: those registered in the store, and those that were there recently.
//!
//! Nothing is decided by it. It is read from the store every few seconds, and whenever it is displayed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::metrics::Metrics;
use leasehold_store::Error;
use leasehold_store::status::{Node, Status};

/// How often the store is read while no page displays the servers, so that a server that is gone is remembered.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// However many pages display the servers, the store is not read again before this time has passed.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How long a server that left is remembered.
const GONE_FOR_MAX: Duration = Duration::from_secs(3600);
/// Maximum number of remembered servers, present or gone.
const HEARD_MAX: usize = 64;

/// Reads the store. It blocks.
type Look = Box<dyn Fn() -> Result<Status, Error> + Send + Sync>;

/// The known servers.
pub(crate) struct Roster {
    look: Look,
    known: Mutex<RosterState>,
}

/// The current list.
#[derive(Clone)]
pub(crate) struct Seen {
    /// The status, or why the store does not respond.
    pub(crate) status: Result<Arc<Status>, String>,
    /// The servers, by name.
    pub(crate) servers: Vec<Heard>,
}

/// A server of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// The server as it last described itself.
    pub(crate) node: Node,
    /// When the store last had its entry, which lasts for 5 seconds after the server.
    pub(crate) at: Instant,
    /// Whether its key is in etcd now.
    pub(crate) is_there: bool,
}

#[derive(Default)]
struct RosterState {
    looked_at: Option<Instant>,
    status: Option<Result<Arc<Status>, String>>,
    heard: BTreeMap<String, Heard>,
}

impl Roster {
    pub(crate) fn new(
        look: impl Fn() -> Result<Status, Error> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { look: Box::new(look), known: Mutex::default() })
    }

    /// Returns the current list, at most a second old.
    pub(crate) async fn now(self: &Arc<Self>) -> Seen {
        let mut known = self.known.lock().await;
        if known.looked_at.is_none_or(|at| at.elapsed() >= FRESH_FOR) {
            let roster = self.clone();
            let found = tokio::task::spawn_blocking(move || (roster.look)()).await;
            let lost = |_| Err(Error::Refused("the store could not be read".into()));
            known.found(found.unwrap_or_else(lost), Instant::now());
        }
        known.seen()
    }

    /// Reads the list periodically. Never returns.
    pub(crate) async fn keep_up(self: Arc<Self>, metrics: Arc<Metrics>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Ok(status) = self.now().await.status {
                metrics.engine.cluster.has_nodes(status.nodes.len());
            }
        }
    }
}

impl RosterState {
    fn found(&mut self, found: Result<Status, Error>, now: Instant) {
        self.looked_at = Some(now);
        self.heard.values_mut().for_each(|heard| heard.is_there = false);
        if let Ok(status) = &found {
            for node in &status.nodes {
                let heard = Heard { node: node.clone(), at: now, is_there: true };
                self.heard.insert(node.node.clone(), heard);
            }
        }
        self.heard.retain(|_, heard| now.duration_since(heard.at) < GONE_FOR_MAX);
        while self.heard.len() > HEARD_MAX
            && let Some(first) = self.heard.values().min_by_key(|heard| heard.at)
        {
            let name = first.node.node.clone();
            self.heard.remove(&name);
        }
        self.status = Some(found.map(Arc::new).map_err(|error| error.to_string()));
    }

    fn seen(&self) -> Seen {
        let nothing = || Err("the store was not read yet".into());
        let status = self.status.clone().unwrap_or_else(nothing);
        Seen { status, servers: self.heard.values().cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    /// A cluster of three nodes without a leader.
    fn three() -> Status {
        let node = |name: &str| Node {
            node: name.into(),
            address: format!("http://{name}:8080"),
            version: "0.2.0".into(),
            formats: vec![1],
            seq: 99,
            behind_s: None,
            unreached: None,
        };
        Status {
            store: "s".into(),
            generation: 7,
            format: 1,
            head: 100,
            snapshot: 50,
            leader: None,
            nodes: ["n1", "n2", "n3"].map(node).to_vec(),
            paused: false,
            drained: Vec::new(),
            rewound: false,
            moved_to: None,
            unreadable: Vec::new(),
            members: Vec::new(),
        }
    }

    fn names(known: &RosterState) -> Vec<(String, bool)> {
        let servers = known.seen().servers;
        servers.into_iter().map(|heard| (heard.node.node, heard.is_there)).collect()
    }

    #[test]
    fn a_server_that_is_gone_is_remembered_for_a_while() {
        let mut known = RosterState::default();
        let begin = Instant::now();
        known.found(Ok(three()), begin);
        assert!(names(&known).iter().all(|(_, is_there)| *is_there));
        let mut two = three();
        two.nodes.remove(0);
        let later = begin + Duration::from_secs(60);
        known.found(Ok(two.clone()), later);
        let gone = &known.seen().servers[0];
        assert_eq!((gone.node.node.as_str(), gone.is_there, gone.at), ("n1", false, begin));
        known.found(Err(Error::Refused("no answer".into())), later);
        assert!(names(&known).iter().all(|(_, is_there)| !is_there), "none is present");
        assert_eq!(known.seen().status.expect_err("no answer"), "no answer");
        known.found(Ok(two), begin + GONE_FOR_MAX);
        assert_eq!(names(&known), [("n2".to_owned(), true), ("n3".to_owned(), true)]);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let (mut known, begin) = (RosterState::default(), Instant::now());
        for n in 0..HEARD_MAX as u64 + 10 {
            let mut status = three();
            status.nodes.truncate(1);
            status.nodes[0].node = format!("m{n}");
            known.found(Ok(status), begin + Duration::from_secs(n));
        }
        assert_eq!(known.heard.len(), HEARD_MAX);
        assert!(!known.heard.contains_key("m0") && known.heard.contains_key("m73"));
    }

    #[tokio::test]
    async fn however_many_look_the_store_is_asked_once() {
        let n_looks = Arc::new(AtomicUsize::new(0));
        let counted = n_looks.clone();
        let roster = Roster::new(move || {
            counted.fetch_add(1, Relaxed);
            Ok(three())
        });
        let looks: Vec<_> = (0..20).map(|_| roster.now()).collect();
        for look in looks {
            assert_eq!(look.await.servers.len(), 3);
        }
        assert_eq!(n_looks.load(Relaxed), 1);
    }
}
