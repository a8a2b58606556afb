//! A machine that is kept like the leader's, by reading what it writes.

use leasehold_base::clock::{BootId, Moment};
use leasehold_core::{Fact, Limits, Machine, Span, mutant};
use leasehold_etcd::KeyValue;

use super::cluster::Cluster;
use super::keys::Keys;
use super::snapshot::{self, Manifest, Origin};
use crate::{Broken, Chain, Place, Told};

/// What was read so far.
pub(super) struct Follower {
    pub(super) machine: Machine,
    pub(super) chain: Chain,
    pub(super) read: Volume,
    last: Option<Last>,
    boot: BootId,
    /// The node that reads; empty: nobody in particular.
    node: Box<str>,
}

/// How much was read one by one, after the snapshot it began with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Volume {
    n_records: u64,
    n_bytes: u64,
}

impl Volume {
    fn add(&mut self, n_bytes: usize) {
        self.n_records += 1;
        self.n_bytes += n_bytes as u64;
    }

    /// About how many bytes so many of the records have.
    pub(super) fn bytes_of(self, n_records: u64) -> u64 {
        n_records.saturating_mul(self.n_bytes) / self.n_records.max(1)
    }
}

/// The last record. What was known of any earlier one says nothing of the time.
struct Last {
    node: Box<str>,
    moment: Moment,
    /// When this process had read it, by the boottime of this machine.
    received: u64,
}

impl Follower {
    /// What is in a snapshot, or nothing. The error says in words what is wrong.
    pub(super) fn begin(
        cluster: &dyn Cluster,
        keys: &Keys,
        manifest: Option<&Manifest>,
        limits: Limits,
        (boot, received): (BootId, u64),
    ) -> Result<Self, String> {
        let Some(manifest) = manifest else {
            let hash_seed = u128::from_le_bytes(leasehold_base::random::bytes());
            let machine = Machine::new(limits, hash_seed);
            let (chain, node) = Default::default();
            return Ok(Self { machine, chain, last: None, read: Volume::default(), boot, node });
        };
        let Origin { place, epoch, node, moment } = manifest.origin()?;
        let machine = snapshot::load(cluster, keys, manifest, limits)?;
        let chain = Chain::after(place).in_epoch(epoch);
        let last = Some(Last { node, moment, received });
        let (read, node) = Default::default();
        Ok(Self { machine, chain, last, read, boot, node })
    }

    /// Read by this node.
    pub(super) fn read_by(self, node: &str) -> Self {
        Self { node: node.into(), ..self }
    }

    /// This place was known to be durable when reading began.
    pub(super) fn expecting(self, acknowledged: Option<Place>) -> Self {
        Self { chain: self.chain.with_acknowledged(acknowledged), ..self }
    }

    /// The last record, for a snapshot; `None`: there is none.
    pub(super) fn origin(&self) -> Option<Origin> {
        let Last { node, moment, .. } = self.last.as_ref()?;
        let (place, epoch) = (self.chain.place(), self.chain.epoch());
        Some(Origin { place, epoch, node: node.clone(), moment: *moment })
    }

    pub(super) fn place(&self) -> Place {
        self.chain.place()
    }

    /// Makes true what these records say, up to one that cannot be read. They were read before `received`.
    pub(super) fn absorb(
        &mut self,
        keys: &Keys,
        slots: &[KeyValue],
        received: u64,
    ) -> Result<Vec<Told>, Broken> {
        let mut told = Vec::with_capacity(slots.len());
        for slot in slots {
            let name = || String::from_utf8_lossy(&slot.key).into_owned();
            let seq = keys.seq_of(&slot.key);
            let seq = seq.ok_or_else(|| Broken::Damaged(format!("{} is no record", name())))?;
            let record = self.chain.read(seq, &slot.value)?;
            self.read.add(slot.value.len());
            let mut facts: Vec<Fact> = Vec::new();
            let lock_time = record.moment.lock_time;
            let absorbed = self.machine.absorb_and_tell(lock_time, &record.changes, &mut facts);
            absorbed.map_err(|error| {
                Broken::Damaged(format!("journal record {seq} does not fit: {error}"))
            })?;
            let head = record.head.unwrap_or_default();
            let wall_ms = record.moment.wall_ms;
            let moment = Moment { boot_id: self.boot, boottime: received, lock_time, wall_ms };
            let is_ours = *head.node == *self.node;
            self.last = Some(Last { node: head.node, moment: record.moment, received });
            told.push(Told { seq, wall_ms, facts, moment, is_ours });
        }
        Ok(told)
    }

    /// When the last record was received.
    pub(super) fn received(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.received)
    }

    /// The last record was received earlier than this process knows by itself.
    pub(super) fn received_before(&mut self, received: u64) {
        if let Some(last) = &mut self.last {
            last.received = last.received.min(received);
        }
    }

    /// From where lock time goes on, by the clocks of this machine: from the last record, and by the time that has
    /// passed since for sure. That is known by boottime if this very node wrote it in this boot, and otherwise since it
    /// was received here. It may be less than has passed, never more: a lease may last too long, never too short.
    pub(super) fn moment(&self, node: &str, now: u64) -> Moment {
        let boot_id = self.boot;
        match &self.last {
            None => Moment { boot_id, boottime: now, ..Moment::default() },
            Some(last) if *last.node == *node && last.moment.boot_id == boot_id => last.moment,
            Some(last) if mutant!(ForeignBoottime) => Moment { boot_id, ..last.moment },
            Some(last) if mutant!(TimePlusTtl) => {
                let lock_time = last.moment.lock_time + Span::from_secs(2);
                Moment { boot_id, boottime: last.received, lock_time, ..last.moment }
            }
            Some(last) => Moment { boot_id, boottime: last.received, ..last.moment },
        }
    }
}
