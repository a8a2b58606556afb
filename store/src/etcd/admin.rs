//! Operator actions on a cluster, carried out through keys in etcd.

use std::sync::Arc;

use leasehold_etcd::{KeyValue, Kind, Op, StatusResponse, Txn, TxnResponse, When};
use serde::de::DeserializeOwned;

use super::cluster::Cluster;
use super::keys::Keys;
use super::snapshot::Manifest;
use super::value::{self, Drained, FORMAT, HeadValue, Id, LeaderValue};
use super::{guard, init, space};
use crate::Error;
use crate::status::{Leads, Member, Node, Status, Unreadable};

/// How long a server that steps down does not lead again, in seconds, so that another server takes over.
const STEP_DOWN_TTL: i64 = 10;

/// The index of each result in the response to `read`.
const ID: usize = 0;
const HEAD: usize = 1;
const LEADER: usize = 2;
const MANIFEST: usize = 3;
const NODES: usize = 4;
const PAUSE: usize = 5;
const DRAINS: usize = 6;
const REWOUND: usize = 7;
const CLOSED: usize = 8;

/// A store in etcd, with the operations that an operator needs.
pub struct Operator {
    cluster: Arc<dyn Cluster>,
    keys: Keys,
}

impl Operator {
    /// Returns the store under this prefix.
    pub fn new(cluster: impl Cluster + 'static, prefix: &str) -> Self {
        Self::sharing(Arc::new(cluster), prefix)
    }

    /// Returns the store under this prefix, over connections that are shared with other code.
    pub fn sharing(cluster: Arc<dyn Cluster>, prefix: &str) -> Self {
        Self { cluster, keys: Keys::new(prefix) }
    }

    /// Reads the status of the cluster: the keys at one revision, and each etcd member.
    pub fn status(&self) -> Result<Status, Error> {
        let answer = self.read().map_err(|silent| self.with_members(&silent))?;
        Ok(Status { etcd: self.members(), ..self.seen(&answer)? })
    }

    /// Reads the status without the etcd members. Keys that cannot be read are listed as unreadable.
    pub fn look(&self) -> Result<Status, Error> {
        self.seen(&self.read()?)
    }

    fn seen(&self, answer: &TxnResponse) -> Result<Status, Error> {
        let keys = &self.keys;
        let id = self.id(answer)?;
        let mut unreadable = Vec::new();
        let head: Option<HeadValue> = self.readable(answer.found(HEAD), &mut unreadable);
        let manifest: Option<Manifest> = self.readable(answer.found(MANIFEST), &mut unreadable);
        let leader: Option<LeaderValue> = self.readable(answer.found(LEADER), &mut unreadable);
        let node = |found: &KeyValue| {
            let said: Node = self.readable(Some(found), &mut unreadable)?;
            Some(Node { node: self.name_in(found), ..said })
        };
        let nodes = answer.found_all(NODES).iter().filter_map(node).collect();
        let drained = |found: &KeyValue| {
            let node = keys.name_under("drain", &found.key).unwrap_or_default();
            (node.to_owned(), String::from_utf8_lossy(&found.value).into_owned())
        };
        Ok(Status {
            store: id.store,
            generation: id.generation,
            format: id.format,
            head: head.map_or(0, |head| head.seq),
            snapshot: manifest.map_or(0, |manifest| manifest.through.seq),
            leader: leader.map(|LeaderValue { node, address, version, .. }| Leads {
                node,
                address,
                version,
            }),
            nodes,
            paused: answer.found(PAUSE).is_some(),
            drained: answer.found_all(DRAINS).iter().map(drained).collect(),
            rewound: answer.found(REWOUND).is_some(),
            moved_to: answer.found(CLOSED).map(value::moved_to),
            unreadable,
            etcd: Vec::new(),
        })
    }

    /// Deletes a leader key without an etcd lease, because no server keeps it and no server can lead while it exists.
    /// Returns whether there was such a key.
    pub fn clear_seat(&self) -> Result<bool, Error> {
        let key = self.keys.leader();
        let answer = self.send(Txn::default().then(Op::Get(key.clone())))?;
        let Some(found) = answer.found(0).filter(|found| found.lease == 0) else {
            return Ok(false);
        };
        let txn = Txn::default().when(key.clone(), When::PutAt(found.mod_revision));
        self.send(txn.then(Op::Delete(key))).map(|answer| answer.succeeded)
    }

    /// Makes the leader step down and not lead again for a while. Returns its name.
    pub fn step_down(&self) -> Result<String, Error> {
        let leader = self.look()?.leader;
        let leader = leader.ok_or_else(|| Error::Refused("the cluster has no leader".into()))?;
        let lease = self.cluster.lease_grant(STEP_DOWN_TTL).map_err(unreachable)?.id;
        self.put(self.keys.drain(&leader.node), Drained::OfLeading.word(), lease)?;
        Ok(leader.node)
    }

    /// Drains a server: until it is resumed, it does not lead and accepts no new connections.
    pub fn drain(&self, node: &str) -> Result<(), Error> {
        self.check_known(node, &self.look()?)?;
        self.put(self.keys.drain(node), Drained::Wholly.word(), 0)
    }

    /// Pauses leader changes: from now on no server takes over. The current leader continues.
    pub fn pause(&self) -> Result<(), Error> {
        self.look()?;
        self.put(self.keys.pause(), "paused", 0)
    }

    /// Undoes a pause, or the drain of one server. Returns whether there was anything to undo.
    pub fn resume(&self, node: Option<&str>) -> Result<bool, Error> {
        let status = self.look()?;
        if let Some(node) = node {
            self.check_known(node, &status)?;
        }
        let key = node.map_or_else(|| self.keys.pause(), |node| self.keys.drain(node));
        let txn = Txn::default().then(Op::Get(key.clone())).then(Op::Delete(key));
        Ok(self.send(txn)?.found(0).is_some())
    }

    /// Forgets a server that will not come back. Its name can be reused immediately, and other servers do not wait for
    /// it.
    pub fn forget(&self, node: &str) -> Result<(), Error> {
        let status = self.look()?;
        if status.is_leader(node) {
            return Err(Error::Refused(format!("{node} is the leader; stop it first")));
        }
        self.check_known(node, &status)?;
        let txn = Txn::default();
        let txn = txn.then(Op::Delete(self.keys.node(node)));
        self.send(txn.then(Op::Delete(self.keys.drain(node)))).map(drop)
    }

    /// Switches the store to the newest format, if every registered server can read it. From then on, versions that
    /// cannot read it neither lead nor follow. Returns the old and the new format.
    pub fn finish_upgrade(&self) -> Result<(u32, u32), Error> {
        let answer = self.read()?;
        let id = self.id(&answer)?;
        init::check_format(&self.keys, &id)?;
        if id.format == FORMAT {
            return Ok((FORMAT, FORMAT));
        }
        let nodes = self.nodes(&answer)?;
        let leads = decoded::<LeaderValue>(answer.found(LEADER))?.map(|leader| leader.node);
        if let Some(leads) = leads.filter(|leads| !nodes.iter().any(|node| node.node == *leads)) {
            return Err(Error::Refused(format!(
                "the leader {leads} does not report which formats it can read; wait a moment, or upgrade it"
            )));
        }
        let old = nodes.iter().filter(|node| !node.formats.contains(&FORMAT));
        let old: Vec<_> =
            old.map(|node| format!("{} (version {})", node.node, node.version)).collect();
        if !old.is_empty() {
            return Err(Error::Refused(format!(
                "{} cannot read format {FORMAT}; upgrade all servers first, or remove those that will not return \
                 (leasehold cluster forget-node)",
                old.join(", ")
            )));
        }
        // The conditions make sure that no other server has taken over since the nodes were read, and that no restore
        // has happened.
        let leader = answer.found(LEADER).ok_or_else(|| {
            Error::Refused("the cluster has no leader; start the servers first".into())
        })?;
        let from = id.format;
        let bytes = value::encode(&Id { format: FORMAT, ..id });
        let before = answer.found(ID).map(|found| found.value.clone()).unwrap_or_default();
        let txn = Txn::default()
            .when(self.keys.id(), When::Is(&before))
            .when(self.keys.leader(), When::CreatedAt(leader.create_revision))
            .when(self.keys.leader(), When::Is(&leader.value))
            .then(Op::Put(self.keys.id(), bytes.clone(), 0));
        let put = guard::put_once(&*self.cluster, txn, (self.keys.id(), &bytes));
        let changed =
            || Error::Refused("the leader changed during the operation; try again".into());
        put.map_err(unreachable)?.map(|_| (from, FORMAT)).ok_or_else(changed)
    }

    fn read(&self) -> Result<TxnResponse, Error> {
        let keys = &self.keys;
        let range = |(first, end): super::keys::Range| Op::GetRange(first, end, 0);
        let txn = Txn::default()
            .then(Op::Get(keys.id()))
            .then(Op::Get(keys.head()))
            .then(Op::Get(keys.leader()))
            .then(Op::Get(keys.manifest()))
            .then(range(keys.nodes()))
            .then(Op::Get(keys.pause()))
            .then(range(keys.drains()))
            .then(Op::Get(keys.rewound()))
            .then(Op::Get(keys.closed()));
        self.send(txn)
    }

    fn id(&self, answer: &TxnResponse) -> Result<Id, Error> {
        let found = answer.found(ID).ok_or_else(|| init::missing(&self.keys))?;
        init::read(&self.keys, found).map_err(Error::Refused)
    }

    fn nodes(&self, answer: &TxnResponse) -> Result<Vec<Node>, Error> {
        let node = |found: &KeyValue| {
            let said: Node = value::decode(&found.key, &found.value).map_err(Error::Refused)?;
            Ok(Node { node: self.name_in(found), ..said })
        };
        answer.found_all(NODES).iter().map(node).collect()
    }

    /// Returns the name of the server that this key belongs to.
    fn name_in(&self, found: &KeyValue) -> String {
        self.keys.name_under("node", &found.key).unwrap_or_default().to_owned()
    }

    /// Decodes a value. If no server can have written it, adds it to `unreadable` and returns `None`.
    fn readable<T: DeserializeOwned>(
        &self,
        found: Option<&KeyValue>,
        unreadable: &mut Vec<Unreadable>,
    ) -> Option<T> {
        let found = found?;
        let is_seat = found.key == self.keys.leader();
        let why = match serde_json::from_slice(&found.value) {
            Ok(_) if is_seat && found.lease == 0 => "it has no lease: no server renews it".into(),
            Ok(read) => return Some(read),
            Err(error) => error.to_string(),
        };
        let remedy = match self.keys.name_under("node", &found.key) {
            Some(node) => format!("leasehold cluster forget-node {node} deletes it"),
            None if is_seat && found.lease == 0 => {
                "no server can lead while it exists; leasehold cluster step-down deletes it".into()
            }
            None if is_seat => "it disappears when the server that renews it ends".into(),
            None => "restore a backup: leasehold restore BACKUP --store ...".into(),
        };
        let key = String::from_utf8_lossy(&found.key).into_owned();
        unreadable.push(Unreadable { key, why, remedy });
        None
    }

    /// Fails if no server of this name is known.
    fn check_known(&self, node: &str, status: &Status) -> Result<(), Error> {
        let key = self.keys.node(node);
        let is_known = status.is_leader(node)
            || status.nodes.iter().any(|known| known.node == node)
            || status.drained(node).is_some()
            || status.unreadable.iter().any(|found| found.key.as_bytes() == key);
        if is_known { Ok(()) } else { Err(unknown(node, status)) }
    }

    fn members(&self) -> Vec<Member> {
        let answers = self.cluster.status();
        let mut alarms = space::alarms(&answers).into_iter();
        let mut endpoints = self.cluster.endpoints().into_iter();
        let member = |answer: Result<StatusResponse, leasehold_etcd::Error>| {
            let endpoint = endpoints.next().unwrap_or_default();
            let alarms = alarms.next().unwrap_or_default();
            match answer {
                Err(error) => {
                    Member { endpoint, error: Some(error.to_string()), ..Member::default() }
                }
                Ok(status) => Member {
                    endpoint,
                    version: status.version,
                    bytes: u64::try_from(status.db_size).unwrap_or(0),
                    bytes_in_use: u64::try_from(status.db_size_in_use).unwrap_or(0),
                    alarms,
                    error: None,
                },
            }
        };
        answers.into_iter().map(member).collect()
    }

    /// Adds the state of each etcd member to an error.
    fn with_members(&self, silent: &Error) -> Error {
        let answers = self.cluster.endpoints().into_iter().zip(self.cluster.status());
        let said = answers.map(|(endpoint, answer)| match answer {
            Ok(status) if status.leader == 0 => {
                format!("{endpoint} responds but has no leader: too few members are available")
            }
            Ok(_) => format!("{endpoint} answers"),
            Err(error) if error.kind == Kind::Denied => {
                format!("{endpoint} rejects the credentials")
            }
            Err(_) => format!("{endpoint} does not respond"),
        });
        let said: Vec<_> = said.collect();
        Error::Refused(format!("{silent}. The etcd members: {}", said.join("; ")))
    }

    fn put(&self, key: Vec<u8>, word: &str, lease: i64) -> Result<(), Error> {
        self.send(Txn::default().then(Op::Put(key, word.into(), lease))).map(drop)
    }

    /// Sends a transaction, to each member if necessary. Sending it twice has the same effect as once.
    fn send(&self, txn: Txn) -> Result<TxnResponse, Error> {
        let request = txn.request();
        let mut n_tries_left = self.cluster.n_members();
        loop {
            n_tries_left = n_tries_left.saturating_sub(1);
            match self.cluster.txn(request.clone()) {
                Ok(answer) => return Ok(answer),
                Err(error) if n_tries_left == 0 => return Err(unreachable(error)),
                Err(_) => {}
            }
        }
    }
}

fn decoded<T: DeserializeOwned>(found: Option<&KeyValue>) -> Result<Option<T>, Error> {
    let decoded = found.map(|found| value::decode(&found.key, &found.value));
    decoded.transpose().map_err(Error::Refused)
}

fn unreachable(error: leasehold_etcd::Error) -> Error {
    Error::Refused(error.to_string())
}

fn unknown(node: &str, status: &Status) -> Error {
    let known: Vec<_> = status.nodes.iter().map(|known| known.node.as_str()).collect();
    Error::Refused(format!("no server is named {node:?}; servers: {}", known.join(", ")))
}
