//! Transactions, put together.

use crate::message::*;

/// A transaction being put together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Txn(TxnRequest);

/// What must be true of a key.
pub enum When<'a> {
    /// It is not there.
    Absent,
    /// It came to be in this revision, and was not deleted since.
    CreatedAt(i64),
    /// It was last put in this revision; 0: it is not there.
    PutAt(i64),
    /// It has this value.
    Is(&'a [u8]),
}

/// What is done with a key or with several.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Read it.
    Get(Vec<u8>),
    /// Read the first so many from one key up to another.
    GetRange(Vec<u8>, Vec<u8>, i64),
    /// Count those from one key up to another.
    Count(Vec<u8>, Vec<u8>),
    /// Put it, with a lease or, 0, without.
    Put(Vec<u8>, Vec<u8>, i64),
    /// Delete it.
    Delete(Vec<u8>),
    /// Delete everything from one key up to another, which stays.
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl Txn {
    /// Only if this is true of the key.
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

    /// If all conditions hold, this is done.
    #[must_use]
    pub fn then(mut self, op: Op) -> Self {
        self.0.success.push(op.into());
        self
    }

    /// If one condition does not hold, this is done.
    #[must_use]
    pub fn or_else(mut self, op: Op) -> Self {
        self.0.failure.push(op.into());
        self
    }

    /// As it is sent.
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
    /// What the `n`th operation read, if it read something that is there.
    pub fn found(&self, n: usize) -> Option<&KeyValue> {
        self.found_all(n).first()
    }

    /// All that the `n`th operation read.
    pub fn found_all(&self, n: usize) -> &[KeyValue] {
        match self.responses.get(n).and_then(|response| response.response.as_ref()) {
            Some(Response::Range(range)) => &range.kvs,
            _ => &[],
        }
    }

    /// How many keys the `n`th operation found, shown or not.
    pub fn n_found(&self, n: usize) -> u64 {
        match self.responses.get(n).and_then(|response| response.response.as_ref()) {
            Some(Response::Range(range)) => range.count.unsigned_abs(),
            _ => 0,
        }
    }

    /// The revision of the store when it was answered.
    pub fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }
}

impl RangeResponse {
    /// The revision of the store when it was answered.
    pub fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }
}
