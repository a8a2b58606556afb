//! A node's own entry, which tells the other nodes its address, its version and its position in the journal. The entry
//! exists while the node runs. No other process can use the same node name in that time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use leasehold_base::pace;

use super::aide::{Aide, Shared};
use super::backend::{Backend, BackendFailure, Entry, FailureKind, Lease, NodePut};
use super::value::{self, FORMAT, NodeValue, UnreachedValue, hex};
use crate::{Error, Health, Peering, Unreached};

/// The TTL of the entry, in seconds, in case the node dies.
const NODE_TTL: i64 = 5;
/// How often the entry is renewed, and updated if something has changed.
const KEEP_EVERY: Duration = Duration::from_secs(1);
/// How long a node waits for another process with its name to end. That process might have ended already, and its
/// entry might still last.
const NAMESAKE_MAX: Duration = Duration::from_secs(7);
const NAMESAKE_PAUSE: Duration = Duration::from_millis(200);
/// A node that has read everything within this time counts as up to date, because nodes poll more often than this. So
/// the entry does not change all the time.
const BEHIND_AFTER: Duration = Duration::from_secs(3);

/// The entry, and a thread that keeps it. Dropping this value deletes the entry.
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
    /// Creates the entry. If a process with another data directory has the name, waits for it to end, and fails if it
    /// does not.
    pub(super) fn begin(
        backend: Arc<dyn Backend>,
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
        let mut card = Card { node: node.into(), value, put: None, lease: None };
        let began = pace::now();
        loop {
            let why = match card.claim(&*backend, true) {
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
        let work = move |shared: &Shared<Registered>| keep(shared, &*backend, card, &seen, &health);
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

/// The entry and its value.
struct Card {
    node: String,
    value: NodeValue,
    /// The value as it was last written.
    put: Option<Vec<u8>>,
    lease: Option<Lease>,
}

/// Why the entry is not ours.
enum Claim {
    /// Another process has the same name.
    Taken(String),
    /// The store did not respond properly.
    Unknown(String),
}

impl From<BackendFailure> for Claim {
    fn from(failure: BackendFailure) -> Self {
        Self::Unknown(failure.to_string())
    }
}

impl Card {
    /// Puts the entry with a new lease, if it does not exist or belongs to an earlier process of the same data
    /// directory. A data directory is locked while its process runs. So a process that finds a running one with the
    /// same instance id has a copy of that directory.
    fn claim(&mut self, backend: &dyn Backend, may_succeed: bool) -> Result<(), Claim> {
        let lease = backend.grant(NODE_TTL)?;
        let claimed = self.claim_with(backend, lease, may_succeed);
        if claimed.is_err() {
            let _ = backend.revoke(lease);
        }
        claimed
    }

    fn claim_with(
        &mut self,
        backend: &dyn Backend,
        lease: Lease,
        may_succeed: bool,
    ) -> Result<(), Claim> {
        let bytes = value::encode(&self.value);
        let put = |before: Option<&[u8]>| backend.put_node(&self.node, &bytes, before, lease);
        if let NodePut::Differs { value: found, is_kept } = put(None)? {
            match value::decode::<NodeValue>(backend, Entry::Node(&self.node), &found) {
                Ok(theirs) if self.is_own(&theirs, may_succeed) => {}
                Ok(theirs) => return Err(Claim::Taken(self.taken(&theirs))),
                // No server wrote this value, and no server keeps the entry.
                Err(why) if !is_kept => {
                    tracing::warn!(%why, "re-registering this server");
                }
                Err(why) => return Err(Claim::Taken(why)),
            }
            if put(Some(&found))? != NodePut::Done {
                return Err(Claim::Unknown("updating the registration of this server".into()));
            }
        }
        (self.put, self.lease) = (Some(bytes), Some(lease));
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

    /// Renews the entry, and updates its value.
    fn keep(
        &mut self,
        backend: &dyn Backend,
        (seq, behind_s): (u64, u64),
        unreached: Option<Unreached>,
    ) -> Result<(), Claim> {
        let Some(lease) = self.lease else { return self.claim(backend, false) };
        match backend.keep(lease) {
            Ok(()) => {}
            Err(failure) if failure.kind == FailureKind::LeaseGone => {
                return self.claim(backend, false);
            }
            Err(failure) => return Err(failure.into()),
        }
        (self.value.seq, self.value.behind_s) = (seq, behind_s);
        self.value.unreached = UnreachedValue::after(self.value.unreached.as_ref(), unreached);
        let bytes = value::encode(&self.value);
        let Some(known) = &self.put else { return self.claim(backend, false) };
        if *known == bytes {
            return Ok(());
        }
        if backend.put_node(&self.node, &bytes, Some(known), lease)? == NodePut::Done {
            self.put = Some(bytes);
            return Ok(());
        }
        self.claim(backend, false)
    }
}

fn keep(
    shared: &Shared<Registered>,
    backend: &dyn Backend,
    mut card: Card,
    progress: &Progress,
    health: &Health,
) {
    while !shared.rest(KEEP_EVERY) {
        let behind = health.pulse().whole_age().filter(|age| *age >= BEHIND_AFTER);
        let behind_s = behind.map_or(0, |age| age.as_secs());
        let unreached = health.pulse().unreached();
        match card.keep(backend, (progress.0.load(Relaxed), behind_s), unreached) {
            Ok(()) => {
                if shared.state().lost.take().is_some() {
                    tracing::info!("the name of this server is unique again; continuing");
                }
            }
            Err(Claim::Unknown(why)) => {
                // It is unknown whether the last write took effect. The next claim compares the entry's value.
                tracing::debug!(%why, "cannot renew the registration of this server");
            }
            Err(Claim::Taken(why)) => {
                if shared.state().lost.is_none() {
                    tracing::error!(%why, "this server neither follows nor leads until the other one ends");
                }
                shared.state().lost = Some(why);
            }
        }
    }
    let _ = card.lease.map(|lease| backend.revoke(lease));
}
