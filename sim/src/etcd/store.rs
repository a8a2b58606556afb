//! Keys with all their values since the last compaction.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use leasehold_etcd::{
    Compare, Compared, DeleteRangeResponse, Error, Event, Header, KeyValue, Kind, PutRequest,
    PutResponse, RangeRequest, RangeResponse, Request, RequestOp, Response, ResponseOp, TxnRequest,
    TxnResponse,
};

use super::lease::Leases;
use super::refused;

/// The end of an unbounded range.
const NO_END: &[u8] = &[0];

#[derive(Clone, Debug)]
pub(super) struct Keys {
    revision: i64,
    /// Values from before this revision are compacted.
    compacted: i64,
    /// The values of each key with their revisions. `None`: the key was deleted.
    versions: BTreeMap<Vec<u8>, Vec<(i64, Option<KeyValue>)>>,
}

impl Default for Keys {
    fn default() -> Self {
        Self { revision: 1, compacted: 0, versions: BTreeMap::new() }
    }
}

/// Returns whether a transaction puts anything, in either branch.
pub(super) fn has_puts(txn: &TxnRequest) -> bool {
    let is_put = |op: &RequestOp| matches!(op.request, Some(Request::Put(_)));
    txn.success.iter().chain(&txn.failure).any(is_put)
}

/// Returns whether a member may serve a transaction from its local state. All operations must allow that, which is also
/// true if there is no operation.
fn may_be_stale(txn: &TxnRequest) -> bool {
    let says_so =
        |op: &RequestOp| matches!(&op.request, Some(Request::Range(range)) if range.serializable);
    txn.success.iter().chain(&txn.failure).all(says_so)
}

impl Keys {
    pub(super) fn revision(&self) -> i64 {
        self.revision
    }

    pub(super) fn header(&self) -> Header {
        Header { cluster_id: 1, member_id: 1, revision: self.revision }
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&KeyValue> {
        self.at(key, self.revision)
    }

    fn at(&self, key: &[u8], revision: i64) -> Option<&KeyValue> {
        as_of(self.versions.get(key)?, revision)
    }

    /// Returns the keys in a range, as of a revision.
    fn within<'a>(
        &'a self,
        key: &[u8],
        range_end: &[u8],
        revision: i64,
    ) -> impl Iterator<Item = &'a KeyValue> {
        let end = match range_end {
            [] => Bound::Included(key.to_vec()),
            NO_END => Bound::Unbounded,
            // The range is empty if its end comes first.
            end => Bound::Excluded(end.max(key).to_vec()),
        };
        let found = self.versions.range((Bound::Included(key.to_vec()), end));
        found.filter_map(move |(_, versions)| as_of(versions, revision))
    }

    pub(super) fn range(&self, request: &RangeRequest, lag: i64) -> Result<RangeResponse, Error> {
        let stale = (self.revision - lag).max(self.compacted).max(1);
        let latest = if request.serializable { stale } else { self.revision };
        let revision = if request.revision > 0 { request.revision } else { latest };
        self.check(revision)?;
        Ok(self.read(request, revision))
    }

    fn check(&self, revision: i64) -> Result<(), Error> {
        if revision < self.compacted {
            let why = "mvcc: required revision has been compacted";
            return Err(refused(Kind::Compacted, why));
        }
        if revision > self.revision {
            return Err(refused(Kind::Unknown, "mvcc: required revision is a future revision"));
        }
        Ok(())
    }

    fn read(&self, request: &RangeRequest, revision: i64) -> RangeResponse {
        let RangeRequest { key, range_end, limit, keys_only, count_only, .. } = request;
        let found: Vec<_> = self.within(key, range_end, revision).collect();
        let n_max = if *limit > 0 { *limit as usize } else { usize::MAX };
        let shown = if *count_only { 0 } else { n_max };
        let kvs = found.iter().take(shown).map(|kv| {
            let value = if *keys_only { Vec::new() } else { kv.value.clone() };
            KeyValue { value, ..(*kv).clone() }
        });
        RangeResponse {
            header: Some(self.header()),
            kvs: kvs.collect(),
            more: !count_only && found.len() > n_max,
            count: found.len() as i64,
        }
    }

    pub(super) fn txn(
        &mut self,
        txn: &TxnRequest,
        leases: &mut Leases,
        lag: i64,
    ) -> Result<TxnResponse, Error> {
        let is_stale = may_be_stale(txn) && !has_puts(txn);
        let seen = if is_stale { (self.revision - lag).max(self.compacted) } else { self.revision };
        let succeeded = txn.compare.iter().all(|compare| self.holds(compare, seen));
        let ops = if succeeded { &txn.success } else { &txn.failure };
        check_puts(txn)?;
        for op in ops {
            match &op.request {
                Some(Request::Put(put)) if put.lease != 0 && !leases.has(put.lease) => {
                    return Err(super::no_lease());
                }
                Some(Request::Range(range)) if range.revision > 0 => self.check(range.revision)?,
                _ => {}
            }
        }
        // All writes of a transaction have one revision, and its reads see its earlier writes.
        let (next, mut has_written) = (self.revision + 1, false);
        let mut responses = Vec::new();
        for op in ops {
            let response = match &op.request {
                Some(Request::Range(range)) => {
                    let latest = if has_written { next } else { seen };
                    let revision = if range.revision > 0 { range.revision } else { latest };
                    Some(Response::Range(self.read(range, revision)))
                }
                Some(Request::Put(put)) => {
                    self.put(put, next, leases);
                    has_written = true;
                    Some(Response::Put(PutResponse { header: Some(self.header()) }))
                }
                Some(Request::DeleteRange(range)) => {
                    let revision = if has_written { next } else { self.revision };
                    let gone: Vec<_> = self
                        .within(&range.key, &range.range_end, revision)
                        .map(|kv| (kv.key.clone(), kv.lease))
                        .collect();
                    has_written |= !gone.is_empty();
                    let deleted = gone.len() as i64;
                    for (key, lease) in gone {
                        leases.detach(lease, &key);
                        self.set(key, next, None);
                    }
                    let header = Some(self.header());
                    Some(Response::DeleteRange(DeleteRangeResponse { header, deleted }))
                }
                None => None,
            };
            responses.push(ResponseOp { response });
        }
        self.revision += i64::from(has_written);
        Ok(TxnResponse { header: Some(self.header()), succeeded, responses })
    }

    fn holds(&self, compare: &Compare, revision: i64) -> bool {
        let found = self.at(&compare.key, revision);
        let number = |of: fn(&KeyValue) -> i64| found.map_or(0, of);
        let ordering = match &compare.with {
            Some(Compared::Version(version)) => number(|kv| kv.version).cmp(version),
            Some(Compared::CreateRevision(at)) => number(|kv| kv.create_revision).cmp(at),
            Some(Compared::ModRevision(at)) => number(|kv| kv.mod_revision).cmp(at),
            Some(Compared::Value(value)) => match found {
                Some(kv) => kv.value.cmp(value),
                None => return false,
            },
            None => return false,
        };
        match compare.result {
            0 => ordering.is_eq(),
            1 => ordering.is_gt(),
            2 => ordering.is_lt(),
            _ => ordering.is_ne(),
        }
    }

    fn put(&mut self, put: &PutRequest, revision: i64, leases: &mut Leases) {
        let before = self.versions.get(&put.key).and_then(|versions| versions.last());
        let before = before.and_then(|(_, kv)| kv.as_ref());
        let (create_revision, version) =
            before.map_or((revision, 1), |kv| (kv.create_revision, kv.version + 1));
        if let Some(before) = before {
            leases.detach(before.lease, &put.key);
        }
        leases.attach(put.lease, &put.key);
        let PutRequest { key, value, lease } = put.clone();
        let kv = KeyValue {
            key: key.clone(),
            create_revision,
            mod_revision: revision,
            version,
            value,
            lease,
        };
        self.set(key, revision, Some(kv));
    }

    fn set(&mut self, key: Vec<u8>, revision: i64, kv: Option<KeyValue>) {
        self.versions.entry(key).or_default().push((revision, kv));
    }

    /// Deletes keys in one revision, if there are any.
    pub(super) fn delete_all(&mut self, keys: BTreeSet<Vec<u8>>) {
        self.revision += i64::from(!keys.is_empty());
        keys.into_iter().for_each(|key| self.set(key, self.revision, None));
    }

    pub(super) fn compact(&mut self, revision: i64) -> Result<(), Error> {
        if revision <= self.compacted {
            return Err(refused(Kind::Compacted, "mvcc: required revision has been compacted"));
        }
        self.check(revision)?;
        self.compacted = revision;
        self.versions.retain(|_, versions| {
            let is_current = |n: usize, versions: &[(i64, Option<KeyValue>)]| {
                versions.get(n + 1).is_none_or(|(next, _)| *next > revision)
            };
            let kept = versions
                .iter()
                .enumerate()
                .filter(|(n, (at, kv))| *at > revision || is_current(*n, versions) && kv.is_some());
            *versions = kept.map(|(_, version)| version.clone()).collect();
            !versions.is_empty()
        });
        Ok(())
    }

    pub(super) fn watched(&self, key: &[u8], from: i64) -> Result<Vec<Event>, Error> {
        if from < self.compacted {
            let why = "mvcc: required revision has been compacted";
            return Err(refused(Kind::Compacted, why));
        }
        let versions = self.versions.get(key).into_iter().flatten();
        let event = |(at, kv): &(i64, Option<KeyValue>)| match kv {
            Some(kv) => Event { kind: 0, kv: Some(kv.clone()) },
            None => {
                let gone = KeyValue { key: key.into(), mod_revision: *at, ..KeyValue::default() };
                Event { kind: 1, kv: Some(gone) }
            }
        };
        Ok(versions.filter(|(at, _)| *at >= from).map(event).collect())
    }
}

/// Rejects a transaction that puts a key twice, or deletes and puts it, because the order would be unclear.
fn check_puts(txn: &TxnRequest) -> Result<(), Error> {
    for ops in [&txn.success, &txn.failure] {
        let mut put = BTreeSet::new();
        for op in ops {
            if let Some(Request::Put(request)) = &op.request
                && !put.insert(&request.key)
            {
                return Err(refused(Kind::Unknown, "duplicate key given in txn request"));
            }
        }
        let is_deleted = |op: &RequestOp| match &op.request {
            Some(Request::DeleteRange(range)) => put.iter().any(|key| match &range.range_end[..] {
                [] => **key == range.key,
                // etcd does not check unbounded ranges.
                NO_END => false,
                end => **key >= range.key && key[..] < *end,
            }),
            _ => false,
        };
        if ops.iter().any(is_deleted) {
            return Err(refused(Kind::Unknown, "duplicate key given in txn request"));
        }
    }
    Ok(())
}

fn as_of(versions: &[(i64, Option<KeyValue>)], revision: i64) -> Option<&KeyValue> {
    let last = versions.iter().rev().find(|(at, _)| *at <= revision)?;
    last.1.as_ref()
}
