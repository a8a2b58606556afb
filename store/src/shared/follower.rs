//! A machine that follows the leader's machine by reading the journal.

use leasehold_base::clock::{BootId, Moment};
use leasehold_core::{Fact, Limits, Machine, Span, mutant};

use super::backend::{Backend, Records};
use super::snapshot::{self, Manifest, Origin};
use crate::{Broken, Chain, Place, Told};

/// The state read so far.
pub(super) struct Follower {
    pub(super) machine: Machine,
    pub(super) chain: Chain,
    pub(super) read: Volume,
    last: Option<Last>,
    boot: BootId,
    /// The node that reads the journal. Empty: no particular node.
    node: Box<str>,
}

/// The number and size of the records that were read individually, after the initial snapshot.
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

    /// Estimates the size of `n_records` records, in bytes.
    pub(super) fn bytes_of(self, n_records: u64) -> u64 {
        n_records.saturating_mul(self.n_bytes) / self.n_records.max(1)
    }
}

/// The last record. Earlier records give no information about the current time.
struct Last {
    node: Box<str>,
    moment: Moment,
    /// When this process had read the record, by the boottime of this machine.
    received: u64,
}

impl Follower {
    /// Starts from a snapshot, or empty. The error states in words what is wrong.
    pub(super) fn begin(
        backend: &dyn Backend,
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
        let machine = snapshot::load(backend, manifest, limits)?;
        let chain = Chain::after(place).in_epoch(epoch);
        let last = Some(Last { node, moment, received });
        let (read, node) = Default::default();
        Ok(Self { machine, chain, last, read, boot, node })
    }

    /// Sets the node that reads the journal.
    pub(super) fn read_by(self, node: &str) -> Self {
        Self { node: node.into(), ..self }
    }

    /// Sets a place that was known to be durable before reading started.
    pub(super) fn expecting(self, acknowledged: Option<Place>) -> Self {
        Self { chain: self.chain.with_acknowledged(acknowledged), ..self }
    }

    /// Returns the origin of a snapshot of this state, which is the last record. Returns `None` if there is no record.
    pub(super) fn origin(&self) -> Option<Origin> {
        let Last { node, moment, .. } = self.last.as_ref()?;
        let (place, epoch) = (self.chain.place(), self.chain.epoch());
        Some(Origin { place, epoch, node: node.clone(), moment: *moment })
    }

    pub(super) fn place(&self) -> Place {
        self.chain.place()
    }

    /// Applies these records, up to one that cannot be read. They were read before the time `received`.
    pub(super) fn absorb(&mut self, records: &Records, received: u64) -> Result<Vec<Told>, Broken> {
        let Records { all, stray } = records;
        let mut told = Vec::with_capacity(all.len());
        for (seq, bytes) in all {
            let seq = *seq;
            let record = self.chain.read(seq, bytes)?;
            self.read.add(bytes.len());
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
        match stray {
            Some(name) => Err(Broken::Damaged(format!("{name} is not a record"))),
            None => Ok(told),
        }
    }

    /// Returns when the last record was received.
    pub(super) fn received(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.received)
    }

    /// Sets an earlier time for the receipt of the last record, noted by an earlier process.
    pub(super) fn received_before(&mut self, received: u64) {
        if let Some(last) = &mut self.last {
            last.received = last.received.min(received);
        }
    }

    /// Returns the moment from which lock time continues, by the clocks of this machine. It is based on the last record
    /// and the time that has certainly passed since. If this node wrote that record in this boot, boottime tells how
    /// much. Otherwise the time counts from the receipt of the record on this machine. The result can be less than the
    /// actual time, but never more: a lease may last too long, but must not end early.
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
