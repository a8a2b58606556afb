//! An etcd without anything around it: revisions, leases, transactions, compaction, watches. Whatever happens to
//! messages on the way to it and back is not its concern: see `crate::cluster`.
//!
//! It says what a healthy cluster would say, and the tests hold it to what a real one says. What a sick one does is
//! asked for by name: a lease that ends early, a member that is behind, an alarm, a state that is put back.

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

/// No lease is shorter, in seconds, whatever was asked for.
pub const TTL_MIN: i64 = 2;

/// All of it. A copy is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Etcd {
    keys: Keys,
    leases: Leases,
    /// It has no room: nothing can be put, and no lease granted.
    pub is_full: bool,
}

/// What is asked of it.
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

/// What it answers.
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
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The revision it is at.
    pub fn revision(&self) -> i64 {
        self.keys.revision()
    }

    /// Does what is asked, at this time. A member that is asked for what it has, without asking others, is so many
    /// revisions behind.
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

    /// Ends a lease, and with it its keys. Was there one?
    pub fn revoke(&mut self, id: i64) -> bool {
        let Some(keys) = self.leases.end(id) else { return false };
        self.keys.delete_all(keys);
        true
    }

    /// Ends every lease whose time is over.
    pub fn expire(&mut self, now: Time) {
        for id in self.leases.over(now) {
            self.revoke(id);
        }
    }

    /// When the next lease is over.
    pub fn next_expiry(&self) -> Option<Time> {
        self.leases.next_over()
    }

    /// Its leader has changed, or it was started from a snapshot: every lease begins anew.
    pub fn renew_all(&mut self, now: Time) {
        self.leases.renew_all(now);
    }

    /// Every lease there is.
    pub fn lease_ids(&self) -> Vec<i64> {
        self.leases.ids()
    }

    /// A key as it is now.
    pub fn get(&self, key: &[u8]) -> Option<&leasehold_etcd::KeyValue> {
        self.keys.get(key)
    }

    /// What a watch of a key from a revision on has to tell by now.
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
