//! Builds the guarded transactions behind every append and confirmation. They succeed only while this server leads.

use leasehold_core::mutant;
use leasehold_etcd::{Error, KeyValue, Op, Txn, TxnResponse, When};

use super::cluster::Cluster;
use super::head;
use super::keys::Keys;
use crate::shared::LeaderEntry;
use crate::shared::guard::{Guard, Refusal, Tenure};

/// Returns a transaction that succeeds only while the leader key is ours.
pub(super) fn leading(tenure: &Tenure, keys: &Keys) -> Txn {
    if mutant!(SeatNotCompared) {
        return Txn::default();
    }
    // The mutant has no leader key to compare with.
    if mutant!(RestoreWithoutSeat) {
        return Txn::default();
    }
    Txn::default()
        .when(keys.leader(), When::CreatedAt(tenure.number))
        .when(keys.leader(), When::Is(&tenure.value))
}

/// The index of each result in the response, if the conditions do not hold.
const LEADER: usize = 0;
const HEAD: usize = 1;
const REWOUND: usize = 2;

/// Returns a transaction with the conditions only, to which operations can be added. Without any, it is a confirmation.
pub(super) fn guarded(guard: &Guard, keys: &Keys) -> Txn {
    let mut txn = leading(&guard.tenure, keys);
    if !mutant!(HeadNotCompared) {
        txn = txn.when(keys.head(), When::PutAt(guard.head_at));
    }
    txn.when(keys.rewound(), When::Absent)
        .or_else(Op::Get(keys.leader()))
        .or_else(Op::Get(keys.head()))
        .or_else(Op::Get(keys.rewound()))
}

/// Returns the state that such a transaction found when its conditions did not hold.
pub(super) fn refusal(answer: &TxnResponse) -> Refusal {
    Refusal {
        leader: answer.found(LEADER).map(leader_entry),
        head: head(answer.found(HEAD)).unwrap_or_default(),
        is_rewound: answer.found(REWOUND).is_some(),
    }
}

pub(super) fn leader_entry(found: &KeyValue) -> LeaderEntry {
    let KeyValue { create_revision, value, lease, .. } = found;
    LeaderEntry { number: *create_revision, value: value.clone(), is_kept: *lease != 0 }
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
