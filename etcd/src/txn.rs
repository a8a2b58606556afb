//! A builder for transactions.

use crate::message::*;

/// Builds a transaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Txn(TxnRequest);

/// A condition on a key.
pub enum When<'a> {
    /// The key does not exist.
    Absent,
    /// This revision created the key, which was not deleted since.
    CreatedAt(i64),
    /// This revision was the last to write the key; 0 if the key must not exist.
    PutAt(i64),
    /// The key has this value.
    Is(&'a [u8]),
}

/// An operation on one or several keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Reads a key.
    Get(Vec<u8>),
    /// Reads keys from the first key up to the second, exclusive, up to a maximum number.
    GetRange(Vec<u8>, Vec<u8>, i64),
    /// Counts the keys from the first key up to the second, exclusive.
    Count(Vec<u8>, Vec<u8>),
    /// Writes a key with a value, attached to a lease; 0 for no lease.
    Put(Vec<u8>, Vec<u8>, i64),
    /// Deletes a key.
    Delete(Vec<u8>),
    /// Deletes the keys from the first key up to the second, exclusive.
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl Txn {
    /// Adds a condition on a key.
    #[must_use]
    pub fn when(mut self, key: impl Into<Vec<u8>>, when: When<'_>) -> Self {
        let (target, with) = match when {
            When::Absent => (0, Compared::Version(0)),
            When::CreatedAt(revision) => (1, Compared::CreateRevision(revision)),
            When::PutAt(revision) => (2, Compared::ModRevision(revision)),
            When::Is(value) => (3, Compared::Value(value.into())),
        };
        self.0.compare.push(Compare { result: 0, target, key: key.into(), with: Some(with) });
        self
    }

    /// Adds an operation that runs if all conditions hold.
    #[must_use]
    pub fn then(mut self, op: Op) -> Self {
        self.0.success.push(op.into());
        self
    }

    /// Adds an operation that runs if a condition does not hold.
    #[must_use]
    pub fn or_else(mut self, op: Op) -> Self {
        self.0.failure.push(op.into());
        self
    }

    /// Returns the request to send.
    pub fn request(self) -> TxnRequest {
        self.0
    }
}

impl From<Op> for RequestOp {
    fn from(op: Op) -> Self {
        let request = match op {
            Op::Get(key) => Request::Range(RangeRequest { key, ..RangeRequest::default() }),
            Op::GetRange(key, range_end, limit) => {
                Request::Range(RangeRequest { key, range_end, limit, ..RangeRequest::default() })
            }
            Op::Count(key, range_end) => {
                let count_only = true;
                Request::Range(RangeRequest { key, range_end, count_only, ..Default::default() })
            }
            Op::Put(key, value, lease) => Request::Put(PutRequest { key, value, lease }),
            Op::Delete(key) => {
                Request::DeleteRange(DeleteRangeRequest { key, range_end: Vec::new() })
            }
            Op::DeleteRange(key, range_end) => {
                Request::DeleteRange(DeleteRangeRequest { key, range_end })
            }
        };
        Self { request: Some(request) }
    }
}

impl TxnResponse {
    /// Returns the first key that the `n`th operation read, if it found any.
    pub fn found(&self, n: usize) -> Option<&KeyValue> {
        self.found_all(n).first()
    }

    /// Returns all keys that the `n`th operation read.
    pub fn found_all(&self, n: usize) -> &[KeyValue] {
        match self.responses.get(n).and_then(|response| response.response.as_ref()) {
            Some(Response::Range(range)) => &range.kvs,
            _ => &[],
        }
    }

    /// Returns how many keys the `n`th operation found, including keys beyond its limit.
    pub fn n_found(&self, n: usize) -> u64 {
        match self.responses.get(n).and_then(|response| response.response.as_ref()) {
            Some(Response::Range(range)) => range.count.unsigned_abs(),
            _ => 0,
        }
    }

    /// Returns the revision of the store at the time of the response.
    pub fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }
}

impl RangeResponse {
    /// Returns the revision of the store at the time of the response.
    pub fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }
}
