//! The status of a cluster, as the entries in its store describe it.

use serde::{Deserialize, Serialize};

use crate::Obstacle;

/// The status of a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// The id of the store.
    pub store: String,
    /// The generation of the store.
    pub generation: u64,
    /// The format of all keys and values.
    pub format: u32,
    /// The number of the last record.
    pub head: u64,
    /// The last record in the snapshot, or 0 if there is no snapshot.
    pub snapshot: u64,
    /// The leader, if there is one.
    pub leader: Option<Leads>,
    /// The servers that are running.
    pub nodes: Vec<Node>,
    /// Whether leader changes are paused.
    pub paused: bool,
    /// Servers that must not lead: `drain`, `step-down`, or `handed-over`.
    pub drained: Vec<(String, String)>,
    /// Whether the store was rolled back to an earlier state, so that no server leads.
    pub rewound: bool,
    /// Where the store has moved to, if it has.
    pub moved_to: Option<String>,
    /// Keys whose values cannot have been written by a server.
    pub unreadable: Vec<Unreadable>,
    /// The members of the system that keeps the store. In JSON they are named after the only such system so far.
    #[serde(rename = "etcd")]
    pub members: Vec<Member>,
}

/// The leader.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Leads {
    /// The name of the node.
    pub node: String,
    /// The URL at which clients reach it.
    pub address: String,
    /// The version of the server.
    pub version: String,
}

/// One of the servers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// The name of the node.
    #[serde(default)]
    pub node: String,
    /// The URL at which clients reach it.
    pub address: String,
    /// The version of the server.
    pub version: String,
    /// The formats it can read.
    pub formats: Vec<u32>,
    /// The last record it has read or written, according to its key, which is updated only from time to time.
    pub seq: u64,
    /// For how many seconds it has not been up to date, according to its key. `None` for versions before 0.2, which do
    /// not report it.
    #[serde(default)]
    pub behind_s: Option<u64>,
    /// The leader, if this server cannot reach it.
    #[serde(default)]
    pub unreached: Option<Unreached>,
}

/// A leader that a server cannot reach.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreached {
    /// The name of the leader's node.
    pub leader: String,
    /// The reason.
    pub why: Obstacle,
}

/// A key whose value cannot have been written by a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unreadable {
    /// The key.
    pub key: String,
    /// What is wrong with its value.
    pub why: String,
    /// What an operator can do about it.
    pub remedy: String,
}

/// A member of the system that keeps a shared store.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Member {
    /// The address of the member: HOST:PORT.
    pub endpoint: String,
    /// The version of the system. Empty if the member does not respond.
    pub version: String,
    /// The size of its database file, in bytes.
    pub bytes: u64,
    /// The bytes of the file that are in use.
    pub bytes_in_use: u64,
    /// The alarms of this member.
    pub alarms: Vec<String>,
    /// Why the member does not respond, if it does not.
    pub error: Option<String>,
}

impl Status {
    /// Returns whether this server leads.
    pub fn is_leader(&self, node: &str) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.node == node)
    }

    /// Returns why this server must not lead: `drain` or `step-down` by an operator, or `handed-over` if the other
    /// servers could not reach it.
    pub fn drained(&self, node: &str) -> Option<&str> {
        let found = self.drained.iter().find(|(name, _)| name == node);
        found.map(|(_, how)| how.as_str())
    }

    /// Returns whether no other server could lead.
    pub fn is_alone(&self, node: &str) -> bool {
        let may_lead = |other: &Node| other.node != node && self.drained(&other.node).is_none();
        !self.nodes.iter().any(may_lead)
    }

    /// Returns how many records a server has not read yet. A server that reports to be up to date counts as such,
    /// because its position in `seq` might be outdated.
    pub fn records_behind(&self, node: &Node) -> u64 {
        match self.seconds_behind(node) {
            Some(0) => 0,
            _ => self.head.saturating_sub(node.seq),
        }
    }

    /// Returns for how many seconds a server has not been up to date, if it reports that.
    pub fn seconds_behind(&self, node: &Node) -> Option<u64> {
        if self.is_leader(&node.node) { Some(0) } else { node.behind_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a cluster in which `n1` leads, and `n2` and `n3` follow.
    fn three() -> Status {
        let node = |n: u64, behind_s| Node {
            node: format!("n{n}"),
            address: format!("http://n{n}:8080"),
            version: "0.2.0".into(),
            formats: vec![1],
            seq: 100 - n,
            behind_s,
            unreached: None,
        };
        let leader = Leads { node: "n1".into(), address: "a".into(), version: "0.2.0".into() };
        Status {
            store: "s".into(),
            generation: 7,
            format: 1,
            head: 100,
            snapshot: 50,
            leader: Some(leader),
            nodes: vec![node(1, Some(9)), node(2, Some(0)), node(3, Some(4))],
            paused: false,
            drained: vec![("n2".into(), "drain".into())],
            rewound: false,
            moved_to: None,
            unreadable: Vec::new(),
            members: Vec::new(),
        }
    }

    #[test]
    fn how_far_behind_a_server_is_depends_on_what_it_says() {
        let status = three();
        let behind = |node: &Node| (status.records_behind(node), status.seconds_behind(node));
        let [leads, follows, lags] = status.nodes.as_slice() else { panic!("three") };
        assert_eq!(behind(leads), (0, Some(0)), "no server is ahead of the leader");
        assert_eq!(behind(follows), (0, Some(0)), "it has read everything since it said how far");
        assert_eq!(behind(lags), (3, Some(4)));
        assert_eq!(behind(&Node { behind_s: None, ..follows.clone() }), (2, None), "an old one");
        assert_eq!((status.drained("n2"), status.drained("n1")), (Some("drain"), None));
        assert!(!status.is_alone("n1") && !status.is_alone("n3"));
        let rest = vec![leads.clone(), follows.clone()];
        assert!(Status { nodes: rest, ..status.clone() }.is_alone("n1"), "n2 is drained");
    }

    #[test]
    fn a_server_of_a_version_before_is_read() {
        let old = r#"{"instance":"i","process":"p","address":"a","peer":"","version":"0","formats":[1],"seq":5}"#;
        let node: Node = serde_json::from_str(old).expect("a node");
        assert_eq!((node.seq, node.behind_s), (5, None));
    }
}
