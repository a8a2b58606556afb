//! What makes an append or a confirmation ours and nobody else's: one transaction, put together in one place.

use leasehold_core::mutant;
use leasehold_etcd::{Error, KeyValue, Op, Txn, TxnResponse, When};

use super::cluster::Cluster;
use super::keys::Keys;
use super::value::{self, HeadValue, LeaderValue};
use crate::Place;

/// The seat while we have it: the revision in which the key came to be, and its value, which has a nonce. etcd's
/// revisions repeat when it is restored from a snapshot; a nonce does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tenure {
    pub(super) created_at: i64,
    pub(super) value: Vec<u8>,
}

impl Tenure {
    /// A transaction that does something only while the seat is ours.
    pub(super) fn txn(&self, keys: &Keys) -> Txn {
        if mutant!(SeatNotCompared) {
            return Txn::default();
        }
        // There is none to compare.
        if mutant!(RestoreWithoutSeat) {
            return Txn::default();
        }
        Txn::default()
            .when(keys.leader(), When::CreatedAt(self.created_at))
            .when(keys.leader(), When::Is(&self.value))
    }

    /// Is this the seat as we took it?
    pub(super) fn is(&self, leader: &KeyValue) -> bool {
        leader.create_revision == self.created_at && leader.value == self.value
    }
}

/// Sends a transaction that puts this value under this key until a member answers: in which revision the value was put,
/// by this or an earlier try; `None`: its conditions do not hold. No two values may be equal, so each has a nonce.
pub(super) fn put_once(
    cluster: &dyn Cluster,
    txn: Txn,
    (key, value): (Vec<u8>, &[u8]),
) -> Result<Option<i64>, Error> {
    let txn = txn.or_else(Op::Get(key)).request();
    let mut tried = 0;
    loop {
        match cluster.txn(txn.clone()) {
            Ok(answer) if answer.succeeded => return Ok(Some(answer.revision())),
            Ok(answer) => {
                let ours = answer.found(0).filter(|found| found.value == value);
                return Ok(ours.map(|ours| ours.mod_revision));
            }
            Err(error) if tried == cluster.n_members() => return Err(error),
            Err(_) => tried += 1,
        }
    }
}

/// What must be true of etcd for anything of ours to count.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) keys: Keys,
    pub(super) tenure: Tenure,
    /// The revision in which the head was last put.
    pub(super) head_at: i64,
}

/// What a guarded transaction came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Everything is as we know it. The head was put in this revision if the transaction put it.
    Held(i64),
    /// An earlier try has put the head, in this revision.
    DoneBefore(i64),
    /// Somebody else leads, or nobody.
    Lost(String),
    /// The seat is ours, but the journal is not as we left it.
    Astray(String),
}

/// The places of what is read if the guard does not hold.
const LEADER: usize = 0;
const HEAD: usize = 1;
const REWOUND: usize = 2;

impl Guard {
    /// The transaction for what is still to be added. Nothing added: a confirmation.
    pub(super) fn txn(&self) -> Txn {
        let Self { keys, tenure, head_at } = self;
        let mut txn = tenure.txn(keys);
        if !mutant!(HeadNotCompared) {
            txn = txn.when(keys.head(), When::PutAt(*head_at));
        }
        txn.when(keys.rewound(), When::Absent)
            .or_else(Op::Get(keys.leader()))
            .or_else(Op::Get(keys.head()))
            .or_else(Op::Get(keys.rewound()))
    }

    /// What such a transaction came to, if it was to put this place as the head, or nothing.
    pub(super) fn judge(&self, answer: &TxnResponse, put: Option<Place>) -> Verdict {
        if answer.succeeded {
            return Verdict::Held(if put.is_some() { answer.revision() } else { self.head_at });
        }
        let leader = answer.found(LEADER);
        if !leader.is_some_and(|leader| self.tenure.is(leader)) {
            return Verdict::Lost(match leader {
                Some(leader) => match value::decode::<LeaderValue>(&leader.key, &leader.value) {
                    Ok(LeaderValue { node, address, .. }) => format!("{node} leads, at {address}"),
                    Err(why) => why,
                },
                None => "nobody leads; the seat was lost".into(),
            });
        }
        let head = answer.found(HEAD);
        if let (Some(head), Some(put)) = (head, put)
            && head.value == value::encode(&HeadValue::of(put))
            && head.mod_revision != self.head_at
        {
            return Verdict::DoneBefore(head.mod_revision);
        }
        if answer.found(REWOUND).is_some() {
            return Verdict::Astray("etcd was put back to an earlier state".into());
        }
        let head = head.map(|head| String::from_utf8_lossy(&head.value).into_owned());
        Verdict::Astray(format!("the head of the journal is {head:?}"))
    }
}
