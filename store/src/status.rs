//! The servers that share a store, as their keys in etcd tell of them.

use serde::{Deserialize, Serialize};

use crate::Obstacle;

/// How everything is.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Which store it is.
    pub store: String,
    /// Which generation of it.
    pub generation: u64,
    /// The format of everything in it.
    pub format: u32,
    /// The last record.
    pub head: u64,
    /// The last record that is in the snapshot; 0: there is none.
    pub snapshot: u64,
    /// Who leads.
    pub leader: Option<Leads>,
    /// The servers that are there.
    pub nodes: Vec<Node>,
    /// Nobody takes the lead.
    pub paused: bool,
    /// Servers that must not lead: `drain`, `step-down`, or `handed-over`.
    pub drained: Vec<(String, String)>,
    /// etcd was put back to an earlier state: nobody leads.
    pub rewound: bool,
    /// Where the store has moved to.
    pub moved_to: Option<String>,
    /// Keys whose values no server wrote.
    pub unreadable: Vec<Unreadable>,
    /// The members of etcd.
    pub etcd: Vec<Member>,
}

/// Who leads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Leads {
    /// The name of the node.
    pub node: String,
    /// Where clients reach it.
    pub address: String,
    /// What it runs.
    pub version: String,
}

/// One of the servers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    #[serde(default)]
    pub node: String,
    /// Where clients reach it.
    pub address: String,
    /// What it runs.
    pub version: String,
    /// The formats it can read.
    pub formats: Vec<u32>,
    /// The last record it has read or written, as it said lately.
    pub seq: u64,
    /// For how many seconds it has not read everything there was, as it said lately; `None`: versions before 0.2 do
    /// not say.
    #[serde(default)]
    pub behind_s: Option<u64>,
    /// The leader, if this server cannot reach it.
    #[serde(default)]
    pub unreached: Option<Unreached>,
}

/// A leader that a server cannot reach.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unreached {
    /// Its name.
    pub leader: String,
    /// Why.
    pub why: Obstacle,
}

/// A key whose value no server wrote.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Unreadable {
    /// The key.
    pub key: String,
    /// What is wrong with its value.
    pub why: String,
    /// What an operator can do about it.
    pub remedy: String,
}

/// A member of etcd.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Member {
    /// Where it is: HOST:PORT.
    pub endpoint: String,
    /// What it runs; empty: it does not answer.
    pub version: String,
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes of it that are in use.
    pub bytes_in_use: u64,
    /// Its own alarms. Each member tells those of all.
    pub alarms: Vec<String>,
    /// Why it does not answer.
    pub error: Option<String>,
}

impl Status {
    /// Does this server lead?
    pub fn is_leader(&self, node: &str) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.node == node)
    }

    /// Why this server must not lead: `drain` or `step-down` by an operator; `handed-over` if the others could not
    /// reach it.
    pub fn drained(&self, node: &str) -> Option<&str> {
        let found = self.drained.iter().find(|(name, _)| name == node);
        found.map(|(_, how)| how.as_str())
    }

    /// Is nobody there but this server who could lead?
    pub fn is_alone(&self, node: &str) -> bool {
        let may_lead = |other: &Node| other.node != node && self.drained(&other.node).is_none();
        !self.nodes.iter().any(may_lead)
    }

    /// How many records a server has not read yet. What it has read it says now and then only, so one that says it
    /// has read everything has.
    pub fn records_behind(&self, node: &Node) -> u64 {
        match self.seconds_behind(node) {
            Some(0) => 0,
            _ => self.head.saturating_sub(node.seq),
        }
    }

    /// For how many seconds a server has not read everything there was, if it says so.
    pub fn seconds_behind(&self, node: &Node) -> Option<u64> {
        if self.is_leader(&node.node) { Some(0) } else { node.behind_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n1` leads, `n2` and `n3` follow.
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
            etcd: Vec::new(),
        }
    }

    #[test]
    fn how_far_behind_a_server_is_depends_on_what_it_says() {
        let status = three();
        let behind = |node: &Node| (status.records_behind(node), status.seconds_behind(node));
        let [leads, follows, lags] = status.nodes.as_slice() else { panic!("three") };
        assert_eq!(behind(leads), (0, Some(0)), "nobody is ahead of who leads");
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
