//! A node's own key, which tells the other nodes its address, its version and its position in the journal. The key
//! exists while the node runs. No other process can use the same node name in that time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use leasehold_base::pace;
use leasehold_etcd::{Kind, Op, Txn, When};

use super::aide::{Aide, Shared};
use super::cluster::Cluster;
use super::keys::Keys;
use super::value::{self, FORMAT, NodeValue, UnreachedValue, hex};
use crate::{Error, Health, Peering, Unreached};

/// The TTL of the key in etcd, in seconds, in case the node dies.
const NODE_TTL: i64 = 5;
/// How often the key is renewed, and updated if something has changed.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// How long a node waits for another process with its name to end. That process might have ended already without etcd
/// noticing yet.
const NAMESAKE_MAX: Duration = Duration::from_secs(7);
const NAMESAKE_PAUSE: Duration = Duration::from_millis(200);
/// A node that has read everything within this time counts as up to date, because nodes poll more often than this. So
/// the key does not change all the time.
const BEHIND_AFTER: Duration = Duration::from_secs(3);

/// The key, and a thread that keeps it. Dropping this value deletes the key.
pub(super) struct Presence {
    aide: Aide<Registered>,
    progress: Progress,
}

#[derive(Default)]
struct Registered {
    /// Why another process has the name by now, if one has.
    lost: Option<String>,
}

/// The node's position in the journal. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Notes that the node has read or written this record.
    pub(super) fn came_to(&self, seq: u64) {
        self.0.store(seq, Relaxed);
    }
}

/// The description of a node that other nodes can read.
pub(super) struct Described<'a> {
    pub(super) node: &'a str,
    pub(super) instance: &'a str,
    pub(super) address: &'a str,
    pub(super) peering: &'a Peering,
    pub(super) seq: u64,
    pub(super) never_leads: bool,
    pub(super) health: Arc<Health>,
}

impl Presence {
    /// Creates the key. If a process with another data directory has the name, waits for it to end, and fails if it
    /// does not.
    pub(super) fn begin(
        cluster: Arc<dyn Cluster>,
        keys: &Keys,
        described: Described<'_>,
    ) -> Result<Self, Error> {
        let Described { node, instance, address, peering, seq, never_leads, health } = described;
        let process: [u8; 16] = leasehold_base::random::bytes();
        let value = NodeValue {
            instance: instance.into(),
            process: hex(&process),
            address: address.into(),
            peer: peering.address.to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            formats: vec![FORMAT],
            seq,
            behind_s: 0,
            never_leads,
            unreached: None,
        };
        let mut card = Card { key: keys.node(node), node: node.into(), value, put: None, lease: 0 };
        let began = pace::now();
        loop {
            let why = match card.claim(&*cluster, true) {
                Ok(()) => break,
                Err(Claim::Taken(why) | Claim::Unknown(why)) => why,
            };
            if pace::now().saturating_sub(began) >= NAMESAKE_MAX {
                return Err(Error::Refused(why));
            }
            pace::sleep(NAMESAKE_PAUSE);
        }
        let progress = Progress::default();
        progress.came_to(seq);
        let seen = progress.clone();
        let work = move |shared: &Shared<Registered>| keep(shared, &*cluster, card, &seen, &health);
        let aide = Aide::start("presence", Registered::default(), work)?;
        Ok(Self { aide, progress })
    }

    /// Notes that the node has read or written this record.
    pub(super) fn came_to(&self, seq: u64) {
        self.progress.came_to(seq);
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Returns why another process has the name by now, if one has.
    pub(super) fn lost(&self) -> Option<String> {
        self.aide.state().lost.clone()
    }
}

/// The key and its value.
struct Card {
    key: Vec<u8>,
    node: String,
    value: NodeValue,
    /// The value as it was last written.
    put: Option<Vec<u8>>,
    lease: i64,
}

/// Why the key is not ours.
enum Claim {
    /// Another process has the same name.
    Taken(String),
    /// etcd did not respond properly.
    Unknown(String),
}

impl Card {
    /// Puts the key with a new lease, if it does not exist or belongs to an earlier process of the same data directory.
    /// A data directory is locked while its process runs. So a process that finds a running one with the same instance
    /// id has a copy of that directory.
    fn claim(&mut self, cluster: &dyn Cluster, may_succeed: bool) -> Result<(), Claim> {
        let unknown = |error: leasehold_etcd::Error| Claim::Unknown(error.to_string());
        let lease = cluster.lease_grant(NODE_TTL).map_err(unknown)?.id;
        let claimed = self.claim_with(cluster, lease, may_succeed);
        if claimed.is_err() {
            let _ = cluster.lease_revoke(lease);
        }
        claimed
    }

    fn claim_with(
        &mut self,
        cluster: &dyn Cluster,
        lease: i64,
        may_succeed: bool,
    ) -> Result<(), Claim> {
        let unknown = |error: leasehold_etcd::Error| Claim::Unknown(error.to_string());
        let bytes = value::encode(&self.value);
        let put = || Op::Put(self.key.clone(), bytes.clone(), lease);
        let txn = Txn::default().when(self.key.clone(), When::Absent);
        let txn = txn.then(put()).or_else(Op::Get(self.key.clone())).request();
        let answer = cluster.txn(txn).map_err(unknown)?;
        if !answer.succeeded {
            let found = answer.found(0).cloned().unwrap_or_default();
            match value::decode::<NodeValue>(&self.key, &found.value) {
                Ok(theirs) if self.is_own(&theirs, may_succeed) => {}
                Ok(theirs) => return Err(Claim::Taken(self.taken(&theirs))),
                // No server wrote this value, and no server keeps the key.
                Err(why) if found.lease == 0 => {
                    tracing::warn!(%why, "re-registering this server in etcd");
                }
                Err(why) => return Err(Claim::Taken(why)),
            }
            let is_as_found = When::Is(&found.value);
            let txn = Txn::default().when(self.key.clone(), is_as_found).then(put()).request();
            if !cluster.txn(txn).map_err(unknown)?.succeeded {
                return Err(Claim::Unknown(
                    "updating the registration of this server in etcd".into(),
                ));
            }
        }
        (self.put, self.lease) = (Some(bytes), lease);
        Ok(())
    }

    fn is_own(&self, theirs: &NodeValue, may_succeed: bool) -> bool {
        theirs.process == self.value.process
            || may_succeed && theirs.instance == self.value.instance
    }

    fn taken(&self, theirs: &NodeValue) -> String {
        let NodeValue { address, version, .. } = theirs;
        let name = &self.node;
        format!(
            "another server has the name {name} (node-name), at {address}, version {version}. Give one of them \
             another name; each needs its own data directory. If that server has ended, its name is free again after \
             {NODE_TTL} s"
        )
    }

    /// Renews the key, and updates its value.
    fn keep(
        &mut self,
        cluster: &dyn Cluster,
        (seq, behind_s): (u64, u64),
        unreached: Option<Unreached>,
    ) -> Result<(), Claim> {
        match cluster.lease_keep_alive(self.lease) {
            Ok(_) => {}
            Err(error) if error.kind == Kind::LeaseGone => return self.claim(cluster, false),
            Err(error) => return Err(Claim::Unknown(error.to_string())),
        }
        (self.value.seq, self.value.behind_s) = (seq, behind_s);
        self.value.unreached = UnreachedValue::after(self.value.unreached.as_ref(), unreached);
        let bytes = value::encode(&self.value);
        let Some(known) = self.put.clone() else { return self.claim(cluster, false) };
        if known == bytes {
            return Ok(());
        }
        let put = Op::Put(self.key.clone(), bytes.clone(), self.lease);
        let txn = Txn::default().when(self.key.clone(), When::Is(&known)).then(put).request();
        let answer = cluster.txn(txn).map_err(|error| Claim::Unknown(error.to_string()))?;
        if answer.succeeded {
            self.put = Some(bytes);
            return Ok(());
        }
        self.claim(cluster, false)
    }
}

fn keep(
    shared: &Shared<Registered>,
    cluster: &dyn Cluster,
    mut card: Card,
    progress: &Progress,
    health: &Health,
) {
    while !shared.rest(KEEP_EVERY) {
        let behind = health.pulse().whole_age().filter(|age| *age >= BEHIND_AFTER);
        let behind_s = behind.map_or(0, |age| age.as_secs());
        let unreached = health.pulse().unreached();
        match card.keep(cluster, (progress.0.load(Relaxed), behind_s), unreached) {
            Ok(()) => {
                if shared.state().lost.take().is_some() {
                    tracing::info!("the name of this server is unique again; continuing");
                }
            }
            Err(Claim::Unknown(why)) => {
                // It is unknown whether the last write took effect. The next claim compares the key's value.
                tracing::debug!(%why, "cannot renew the registration of this server in etcd");
            }
            Err(Claim::Taken(why)) => {
                if shared.state().lost.is_none() {
                    tracing::error!(%why, "this server neither follows nor leads until the other one ends");
                }
                shared.state().lost = Some(why);
            }
        }
    }
    let _ = cluster.lease_revoke(card.lease);
}
