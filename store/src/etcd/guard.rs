//! Builds the guarded transaction behind every append and confirmation. It succeeds only while this server leads.

use leasehold_core::mutant;
use leasehold_etcd::{Error, KeyValue, Op, Txn, TxnResponse, When};

use super::cluster::Cluster;
use super::keys::Keys;
use super::value::{self, HeadValue, LeaderValue};
use crate::Place;

/// Our leadership: the creation revision of the leader key and its value, which contains a nonce. etcd's revisions can
/// repeat after etcd is restored from a snapshot; a nonce does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Tenure {
    pub(super) created_at: i64,
    pub(super) value: Vec<u8>,
}

impl Tenure {
    /// Returns a transaction that succeeds only while the leader key is ours.
    pub(super) fn txn(&self, keys: &Keys) -> Txn {
        if mutant!(SeatNotCompared) {
            return Txn::default();
        }
        // The mutant has no leader key to compare with.
        if mutant!(RestoreWithoutSeat) {
            return Txn::default();
        }
        Txn::default()
            .when(keys.leader(), When::CreatedAt(self.created_at))
            .when(keys.leader(), When::Is(&self.value))
    }

    /// Returns whether this leader key is the one we created.
    pub(super) fn is(&self, leader: &KeyValue) -> bool {
        leader.create_revision == self.created_at && leader.value == self.value
    }
}

/// Sends a transaction that puts this value under this key, until a member responds. Returns the revision in which this
/// or an earlier attempt put the value, or `None` if the conditions do not hold. Values must be distinct, so each
/// contains a nonce.
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

/// The conditions on the state of etcd under which our transactions succeed.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) keys: Keys,
    pub(super) tenure: Tenure,
    /// The revision in which the head was last put.
    pub(super) head_at: i64,
}

/// The outcome of a guarded transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The conditions hold. If the transaction put the head, it did so in this revision.
    Held(i64),
    /// An earlier attempt has put the head, in this revision.
    DoneBefore(i64),
    /// Another server leads, or none does.
    Lost(String),
    /// The leader key is ours, but the journal is not as we left it.
    Astray(String),
}

/// The index of each result in the response, if the conditions do not hold.
const LEADER: usize = 0;
const HEAD: usize = 1;
const REWOUND: usize = 2;

impl Guard {
    /// Returns a transaction with the conditions only, to which operations can be added. Without any, it is a
    /// confirmation.
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

    /// Evaluates the response to such a transaction. `put` is the place that it was to put as the head, if any.
    pub(super) fn judge(&self, answer: &TxnResponse, put: Option<Place>) -> Verdict {
        if answer.succeeded {
            return Verdict::Held(if put.is_some() { answer.revision() } else { self.head_at });
        }
        let leader = answer.found(LEADER);
        if !leader.is_some_and(|leader| self.tenure.is(leader)) {
            return Verdict::Lost(match leader {
                Some(leader) => match value::decode::<LeaderValue>(&leader.key, &leader.value) {
                    Ok(LeaderValue { node, address, .. }) => {
                        format!("{node} is the leader, at {address}")
                    }
                    Err(why) => why,
                },
                None => "the cluster has no leader; leadership was lost".into(),
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
            return Verdict::Astray("etcd was rolled back to an earlier state".into());
        }
        let head = head.map(|head| String::from_utf8_lossy(&head.value).into_owned());
        Verdict::Astray(format!("the head of the journal is {head:?}"))
    }
}
