//! A new store. Nothing else ever makes one: a prefix that was emptied must not become a store with tokens from 1.

use leasehold_etcd::{Op, Options, RangeRequest, Txn, When};

use super::cluster::{Cluster, Remote};
use super::keys::Keys;
use super::value::{self, FORMAT, HeadValue, Id, hex};
use crate::store::{Error, Place};

/// Reaches etcd for a store under this prefix.
pub fn connect(options: Options, prefix: &str) -> Result<Remote, Error> {
    let keys = Keys::new(prefix);
    Remote::connect(options, vec![keys.head(), keys.leader()]).map_err(Error::Refused)
}

/// Makes a store under this prefix, where nothing may be yet.
pub fn init(cluster: &dyn Cluster, prefix: &str) -> Result<(), Error> {
    let keys = Keys::new(prefix);
    let unreachable = |error: leasehold_etcd::Error| Error::Refused(error.to_string());
    let (key, range_end) = keys.all();
    let all = RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() };
    let n_keys = cluster.range(all).map_err(unreachable)?.count;
    let taken = |n_keys: i64| {
        let prefix = keys.prefix();
        Error::Refused(format!(
            "there is something under {prefix} in etcd already ({n_keys} keys): a store is made where nothing is"
        ))
    };
    if n_keys > 0 {
        return Err(taken(n_keys));
    }
    let store: [u8; 16] = crate::random::bytes();
    // Shown to clients as a number that JavaScript can hold.
    let generation = u64::from_le_bytes(crate::random::bytes()) >> 11;
    let id = value::encode(&Id { store: hex(&store), generation, format: FORMAT });
    let head = value::encode(&HeadValue::of(Place::default()));
    let txn = Txn::default()
        .when(keys.id(), When::Absent)
        .when(keys.head(), When::Absent)
        .then(Op::Put(keys.id(), id.clone(), 0))
        .then(Op::Put(keys.head(), head, 0))
        .or_else(Op::Get(keys.id()))
        .request();
    let mut trouble = None;
    for _ in 0..=cluster.n_members() {
        match cluster.txn(txn.clone()) {
            Ok(answer) if answer.succeeded => return Ok(()),
            // An earlier try has done it.
            Ok(answer) if answer.found(0).is_some_and(|found| found.value == id) => return Ok(()),
            Ok(_) => return Err(taken(1)),
            Err(error) => trouble = Some(error),
        }
    }
    Err(trouble.map_or_else(|| taken(0), unreachable))
}
