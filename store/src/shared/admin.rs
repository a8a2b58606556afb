//! Operator actions on a cluster, carried out through entries in its store.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::backend::{Backend, BackendFailure, Entries, Entry, LeaderEntry, NodeEntry, Requests};
use super::init;
use super::snapshot::Manifest;
use super::value::{self, Drained, FORMAT, Id, LeaderValue};
use crate::Error;
use crate::status::{Leads, Node, Status, Unreadable};

/// How long a server that steps down does not lead again, in seconds, so that another server takes over.
const STEP_DOWN_TTL: i64 = 10;

/// A shared store, with the operations that an operator needs.
pub struct Operator {
    backend: Arc<dyn Backend>,
}

impl Operator {
    /// Returns the operator of this store.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    /// Reads the status of the cluster: the entries at one moment, and each member of the system that keeps the store.
    pub fn status(&self) -> Result<Status, Error> {
        let entries = self.read().map_err(|silent| self.with_members(&silent))?;
        Ok(Status { members: self.backend.members(), ..self.seen(&entries)? })
    }

    /// Reads the status without the members. Entries that cannot be read are listed as unreadable.
    pub fn look(&self) -> Result<Status, Error> {
        self.seen(&self.read()?)
    }

    fn seen(&self, entries: &Entries) -> Result<Status, Error> {
        let id = self.id(entries)?;
        let mut unreadable = Vec::new();
        let head = entries.head.clone().unwrap_or_else(|why| {
            unreadable.push(self.unreadable(Entry::Head, why));
            None
        });
        let manifest = entries.manifest.as_deref();
        let manifest: Option<Manifest> = self.readable(Entry::Manifest, manifest, &mut unreadable);
        let leader = self.readable_leader(entries.leader.as_ref(), &mut unreadable);
        let Requests { drained, nodes, is_paused } = &entries.requests;
        let node = |NodeEntry { name, value }: &NodeEntry| {
            let said: Node = self.readable(Entry::Node(name), Some(value), &mut unreadable)?;
            Some(Node { node: name.clone(), ..said })
        };
        let nodes = nodes.iter().filter_map(node).collect();
        Ok(Status {
            store: id.store,
            generation: id.generation,
            format: id.format,
            head: head.map_or(0, |head| head.place.seq),
            snapshot: manifest.map_or(0, |manifest| manifest.through.seq),
            leader: leader.map(|LeaderValue { node, address, version, .. }| Leads {
                node,
                address,
                version,
            }),
            nodes,
            paused: *is_paused,
            drained: drained.clone(),
            rewound: entries.rewound.is_some(),
            moved_to: entries.closed.as_deref().map(value::moved_to),
            unreadable,
            members: Vec::new(),
        })
    }

    /// Deletes an entry of a leader without a lease, because no server keeps it and no server can lead while it exists.
    /// Returns whether there was such an entry.
    pub fn clear_seat(&self) -> Result<bool, Error> {
        match self.each(|backend| backend.leader())? {
            Some(found) if !found.is_kept => self.each(|backend| backend.clear_leader(&found)),
            _ => Ok(false),
        }
    }

    /// Makes the leader step down and not lead again for a while. Returns its name.
    pub fn step_down(&self) -> Result<String, Error> {
        let leader = self.look()?.leader;
        let leader = leader.ok_or_else(|| Error::Refused("the cluster has no leader".into()))?;
        let lease = self.backend.grant(STEP_DOWN_TTL).map_err(BackendFailure::refused)?;
        let word = Drained::OfLeading.word();
        self.each(|backend| backend.drain(&leader.node, word, Some(lease), true))?;
        Ok(leader.node)
    }

    /// Drains a server: until it is resumed, it does not lead and accepts no new connections.
    pub fn drain(&self, node: &str) -> Result<(), Error> {
        self.check_known(node, &self.look()?)?;
        self.each(|backend| backend.drain(node, Drained::Wholly.word(), None, true))
    }

    /// Pauses leader changes: from now on no server takes over. The current leader continues.
    pub fn pause(&self) -> Result<(), Error> {
        self.look()?;
        self.each(|backend| backend.pause())
    }

    /// Undoes a pause, or the drain of one server. Returns whether there was anything to undo.
    pub fn resume(&self, node: Option<&str>) -> Result<bool, Error> {
        let status = self.look()?;
        if let Some(node) = node {
            self.check_known(node, &status)?;
        }
        self.each(|backend| backend.withdraw(node))
    }

    /// Forgets a server that will not come back. Its name can be reused immediately, and other servers do not wait for
    /// it.
    pub fn forget(&self, node: &str) -> Result<(), Error> {
        let status = self.look()?;
        if status.is_leader(node) {
            return Err(Error::Refused(format!("{node} is the leader; stop it first")));
        }
        self.check_known(node, &status)?;
        self.each(|backend| backend.forget(node))
    }

    /// Switches the store to the newest format, if every registered server can read it. From then on, versions that
    /// cannot read it neither lead nor follow. Returns the old and the new format.
    pub fn finish_upgrade(&self) -> Result<(u32, u32), Error> {
        let entries = self.read()?;
        let id = self.id(&entries)?;
        init::check_format(&*self.backend, &id)?;
        if id.format == FORMAT {
            return Ok((FORMAT, FORMAT));
        }
        let nodes = self.nodes(&entries)?;
        let leads = self.leader_in(&entries)?.map(|leader| leader.node);
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
        let leader = entries.leader.as_ref().ok_or_else(|| {
            Error::Refused("the cluster has no leader; start the servers first".into())
        })?;
        let from = id.format;
        let bytes = value::encode(&Id { format: FORMAT, ..id });
        let before = entries.id.as_deref().unwrap_or_default();
        let put = self.backend.put_id(&bytes, before, leader);
        if put.map_err(BackendFailure::refused)? {
            return Ok((from, FORMAT));
        }
        Err(Error::Refused("the leader changed during the operation; try again".into()))
    }

    fn read(&self) -> Result<Entries, Error> {
        self.each(|backend| backend.entries())
    }

    fn id(&self, entries: &Entries) -> Result<Id, Error> {
        let backend = &*self.backend;
        let found = entries.id.as_deref().ok_or_else(|| init::missing(backend))?;
        init::read(backend, found).map_err(Error::Refused)
    }

    fn nodes(&self, entries: &Entries) -> Result<Vec<Node>, Error> {
        let node = |NodeEntry { name, value }: &NodeEntry| {
            let said: Node = value::decode(&*self.backend, Entry::Node(name), value)?;
            Ok(Node { node: name.clone(), ..said })
        };
        entries
            .requests
            .nodes
            .iter()
            .map(node)
            .collect::<Result<_, String>>()
            .map_err(Error::Refused)
    }

    fn leader_in(&self, entries: &Entries) -> Result<Option<LeaderValue>, Error> {
        let Some(LeaderEntry { value, .. }) = &entries.leader else { return Ok(None) };
        let leader = value::decode(&*self.backend, Entry::Leader, value);
        leader.map(Some).map_err(Error::Refused)
    }

    /// Decodes a value. If no server can have written it, adds it to `unreadable` and returns `None`.
    fn readable<T: DeserializeOwned>(
        &self,
        entry: Entry<'_>,
        value: Option<&[u8]>,
        unreadable: &mut Vec<Unreadable>,
    ) -> Option<T> {
        match serde_json::from_slice(value?) {
            Ok(read) => Some(read),
            Err(error) => {
                unreadable.push(self.unreadable(entry, error.to_string()));
                None
            }
        }
    }

    /// Decodes the entry of the leader, which has to have a lease.
    fn readable_leader(
        &self,
        found: Option<&LeaderEntry>,
        unreadable: &mut Vec<Unreadable>,
    ) -> Option<LeaderValue> {
        let LeaderEntry { value, is_kept, .. } = found?;
        if *is_kept {
            return self.readable(Entry::Leader, Some(value), unreadable);
        }
        let why = match serde_json::from_slice::<LeaderValue>(value) {
            Ok(_) => "it has no lease: no server renews it".into(),
            Err(error) => error.to_string(),
        };
        let remedy =
            "no server can lead while it exists; leasehold cluster step-down deletes it".into();
        unreadable.push(Unreadable { remedy, ..self.unreadable(Entry::Leader, why) });
        None
    }

    /// Describes an entry that no server can have written.
    fn unreadable(&self, entry: Entry<'_>, why: String) -> Unreadable {
        let remedy = match entry {
            Entry::Node(node) => format!("leasehold cluster forget-node {node} deletes it"),
            Entry::Leader => "it disappears when the server that renews it ends".into(),
            _ => "restore a backup: leasehold restore BACKUP --store ...".into(),
        };
        Unreadable { key: self.backend.name_of(entry), why, remedy }
    }

    /// Fails if no server of this name is known.
    fn check_known(&self, node: &str, status: &Status) -> Result<(), Error> {
        let key = self.backend.name_of(Entry::Node(node));
        let is_known = status.is_leader(node)
            || status.nodes.iter().any(|known| known.node == node)
            || status.drained(node).is_some()
            || status.unreadable.iter().any(|found| found.key == key);
        if is_known { Ok(()) } else { Err(unknown(node, status)) }
    }

    /// Adds the state of each member to an error.
    fn with_members(&self, silent: &Error) -> Error {
        let (system, members) = (self.backend.system(), self.backend.describe_members());
        Error::Refused(format!("{silent}. The {system} members: {}", members.join("; ")))
    }

    /// Makes a call, at each member if necessary. Making it twice has the same effect as once.
    fn each<T>(
        &self,
        call: impl Fn(&dyn Backend) -> Result<T, BackendFailure>,
    ) -> Result<T, Error> {
        let mut n_tries_left = self.backend.n_tries();
        loop {
            n_tries_left = n_tries_left.saturating_sub(1);
            match call(&*self.backend) {
                Ok(done) => return Ok(done),
                Err(failure) if n_tries_left == 0 => return Err(failure.refused()),
                Err(_) => {}
            }
        }
    }
}

fn unknown(node: &str, status: &Status) -> Error {
    let known: Vec<_> = status.nodes.iter().map(|known| known.node.as_str()).collect();
    Error::Refused(format!("no server is named {node:?}; servers: {}", known.join(", ")))
}
