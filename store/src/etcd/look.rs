//! One look at etcd: who leads, how far the journal goes and what comes next in it, at one revision and by a quorum.

use leasehold_base::clock::Clock;
use leasehold_core::mutant;
use leasehold_etcd::{KeyValue, Op, Txn, TxnResponse};

use super::cluster::Cluster;
use super::keys::Keys;
use super::value::{self, Drained, HeadValue};
use crate::{Error, Place};

/// Records that are read at once: together no more than an answer may have.
const RECORDS_MAX: i64 = 32;

/// The places of what is read.
const LEADER: usize = 0;
const HEAD: usize = 1;
const SLOTS: usize = 2;
const REWOUND: usize = 3;
const ID: usize = 4;
const CLOSED: usize = 5;
const PAUSE: usize = 6;
const DRAINS: usize = 7;

/// What one look shows.
pub(super) struct Look {
    answer: TxnResponse,
    /// When it was read.
    pub(super) received: u64,
}

impl Look {
    /// Everything from the record `from` on, as far as it fits.
    pub(super) fn take(
        cluster: &dyn Cluster,
        keys: &Keys,
        clock: &dyn Clock,
        from: u64,
    ) -> Result<Self, String> {
        let (first, end) = keys.slots_from(from);
        let txn = Txn::default()
            .then(Op::Get(keys.leader()))
            .then(Op::Get(keys.head()))
            .then(Op::GetRange(first, end, RECORDS_MAX))
            .then(Op::Get(keys.rewound()))
            .then(Op::Get(keys.id()))
            .then(Op::Get(keys.closed()))
            .then(Op::Get(keys.pause()))
            .then(Op::GetRange(keys.drains().0, keys.drains().1, 0))
            .request();
        let txn = if mutant!(LookStale) { super::store::stale(txn) } else { txn };
        let asked = clock.boottime();
        let answer = cluster.txn(txn).map_err(|error| error.to_string())?;
        let received = if mutant!(ReceivedWhenAsked) { asked } else { clock.boottime() };
        Ok(Self { answer, received })
    }

    pub(super) fn leader(&self) -> Option<&KeyValue> {
        self.answer.found(LEADER)
    }

    pub(super) fn slots(&self) -> &[KeyValue] {
        self.answer.found_all(SLOTS)
    }

    pub(super) fn is_rewound(&self) -> bool {
        self.answer.found(REWOUND).is_some()
    }

    /// Is the store still the one of which these bytes say which it is?
    pub(super) fn is_of(&self, id: &[u8]) -> bool {
        self.answer.found(ID).is_some_and(|found| found.value == id)
    }

    /// Where the store has moved to, if it has.
    pub(super) fn moved_to(&self) -> Option<String> {
        self.answer.found(CLOSED).map(value::moved_to)
    }

    /// Is nobody to take the seat?
    pub(super) fn is_paused(&self) -> bool {
        self.answer.found(PAUSE).is_some()
    }

    /// Is this node not to take the seat, and why?
    pub(super) fn drained(&self, keys: &Keys, node: &str) -> Option<Drained> {
        let key = keys.drain(node);
        let found = self.answer.found_all(DRAINS).iter().find(|found| found.key == key)?;
        let is_all = found.value == Drained::Wholly.word().as_bytes();
        Some(if is_all { Drained::Wholly } else { Drained::OfLeading })
    }

    /// Are records missing after this place?
    pub(super) fn is_gap(&self, keys: &Keys, place: Place) -> bool {
        let first = self.slots().first().and_then(|slot| keys.seq_of(&slot.key));
        first.is_some_and(|first| first > place.seq + 1) && !mutant!(ApplyOverGap)
    }

    /// How far the journal goes.
    pub(super) fn head(&self, keys: &Keys) -> Result<Place, Error> {
        let wiped = || {
            format!(
                "the store under {} is gone from etcd: restore a backup of it (leasehold restore BACKUP --store ...)",
                keys.prefix()
            )
        };
        let found = self.answer.found(HEAD).ok_or_else(|| Error::Refused(wiped()))?;
        let head: HeadValue = value::decode(&found.key, &found.value).map_err(Error::Refused)?;
        head.place().ok_or_else(|| Error::Refused("the head of the journal is no head".into()))
    }

    /// The revision in which the head was last put.
    pub(super) fn head_at(&self) -> i64 {
        self.answer.found(HEAD).map_or(0, |found| found.mod_revision)
    }
}
