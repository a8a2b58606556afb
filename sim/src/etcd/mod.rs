//! A simulated etcd: revisions, leases, transactions, compaction and watches. Messages to and from it are simulated in
//! `crate::cluster`.
//!
//! It responds like a healthy cluster, and tests compare it with a real one. Faults have to be requested explicitly: a
//! lease that ends early, a member that is behind, an alarm, a rolled back state.

mod client;
mod lease;
mod store;

use leasehold_etcd::{
    Error, Kind, LeaseGrantResponse, RangeRequest, RangeResponse, StatusResponse, TxnRequest,
    TxnResponse,
};

use crate::time::{SECOND, Time};
pub use client::{Answered, Client, Local, Wire};
use lease::Leases;
use store::Keys;

/// The minimum TTL of a lease in seconds, whatever the request contains.
pub const TTL_MIN: i64 = 2;

/// The whole state of etcd. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Etcd {
    keys: Keys,
    leases: Leases,
    /// Whether etcd has no space, so that it rejects puts and new leases.
    pub is_full: bool,
}

/// A request to etcd.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as in etcd")]
pub enum Request {
    Range(RangeRequest),
    Txn(TxnRequest),
    LeaseGrant(i64),
    LeaseKeepAlive(i64),
    LeaseRevoke(i64),
    Compact(i64),
    Status,
}

/// A response of etcd.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "as in etcd")]
pub enum Response {
    Range(RangeResponse),
    Txn(TxnResponse),
    LeaseGrant(LeaseGrantResponse),
    LeaseKeepAlive(i64),
    LeaseRevoke,
    Compact,
    Status(StatusResponse),
}

impl Etcd {
    /// Returns an empty etcd.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the current revision.
    pub fn revision(&self) -> i64 {
        self.keys.revision()
    }

    /// Applies a request at this time. A member that serves a local read is `lag` revisions behind.
    pub fn apply(&mut self, request: &Request, now: Time, lag: i64) -> Result<Response, Error> {
        let writes = match request {
            Request::Txn(txn) => store::has_puts(txn),
            Request::LeaseGrant(_) => true,
            _ => false,
        };
        if writes && self.is_full {
            return Err(refused(Kind::NoSpace, "mvcc: database space exceeded"));
        }
        match request {
            Request::Range(range) => self.keys.range(range, lag).map(Response::Range),
            Request::Txn(txn) => self.keys.txn(txn, &mut self.leases, lag).map(Response::Txn),
            Request::LeaseGrant(ttl) => {
                let ttl = (*ttl).max(TTL_MIN);
                let id = self.leases.grant(ttl, now + ttl as Time * SECOND);
                let header = Some(self.keys.header());
                Ok(Response::LeaseGrant(LeaseGrantResponse { header, id, ttl }))
            }
            Request::LeaseKeepAlive(id) => {
                self.leases.keep(*id, now).map(Response::LeaseKeepAlive).ok_or_else(no_lease)
            }
            Request::LeaseRevoke(id) => {
                self.revoke(*id).then_some(Response::LeaseRevoke).ok_or_else(no_lease)
            }
            Request::Compact(revision) => self.keys.compact(*revision).map(|()| Response::Compact),
            Request::Status => {
                let alarm = self.is_full.then(|| "memberID:1 alarm:NOSPACE ".into());
                let (header, errors) = (Some(self.keys.header()), alarm.into_iter().collect());
                Ok(Response::Status(StatusResponse { header, errors, ..StatusResponse::default() }))
            }
        }
    }

    /// Revokes a lease, which deletes its keys. Returns whether there was one.
    pub fn revoke(&mut self, id: i64) -> bool {
        let Some(keys) = self.leases.end(id) else { return false };
        self.keys.delete_all(keys);
        true
    }

    /// Ends every lease that is due.
    pub fn expire(&mut self, now: Time) {
        for id in self.leases.over(now) {
            self.revoke(id);
        }
    }

    /// Returns when the next lease expires.
    pub fn next_expiry(&self) -> Option<Time> {
        self.leases.next_over()
    }

    /// Restarts the TTL of every lease, as after a leader change in etcd or a start from a snapshot.
    pub fn renew_all(&mut self, now: Time) {
        self.leases.renew_all(now);
    }

    /// Returns the ids of all leases.
    pub fn lease_ids(&self) -> Vec<i64> {
        self.leases.ids()
    }

    /// Returns the current value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&leasehold_etcd::KeyValue> {
        self.keys.get(key)
    }

    /// Returns the events of a key from a revision on.
    pub fn watched(&self, key: &[u8], from: i64) -> Result<Vec<leasehold_etcd::Event>, Error> {
        self.keys.watched(key, from)
    }
}

fn refused(kind: Kind, why: &str) -> Error {
    Error::new(kind, "simulated", format!("etcdserver: {why}"))
}

fn no_lease() -> Error {
    refused(Kind::LeaseGone, "requested lease not found")
}
