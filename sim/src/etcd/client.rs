//! The simulated etcd as a store uses it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_etcd::{
    Error, Kind, LeaseGrantResponse, RangeRequest, RangeResponse, StatusResponse, TxnRequest,
    TxnResponse,
};
use leasehold_store::etcd::Cluster;

use super::{Etcd, Request, Response};
use crate::time::Time;

/// The response of etcd, or an error.
pub type Answered = Result<Response, Error>;

/// The connection between a store and etcd.
pub trait Wire: Send + Sync {
    /// Makes one attempt.
    fn ask(&self, request: Request) -> Answered;

    /// Returns the number of members, which is the number of attempts that reaches each of them.
    fn n_members(&self) -> usize;

    /// Waits until a watched key might have changed, but at most for `patience`.
    fn wait(&self, patience: Duration);
}

/// A client that uses a connection.
#[derive(Default)]
pub struct Client<W>(pub W);

impl<W: Wire> Cluster for Client<W> {
    fn range(&self, request: RangeRequest) -> Result<RangeResponse, Error> {
        match self.0.ask(Request::Range(request))? {
            Response::Range(range) => Ok(range),
            other => unreachable!("{other:?}"),
        }
    }

    fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Error> {
        match self.0.ask(Request::Txn(request))? {
            Response::Txn(txn) => Ok(txn),
            other => unreachable!("{other:?}"),
        }
    }

    fn lease_grant(&self, ttl: i64) -> Result<LeaseGrantResponse, Error> {
        match self.0.ask(Request::LeaseGrant(ttl))? {
            Response::LeaseGrant(granted) => Ok(granted),
            other => unreachable!("{other:?}"),
        }
    }

    fn lease_keep_alive(&self, id: i64) -> Result<i64, Error> {
        match self.0.ask(Request::LeaseKeepAlive(id))? {
            Response::LeaseKeepAlive(ttl) => Ok(ttl),
            other => unreachable!("{other:?}"),
        }
    }

    fn lease_revoke(&self, id: i64) -> Result<(), Error> {
        self.0.ask(Request::LeaseRevoke(id)).map(drop)
    }

    fn compact(&self, revision: i64) -> Result<(), Error> {
        self.0.ask(Request::Compact(revision)).map(drop)
    }

    /// Reports one status, as if the cluster had one member.
    fn status(&self) -> Vec<Result<StatusResponse, Error>> {
        let status = self.0.ask(Request::Status).map(|answer| match answer {
            Response::Status(status) => status,
            other => unreachable!("{other:?}"),
        });
        vec![status]
    }

    fn n_members(&self) -> usize {
        self.0.n_members()
    }

    fn wait(&self, patience: Duration) {
        self.0.wait(patience);
    }
}

/// A local etcd that responds immediately, and in which time passes only on request. All clones share one state.
#[derive(Clone, Default)]
pub struct Local {
    inner: Arc<Mutex<(Etcd, Time)>>,
    is_cut: Arc<AtomicBool>,
    n_writes_lost: Arc<AtomicUsize>,
    lag: Arc<AtomicI64>,
}

impl Local {
    /// Locks the state. No other thread can access it while the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, (Etcd, Time)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the connection to etcd, or restores it.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, SeqCst);
    }

    /// Returns how many writes were sent while the connection was cut.
    pub fn n_writes_lost(&self) -> usize {
        self.n_writes_lost.load(SeqCst)
    }

    /// Sets how many revisions a member is behind when it serves a local read.
    pub fn lags(&self, lag: i64) {
        self.lag.store(lag, SeqCst);
    }

    /// Lets time pass.
    pub fn pass(&self, span: Time) {
        let mut local = self.lock();
        let (etcd, now) = &mut *local;
        *now += span;
        etcd.expire(*now);
    }
}

impl Wire for Local {
    fn ask(&self, request: Request) -> Answered {
        if self.is_cut.load(SeqCst) {
            let is_write = matches!(&request, Request::Txn(txn) if !txn.success.is_empty());
            self.n_writes_lost.fetch_add(usize::from(is_write), SeqCst);
            return Err(Error::new(Kind::Unknown, "simulated", "cut off"));
        }
        let mut local = self.lock();
        let (etcd, now) = &mut *local;
        etcd.apply(&request, *now, self.lag.load(SeqCst))
    }

    fn n_members(&self) -> usize {
        1
    }

    fn wait(&self, patience: Duration) {
        // No other thread can wake this one.
        std::thread::sleep(patience.min(Duration::from_millis(1)));
    }
}
