//! The store of whoever leads: one guarded transaction for each record.

use std::sync::Arc;

use leasehold_core::Limits;
use leasehold_etcd::{Op, TxnRequest};

use super::cluster::Cluster;
use super::guard::{Guard, Verdict};
use super::keeper::Keeper;
use super::keys::Keys;
use super::value::{self, HeadValue};
use crate::store::{Chain, Draft, Error, Hash, JournalSize, Loaded, Permit, Place, Store};

/// etcd takes requests of 1.5 MiB, and everything else in one of ours is small.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// The journal of the one who leads.
pub(super) struct EtcdStore {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) guard: Guard,
    /// Up to the last record that is known to be durable.
    pub(super) chain: Chain,
    pub(super) epoch: u64,
    pub(super) node: Box<str>,
    pub(super) keeper: Keeper,
    pub(super) n_bytes_written: u64,
    /// A record that was sent, and of which it is not known whether it is durable.
    pub(super) sent: Option<Sent>,
}

/// A record on its way. It is sent again as it is until its fate is known: etcd compares the head, so it is written
/// once at most.
pub(super) struct Sent {
    bytes: Vec<u8>,
    place: Place,
    txn: TxnRequest,
}

impl EtcdStore {
    fn keys(&self) -> &Keys {
        &self.guard.keys
    }

    fn to_send(&self, permit: &Permit, draft: Draft<'_>) -> Sent {
        let bytes = self.chain.encode(permit.epoch(), &self.node, draft);
        let place = Place { seq: self.chain.place().seq + 1, hash: Hash::of(&bytes) };
        let keys = self.keys();
        let head = value::encode(&HeadValue::of(place));
        let txn = self.guard.txn();
        let txn = txn.then(Op::Put(keys.slot(place.seq), bytes.clone(), 0));
        let txn = txn.then(Op::Put(keys.head(), head, 0)).request();
        Sent { bytes, place, txn }
    }

    /// Sends what is on its way to one member after the other, until one tells what became of it.
    fn send(&mut self, n_tries: usize) -> Result<(), Error> {
        let Some(sent) = self.sent.take() else { return Ok(()) };
        let mut trouble = String::new();
        for _ in 0..n_tries.max(1) {
            self.keeper.goes_on();
            match self.cluster.txn(sent.txn.clone()) {
                Ok(answer) => return self.settled(&answer, sent),
                Err(error) => trouble = error.to_string(),
            }
        }
        self.sent = Some(sent);
        Err(Error::Unsettled(trouble))
    }

    fn settled(&mut self, answer: &leasehold_etcd::TxnResponse, sent: Sent) -> Result<(), Error> {
        match self.guard.judge(answer, Some(sent.place)) {
            Verdict::Held(head_at) | Verdict::DoneBefore(head_at) => {
                self.guard.head_at = head_at;
                self.chain.wrote(self.epoch, &sent.bytes);
                self.n_bytes_written += sent.bytes.len() as u64;
                self.keeper.settled(self.chain.place());
                Ok(())
            }
            verdict => Err(self.fenced(verdict)),
        }
    }

    fn fenced(&self, verdict: Verdict) -> Error {
        match verdict {
            Verdict::Astray(why) => {
                self.keeper.astray(&why);
                Error::Fenced(why)
            }
            Verdict::Lost(why) => Error::Fenced(why),
            Verdict::Held(_) | Verdict::DoneBefore(_) => Error::Fenced("nothing is wrong".into()),
        }
    }
}

impl Store for EtcdStore {
    /// Whoever takes the seat has the state already: see [`super::EtcdSeat`].
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
            // What is in memory of it must go: nobody will ever read it in the journal.
            let n_bytes = sent.bytes.len();
            return Err(Error::Fenced(format!("a record of {n_bytes} bytes is too long for etcd")));
        }
        self.sent = Some(sent);
        self.send(self.cluster.n_members())
    }

    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        let txn = self.guard.txn().request();
        for _ in 0..self.cluster.n_members().max(1) {
            self.keeper.goes_on();
            if let Ok(answer) = self.cluster.txn(txn.clone()) {
                return match self.guard.judge(&answer, None) {
                    Verdict::Held(_) => Ok(()),
                    verdict => Err(self.fenced(verdict)),
                };
            }
        }
        Err(Error::Busy)
    }

    /// Sends the same again. A read could not tell: an earlier try may still be on its way.
    fn settle(&mut self) -> Result<(), Error> {
        self.send(1)
    }

    fn record_bytes_max(&self) -> usize {
        RECORD_BYTES_MAX
    }

    fn is_near(&self) -> bool {
        false
    }

    /// Gives the seat up, so that another node can have it at once.
    fn finish(&mut self) -> Result<(), Error> {
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
            n_records: seq,
            n_bytes_written: self.n_bytes_written,
        }
    }
}
