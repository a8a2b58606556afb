//! A simulated etcd as a store asks it.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_etcd::{
    Error, Kind, LeaseGrantResponse, RangeRequest, RangeResponse, StatusResponse, TxnRequest,
    TxnResponse,
};
use leasehold_store::etcd::Cluster;

use super::{Etcd, Request, Response};
use crate::time::Time;

/// What etcd answers, or that it does not.
pub type Answered = Result<Response, Error>;

/// What is between a store and etcd.
pub trait Wire: Send + Sync {
    /// One try.
    fn ask(&self, request: Request) -> Answered;

    /// So many tries reach every member.
    fn n_members(&self) -> usize;

    /// Waits until something that is watched may have changed, but no longer than this.
    fn wait(&self, patience: Duration);
}

/// Whoever asks over a wire.
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

    /// Its members are one.
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

/// An etcd that does at once what it is asked, and in which no time passes unless somebody says so. All clones are one.
#[derive(Clone, Default)]
pub struct Local {
    inner: Arc<Mutex<(Etcd, Time)>>,
    is_cut: Arc<AtomicBool>,
    lag: Arc<AtomicI64>,
}

impl Local {
    /// Nobody else has it as long as this lives.
    pub fn lock(&self) -> MutexGuard<'_, (Etcd, Time)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on nothing reaches it, or everything does.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, SeqCst);
    }

    /// From here on a member that is asked for what it has is so many revisions behind.
    pub fn lags(&self, lag: i64) {
        self.lag.store(lag, SeqCst);
    }

    /// Time passes.
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
        // There is nobody to be woken by.
        std::thread::sleep(patience.min(Duration::from_millis(1)));
    }
}
