//! One read of etcd by a quorum, at one revision: the leader, the position of the journal's head, and the next records.

use leasehold_base::clock::Clock;
use leasehold_core::mutant;
use leasehold_etcd::{KeyValue, Op, Txn, TxnResponse};

use super::cluster::Cluster;
use super::keys::Keys;
use super::value::{self, Drained, HeadValue};
use crate::{Error, Place};

/// Maximum records in one read, so that the response does not exceed etcd's size limit.
const RECORDS_MAX: i64 = 32;

/// The index of each result in the response.
const LEADER: usize = 0;
const HEAD: usize = 1;
const SLOTS: usize = 2;
const REWOUND: usize = 3;
const ID: usize = 4;
const CLOSED: usize = 5;
const PAUSE: usize = 6;
const DRAINS: usize = 7;

/// The result of one read.
pub(super) struct Look {
    answer: TxnResponse,
    /// When the response was received, by this machine's boottime.
    pub(super) received: u64,
}

impl Look {
    /// Reads the records from `from` on, as many as fit, and everything else that a node checks regularly.
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

    /// Returns whether the id of the store still has this value.
    pub(super) fn is_of(&self, id: &[u8]) -> bool {
        self.answer.found(ID).is_some_and(|found| found.value == id)
    }

    /// Returns where the store has moved to, if it has.
    pub(super) fn moved_to(&self) -> Option<String> {
        self.answer.found(CLOSED).map(value::moved_to)
    }

    /// Returns whether leader changes are paused.
    pub(super) fn is_paused(&self) -> bool {
        self.answer.found(PAUSE).is_some()
    }

    /// Returns how this node is drained, if it is.
    pub(super) fn drained(&self, keys: &Keys, node: &str) -> Option<Drained> {
        let key = keys.drain(node);
        let found = self.answer.found_all(DRAINS).iter().find(|found| found.key == key)?;
        let is_all = found.value == Drained::Wholly.word().as_bytes();
        Some(if is_all { Drained::Wholly } else { Drained::OfLeading })
    }

    /// Returns whether records are missing after this place.
    pub(super) fn is_gap(&self, keys: &Keys, place: Place) -> bool {
        let first = self.slots().first().and_then(|slot| keys.seq_of(&slot.key));
        first.is_some_and(|first| first > place.seq + 1) && !mutant!(ApplyOverGap)
    }

    /// Returns the position of the journal's head.
    pub(super) fn head(&self, keys: &Keys) -> Result<Place, Error> {
        let wiped = || {
            format!(
                "the store under {} is missing from etcd; restore a backup of it (leasehold restore BACKUP --store \
                 ...)",
                keys.prefix()
            )
        };
        let found = self.answer.found(HEAD).ok_or_else(|| Error::Refused(wiped()))?;
        let head: HeadValue = value::decode(&found.key, &found.value).map_err(Error::Refused)?;
        head.place().ok_or_else(|| Error::Refused("the journal head is malformed".into()))
    }

    /// Returns the revision in which the head was last put.
    pub(super) fn head_at(&self) -> i64 {
        self.answer.found(HEAD).map_or(0, |found| found.mod_revision)
    }
}
