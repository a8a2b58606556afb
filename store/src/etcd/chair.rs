//! The seat in the hands of somebody who moves a whole store, and leads nobody.

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

/// How long etcd keeps it, in seconds, if whoever has it is gone.
const TTL: i64 = 30;
const KEEP_EVERY: Duration = Duration::from_secs(5);

/// The seat. It is given back when this is dropped.
pub(super) struct Chair<'a> {
    pub(super) cluster: &'a dyn Cluster,
    pub(super) keys: &'a Keys,
    pub(super) tenure: Tenure,
    lease: Lease,
    kept_at: Cell<Instant>,
}

impl<'a> Chair<'a> {
    /// Takes the seat, unless a server has it or one of these keys is there.
    pub(super) fn take(
        cluster: &'a dyn Cluster,
        keys: &'a Keys,
        what_for: &str,
        nobody_may: &[Vec<u8>],
    ) -> Result<Self, Error> {
        let leader = LeaderValue::new(&format!("leasehold {what_for}"), "");
        let taken = if mutant!(RestoreWithoutSeat) {
            Some((Tenure { created_at: 0, value: Vec::new() }, Lease { id: 0, ttl: TTL }))
        } else {
            campaign(cluster, keys, TTL, &leader, nobody_may).map_err(Error::Refused)?
        };
        let (tenure, lease) = taken.ok_or_else(|| occupied(cluster, keys))?;
        Ok(Self { cluster, keys, tenure, lease, kept_at: Cell::new(Instant::now()) })
    }

    /// A transaction that does something only while the seat is ours.
    pub(super) fn txn(&self) -> Txn {
        self.tenure.txn(self.keys)
    }

    /// Writes a state as the pieces of a snapshot that nobody knows of yet.
    pub(super) fn write(&self, whole: &Whole) -> Result<Manifest, Error> {
        let bytes = image::encode(&whole.machine);
        let manifest = Manifest::new(&origin(whole), &bytes, None);
        for piece in (0..).zip(bytes.chunks(CHUNK_BYTES)) {
            self.keep()?;
            let put = manifest.put(self.cluster, self.keys, &self.tenure, piece);
            put.map_err(Error::Refused)?;
        }
        // Whatever was written can be read.
        manifest.read_back(self.cluster, self.keys).map_err(Error::Refused)?;
        Ok(manifest)
    }

    /// Puts a store in place, all at once: what it is, its snapshot and its head. Records there may have been before
    /// go. `None`: the conditions of the transaction do not hold.
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
                "{error}. It is not known whether it was done: look, and repeat it if not"
            ))
        })?;
        let Some(at) = put else { return Ok(None) };
        snapshot::clean_up(self.cluster, keys, &self.tenure, &manifest, at);
        Ok(Some(()))
    }

    /// Keeps the seat while something takes long.
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
        // It runs out by itself otherwise.
        let _ = self.cluster.lease_revoke(self.lease.id);
    }
}

/// Where a state belongs.
fn origin(whole: &Whole) -> Origin {
    let Whole { place, epoch, last, .. } = whole;
    Origin { place: *place, epoch: *epoch, node: "".into(), moment: last.unwrap_or_default() }
}

/// Why the seat cannot be had.
fn occupied(cluster: &dyn Cluster, keys: &Keys) -> Error {
    let read = Txn::default()
        .then(Op::Get(keys.leader()))
        .then(Op::Get(keys.rewound()))
        .then(Op::Get(keys.closed()))
        .request();
    let prefix = keys.prefix();
    let Ok(answer) = cluster.txn(read) else {
        return Error::Refused("the seat cannot be had, and etcd does not say why".into());
    };
    let found = answer.found(0);
    if found.is_some_and(|found| found.lease == 0) {
        let key = String::from_utf8_lossy(&keys.leader()).into_owned();
        return Error::Refused(format!(
            "no server keeps the key {key}, and nobody can lead while it is there: leasehold cluster step-down \
             deletes it"
        ));
    }
    let leader =
        found.and_then(|found| value::decode::<LeaderValue>(&found.key, &found.value).ok());
    Error::Refused(match leader {
        Some(leader) => format!(
            "{} leads the store under {prefix}: stop every server of it first, or pause them (leasehold cluster pause) \
             and have it step down (leasehold cluster step-down)",
            leader.node
        ),
        None if answer.found(1).is_some() => format!(
            "the store under {prefix} was put back to an earlier state (key rewound): `leasehold restore --store` first"
        ),
        None if answer.found(2).is_some() => {
            format!("the store under {prefix} has moved elsewhere (key closed)")
        }
        None => format!(
            "somebody else took the seat of the store under {prefix} for a moment: try again"
        ),
    })
}
