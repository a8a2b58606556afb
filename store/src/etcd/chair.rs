//! Holds the leader key while a whole store is moved or restored, without leading.

use std::cell::Cell;
use std::time::{Duration, Instant};

use leasehold_core::mutant;
use leasehold_etcd::{Op, Txn};

use super::campaign::campaign;
use super::cluster::Cluster;
use super::guard::{Tenure, put_once};
use super::image;
use super::keeper::Lease;
use super::keys::Keys;
use super::snapshot::{self, CHUNK_BYTES, Manifest, Origin};
use super::value::{self, HeadValue, Id, LeaderValue};
use crate::{Error, Whole};

/// The TTL of the leader key in etcd, in seconds, in case this process dies.
const TTL: i64 = 30;
const KEEP_EVERY: Duration = Duration::from_secs(5);

/// The leader key. It is released when this value is dropped.
pub(super) struct Chair<'a> {
    pub(super) cluster: &'a dyn Cluster,
    pub(super) keys: &'a Keys,
    pub(super) tenure: Tenure,
    lease: Lease,
    kept_at: Cell<Instant>,
}

impl<'a> Chair<'a> {
    /// Takes the leader key, unless a server holds it or one of the keys `vetoes` exists.
    pub(super) fn take(
        cluster: &'a dyn Cluster,
        keys: &'a Keys,
        what_for: &str,
        vetoes: &[Vec<u8>],
    ) -> Result<Self, Error> {
        let leader = LeaderValue::new(&format!("leasehold {what_for}"), "");
        let taken = if mutant!(RestoreWithoutSeat) {
            Some((Tenure { created_at: 0, value: Vec::new() }, Lease { id: 0, ttl: TTL }))
        } else {
            campaign(cluster, keys, TTL, &leader, vetoes).map_err(Error::Refused)?
        };
        let (tenure, lease) = taken.ok_or_else(|| occupied(cluster, keys))?;
        Ok(Self { cluster, keys, tenure, lease, kept_at: Cell::new(Instant::now()) })
    }

    /// Returns a transaction that succeeds only while the leader key is ours.
    pub(super) fn txn(&self) -> Txn {
        self.tenure.txn(self.keys)
    }

    /// Writes a state as the chunks of a snapshot. No manifest refers to them yet.
    pub(super) fn write(&self, whole: &Whole) -> Result<Manifest, Error> {
        let bytes = image::encode(&whole.machine);
        let manifest = Manifest::new(&origin(whole), &bytes, None);
        for piece in (0..).zip(bytes.chunks(CHUNK_BYTES)) {
            self.keep()?;
            let put = manifest.put(self.cluster, self.keys, &self.tenure, piece);
            put.map_err(Error::Refused)?;
        }
        // Reads the chunks back, to make sure that they are readable.
        manifest.read_back(self.cluster, self.keys).map_err(Error::Refused)?;
        Ok(manifest)
    }

    /// Puts a store in place in one transaction: its id, its snapshot and its head. Deletes any earlier records.
    /// Returns `None` if the conditions of the transaction do not hold.
    pub(super) fn put(
        &self,
        txn: Txn,
        id: &Id,
        manifest: Manifest,
        whole: &Whole,
    ) -> Result<Option<()>, Error> {
        let keys = self.keys;
        let (id, manifest) = (value::encode(id), manifest.through(&origin(whole)));
        let (first, end) = keys.slots_from(0);
        let txn = txn
            .then(Op::Put(keys.id(), id.clone(), 0))
            .then(Op::Put(keys.manifest(), value::encode(&manifest), 0))
            .then(Op::Put(keys.head(), value::encode(&HeadValue::of(whole.place)), 0))
            .then(Op::DeleteRange(first, end))
            .then(Op::Delete(keys.rewound()))
            .then(Op::Delete(keys.closed()));
        let put = put_once(self.cluster, txn, (keys.id(), &id));
        let put = put.map_err(|error| {
            Error::Unknown(format!(
                "{error}; the operation might have taken effect: check, and repeat it if not"
            ))
        })?;
        let Some(at) = put else { return Ok(None) };
        snapshot::clean_up(self.cluster, keys, &self.tenure, &manifest, at);
        Ok(Some(()))
    }

    /// Renews the lease of the leader key during a long operation.
    fn keep(&self) -> Result<(), Error> {
        if self.kept_at.get().elapsed() < KEEP_EVERY {
            return Ok(());
        }
        self.kept_at.set(Instant::now());
        let kept = self.cluster.lease_keep_alive(self.lease.id);
        kept.map(drop).map_err(|error| Error::Refused(error.to_string()))
    }
}

impl Drop for Chair<'_> {
    fn drop(&mut self) {
        // If this fails, the lease expires on its own.
        let _ = self.cluster.lease_revoke(self.lease.id);
    }
}

/// Returns the position in the journal that a state belongs to.
fn origin(whole: &Whole) -> Origin {
    let Whole { place, epoch, last, .. } = whole;
    Origin { place: *place, epoch: *epoch, node: "".into(), moment: last.unwrap_or_default() }
}

/// Returns the error that explains why the leader key cannot be taken.
fn occupied(cluster: &dyn Cluster, keys: &Keys) -> Error {
    let read = Txn::default()
        .then(Op::Get(keys.leader()))
        .then(Op::Get(keys.rewound()))
        .then(Op::Get(keys.closed()))
        .request();
    let prefix = keys.prefix();
    let Ok(answer) = cluster.txn(read) else {
        return Error::Refused("cannot become leader; etcd reports no cause".into());
    };
    let found = answer.found(0);
    if found.is_some_and(|found| found.lease == 0) {
        let key = String::from_utf8_lossy(&keys.leader()).into_owned();
        return Error::Refused(format!(
            "the leader key {key} is stale: no server renews it, and no server can lead while it exists; leasehold \
             cluster step-down deletes it"
        ));
    }
    let leader =
        found.and_then(|found| value::decode::<LeaderValue>(&found.key, &found.value).ok());
    Error::Refused(match leader {
        Some(leader) => format!(
            "{} leads the store under {prefix}; first stop all its servers, or run leasehold cluster pause and \
             leasehold cluster step-down",
            leader.node
        ),
        None if answer.found(1).is_some() => format!(
            "the store under {prefix} was rolled back to an earlier state (key rewound); run `leasehold restore \
             --store` first"
        ),
        None if answer.found(2).is_some() => {
            format!("the store under {prefix} has moved elsewhere (key closed)")
        }
        None => format!("another process led the store under {prefix} for a moment; try again"),
    })
}
