//! Creates a new store. No other code does: an emptied prefix must not become a store whose tokens start at 1.

use std::path::Path;

use leasehold_etcd::{Client, KeyValue, Op, Options, RangeRequest, Txn, When};

use super::cluster::{Cluster, Remote};
use super::guard::put_once;
use super::keys::Keys;
use super::memory::Noted;
use super::value::{self, FORMAT, HeadValue, Id};
use crate::{Error, Place};

/// Connects to etcd, for a store under this prefix.
pub fn connect(options: Options, prefix: &str) -> Result<Remote, Error> {
    let keys = Keys::new(prefix);
    Remote::connect(options, vec![keys.head(), keys.leader()]).map_err(Error::Refused)
}

/// Counts the keys under this prefix.
pub async fn n_keys(client: &Client, prefix: &str) -> Result<i64, leasehold_etcd::Error> {
    let mut n_tries = client.n_members();
    loop {
        n_tries -= 1;
        match client.range(counting(prefix)).await {
            // After an error, the next attempt reaches the next member.
            Err(_) if n_tries > 0 => {}
            found => return found.map(|found| found.count),
        }
    }
}

fn counting(prefix: &str) -> RangeRequest {
    let (key, range_end) = Keys::new(prefix).all();
    RangeRequest { key, range_end, count_only: true, ..RangeRequest::default() }
}

/// Creates a store under this prefix, which must be empty.
pub fn init(cluster: &dyn Cluster, prefix: &str) -> Result<(), Error> {
    let keys = Keys::new(prefix);
    let unreachable = |error: leasehold_etcd::Error| Error::Refused(error.to_string());
    let n_keys = cluster.range(counting(prefix)).map_err(unreachable)?.count;
    if n_keys > 0 {
        return Err(taken(&keys, n_keys));
    }
    check_apart(cluster, &keys)?;
    let id = value::encode(&Id::new(leasehold_base::random::bytes(), 0, 0));
    let head = value::encode(&HeadValue::of(Place::default()));
    let txn = Txn::default()
        .when(keys.id(), When::Absent)
        .when(keys.head(), When::Absent)
        .then(Op::Put(keys.id(), id.clone(), 0))
        .then(Op::Put(keys.head(), head, 0));
    let put = put_once(cluster, txn, (keys.id(), &id)).map_err(unreachable)?;
    put.map(drop).ok_or_else(|| taken(&keys, 1))
}

/// Returns the error for a prefix that is not empty.
pub(super) fn taken(keys: &Keys, n_keys: i64) -> Error {
    let prefix = keys.prefix();
    Error::Refused(format!(
        "{prefix} is not empty in etcd ({n_keys} keys); choose an unused prefix"
    ))
}

/// Fails if a store under these keys would lie inside another store, which might delete unknown keys.
pub(super) fn check_apart(cluster: &dyn Cluster, keys: &Keys) -> Result<(), Error> {
    let around = keys.around();
    if around.is_empty() {
        return Ok(());
    }
    let ids = around.iter().fold(Txn::default(), |txn, keys| txn.then(Op::Get(keys.id())));
    let unreachable = |error: leasehold_etcd::Error| Error::Refused(error.to_string());
    let answer = cluster.txn(ids.request()).map_err(unreachable)?;
    let is_store = |n: &usize| {
        let found = answer.found(*n);
        found.is_some_and(|found| value::decode::<Id>(&found.key, &found.value).is_ok())
    };
    let Some(n) = (0..around.len()).find(is_store) else { return Ok(()) };
    Err(Error::Refused(format!(
        "{} is inside the store under {}; choose a separate prefix, such as {}",
        keys.prefix(),
        around[n].prefix(),
        keys.beside()
    )))
}

/// Reads the id of the store, decoded and as bytes. Returns `None` if there is no store. The error states in words why
/// the id cannot be read, at all or by this version.
pub(super) fn find(cluster: &dyn Cluster, keys: &Keys) -> Result<Option<(Id, Vec<u8>)>, String> {
    let txn = Txn::default().then(Op::Get(keys.id())).request();
    let answer = cluster.txn(txn).map_err(|error| error.to_string())?;
    let Some(found) = answer.found(0) else { return Ok(None) };
    Ok(Some((read(keys, found)?, found.value.clone())))
}

/// Decodes the id of a store.
pub(super) fn read(keys: &Keys, found: &KeyValue) -> Result<Id, String> {
    serde_json::from_slice(&found.value).map_err(|error| {
        let key = String::from_utf8_lossy(&found.key);
        format!(
            "cannot read the value of {key}, which identifies the store under {}: {error}. Stop all servers, delete \
             the key (etcdctl del {key}) and restore a backup (leasehold restore BACKUP --store ...)",
            keys.prefix()
        )
    })
}

/// Fails if this version cannot read the store.
pub(super) fn check_format(keys: &Keys, id: &Id) -> Result<(), Error> {
    if id.format <= FORMAT {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the store under {} has format {}, but this program (version {}) reads only formats up to {FORMAT}, so it can \
         neither lead nor follow; install a newer version on this machine",
        keys.prefix(),
        id.format,
        env!("CARGO_PKG_VERSION")
    )))
}

/// Returns the error for a store that does not exist.
pub(super) fn missing(keys: &Keys) -> Error {
    Error::Refused(format!(
        "there is no store under {} in etcd. If there was one, restore a backup of it (leasehold restore BACKUP \
         --store ...); otherwise create one, whose tokens start at 1 (leasehold init --store)",
        keys.prefix()
    ))
}

/// Returns the error for a store that does not exist but that this server remembers.
pub(super) fn lost(keys: &Keys, noted: &Noted) -> Error {
    Error::Refused(format!(
        "there is no store under {} in etcd, but this server has seen {noted}; restore a backup of it (leasehold \
         restore BACKUP --store ...). A new store would grant the same tokens again",
        keys.prefix()
    ))
}

/// Returns the error for a data directory that belongs to a node of another store.
pub(super) fn foreign(data: &Path, keys: &Keys, noted: &Noted, id: &Id) -> Error {
    let (data, prefix, store) = (data.display(), keys.prefix(), &id.store);
    Error::Refused(format!(
        "{data} belongs to another store: it has a record of {noted}, but {prefix} in etcd contains {store}. If that \
         store was created because the other was lost, it grants the same tokens again: stop all servers, delete it \
         (etcdctl del --prefix {prefix}) and restore a backup of the other one (leasehold restore BACKUP --store \
         ...). If this server should join {store}, give it an empty data directory (--data)"
    ))
}
