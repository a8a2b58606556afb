//! The store of a leader in etcd: one guarded transaction for each record.

mod bug;
pub(super) use bug::stale;

use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_base::pace;
use leasehold_core::{Limits, Machine, mutant};
use leasehold_etcd::{Kind, Op, TxnRequest};

use super::cluster::Cluster;
use super::guard::{Guard, Verdict};
use super::keeper::Keeper;
use super::keys::Keys;
use super::presence::Progress;
use super::scribe::Scribe;
use super::snapshot::Origin;
use super::value::{self, HeadValue};
use crate::{
    Chain, Dismissal, Draft, Error, Hash, Health, JournalSize, Loaded, Permit, Place, Store,
};

/// The maximum size of a record. etcd accepts requests of 1.5 MiB, and the other parts of a request are small.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// Maximum records deleted with each append.
const TRIMMED_PER_APPEND: u64 = 16;

/// The journal of the leader.
pub(super) struct EtcdStore {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) guard: Guard,
    /// The chain up to the last record known to be durable.
    pub(super) chain: Chain,
    pub(super) epoch: u64,
    pub(super) node: Box<str>,
    pub(super) keeper: Keeper,
    /// The TTL of the leader key, after which another server can take over from a failed leader.
    pub(super) lease: Duration,
    /// When etcd last confirmed that this server leads.
    pub(super) answered_at: Duration,
    pub(super) scribe: Scribe,
    /// Records up to this one are deleted.
    pub(super) trimmed_through: u64,
    pub(super) n_bytes_written: u64,
    /// When the last record known to be durable was written.
    pub(super) written: Moment,
    /// Publishes the position in the journal to the other nodes.
    pub(super) progress: Option<Progress>,
    pub(super) health: Arc<Health>,
    /// A record that was sent and whose outcome is unknown.
    pub(super) sent: Option<Sent>,
}

/// A record that was sent. It is sent again unchanged until its outcome is known. etcd compares the head, so the record
/// is written at most once.
pub(super) struct Sent {
    bytes: Vec<u8>,
    place: Place,
    moment: Moment,
    /// Records up to this one are deleted in the same transaction.
    trims_through: u64,
    txn: TxnRequest,
}

impl EtcdStore {
    fn keys(&self) -> &Keys {
        &self.guard.keys
    }

    fn to_send(&self, permit: &Permit, draft: Draft<'_>) -> Sent {
        let moment = draft.moment;
        let bytes = self.chain.encode(permit.epoch(), &self.node, draft);
        let place = Place { seq: self.chain.place().seq + 1, hash: Hash::of(&bytes) };
        let keys = self.keys();
        let head = value::encode(&HeadValue::of(place));
        let txn = self.guard.txn();
        let txn = txn.then(Op::Put(keys.slot(place.seq), bytes.clone(), 0));
        let mut txn = txn.then(Op::Put(keys.head(), head, 0));
        let trims_through = self.to_trim(place);
        if trims_through > self.trimmed_through {
            let (first, end) = (keys.slot(self.trimmed_through + 1), keys.slot(trims_through + 1));
            txn = txn.then(Op::DeleteRange(first, end));
        }
        Sent { bytes, place, moment, trims_through, txn: txn.request() }
    }

    /// Returns up to which record the next append deletes records. It deletes a few records that are in a committed
    /// snapshot, but never the one the head refers to.
    fn to_trim(&self, next: Place) -> u64 {
        let target = self.scribe.through().min(next.seq.saturating_sub(2));
        target.min(self.trimmed_through + TRIMMED_PER_APPEND).max(self.trimmed_through)
    }

    /// Sends the pending record to one member after another, until one reports the outcome.
    fn send(&mut self, n_tries: usize) -> Result<(), Error> {
        let Some(sent) = self.sent.take() else { return Ok(()) };
        let mut trouble = String::new();
        for _ in 0..n_tries.max(1) {
            self.keeper.goes_on();
            match self.cluster.txn(sent.txn.clone()) {
                Ok(answer) => return self.settled(&answer, sent),
                Err(error) if error.kind == Kind::NoSpace && mutant!(NoSpaceAsBusy) => {
                    return Err(Error::Busy);
                }
                Err(error) => {
                    if error.kind == Kind::NoSpace {
                        self.health.is_out_of_room();
                    }
                    trouble = error.to_string();
                    self.health.is_unanswered(trouble.clone());
                }
            }
            if self.has_lapsed() {
                break;
            }
        }
        self.sent = Some(sent);
        Err(Error::Unsettled(trouble))
    }

    fn settled(&mut self, answer: &leasehold_etcd::TxnResponse, sent: Sent) -> Result<(), Error> {
        match self.guard.judge(answer, Some(sent.place)) {
            Verdict::Held(head_at) | Verdict::DoneBefore(head_at) => {
                self.guard.head_at = head_at;
                self.answered_at = pace::now();
                self.chain.wrote(self.epoch, &sent.bytes);
                self.written = sent.moment;
                self.n_bytes_written += sent.bytes.len() as u64;
                self.trimmed_through = sent.trims_through;
                self.keeper.settled(self.chain.place());
                let seq = self.chain.place().seq;
                self.health.pulse().seen(0);
                self.progress.iter().for_each(|progress| progress.came_to(seq));
                self.scribe.appended(seq, sent.bytes.len());
                Ok(())
            }
            verdict => Err(Self::fenced(verdict)),
        }
    }

    /// Another server might lead by now: the writer first answers its waiting clients, then tries again.
    fn has_lapsed(&self) -> bool {
        pace::now().saturating_sub(self.answered_at) >= self.lease
    }

    fn fenced(verdict: Verdict) -> Error {
        match verdict {
            Verdict::Astray(why) => {
                tracing::error!(%why, "the journal is not as this server left it");
                Error::Fenced(why)
            }
            Verdict::Lost(why) => Error::Fenced(why),
            Verdict::Held(_) | Verdict::DoneBefore(_) => Error::Fenced("nothing is wrong".into()),
        }
    }
}

impl Store for EtcdStore {
    /// Always fails, because the state comes from taking over: see [`super::EtcdSeat`].
    fn load(&mut self, _: Limits, _: u128) -> Result<Loaded, Error> {
        Err(Error::Refused("the state comes with the seat".into()))
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        self.keeper.goes_on();
        Ok(Permit::granted(self.epoch))
    }

    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), Error> {
        let sent = self.to_send(&permit, draft);
        if sent.bytes.len() > RECORD_BYTES_MAX {
            // The state in memory already contains these changes and must be discarded: the journal will never contain
            // them.
            let n_bytes = sent.bytes.len();
            return Err(Error::Fenced(format!(
                "a record of {n_bytes} bytes is too large for etcd"
            )));
        }
        if mutant!(UnsettledNoted) {
            self.keeper.settled(sent.place);
        }
        self.sent = Some(sent);
        self.send(self.cluster.n_members())
    }

    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        let mut txn = self.guard.txn().request();
        if bug::spoil(&mut txn) {
            return Ok(());
        }
        for _ in 0..self.cluster.n_members().max(1) {
            self.keeper.goes_on();
            let answer = match self.cluster.txn(txn.clone()) {
                Ok(answer) => answer,
                Err(error) => {
                    self.health.is_unanswered(error.to_string());
                    if self.has_lapsed() {
                        break;
                    }
                    continue;
                }
            };
            return match self.guard.judge(&answer, None) {
                Verdict::Held(_) => {
                    self.answered_at = pace::now();
                    self.health.pulse().seen(0);
                    Ok(())
                }
                verdict => Err(Self::fenced(verdict)),
            };
        }
        Err(Error::Busy)
    }

    /// Sends the record again. A read could not tell the outcome, because an earlier attempt might still be pending.
    fn settle(&mut self) -> Result<(), Error> {
        if mutant!(SettleByReading) {
            return self.settle_by_reading();
        }
        self.send(1)
    }

    fn record_bytes_max(&self) -> usize {
        RECORD_BYTES_MAX
    }

    fn is_near(&self) -> bool {
        false
    }

    fn lease(&self) -> Option<Duration> {
        Some(self.lease)
    }

    /// Releases the leader key, so that another node can take over immediately.
    fn finish(&mut self) -> Result<(), Error> {
        self.scribe.leave();
        let gone = self.guard.txn().then(Op::Delete(self.keys().leader())).request();
        for _ in 0..self.cluster.n_members() {
            if self.cluster.txn(gone.clone()).is_ok() {
                break;
            }
        }
        self.keeper.leave();
        Ok(())
    }

    fn journal(&self) -> JournalSize {
        let seq = self.chain.place().seq;
        JournalSize {
            seq,
            folded_through: seq,
            n_records: seq - self.trimmed_through,
            n_bytes_written: self.n_bytes_written,
        }
    }

    fn is_torn(&self) -> bool {
        self.scribe.is_torn()
    }

    fn mend(&mut self, machine: &Machine) {
        if !self.is_torn() {
            return;
        }
        let (place, moment) = (self.chain.place(), self.written);
        let origin = Origin { place, epoch: self.epoch, node: self.node.clone(), moment };
        self.scribe.mend(origin, machine);
    }

    fn is_dismissed(&self) -> bool {
        self.keeper.is_dismissed()
    }

    fn dismissal(&self) -> Dismissal {
        self.keeper.dismissal().unwrap_or(Dismissal::ByOperator)
    }

    fn health(&self) -> Arc<Health> {
        self.health.clone()
    }
}
