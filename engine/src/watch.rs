//! Watches a single lease. A client that proves that the lease is its own is told when it ends, even without the right
//! to read the lock.

use std::collections::HashMap;

use leasehold_core::{Dialect, Fact, LeaseNumber, LeaseView, Proof, Prove, Rejection, What};
use tokio::sync::watch;

use super::batch::Batch;
use super::read::Look;
use super::writer::Writer;

/// Starts watching a lease.
#[derive(Clone, Debug)]
pub struct WatchLease {
    /// The lease, and the proof that it is the client's.
    pub proof: Proof,
    /// The dialect of the lease.
    pub dialect: Dialect,
}

/// A watched lease.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The lease, which is active.
    pub lease: Box<LeaseView>,
    /// How the lease ended; `None` while it is active.
    pub ended: watch::Receiver<Option<Fact>>,
}

/// The watchers by lease. An entry is removed when its lease ends, so there are never more than active leases.
#[derive(Default)]
pub(super) struct Watchers {
    by_lease: HashMap<LeaseNumber, watch::Sender<Option<Fact>>>,
}

impl Watchers {
    fn add(&mut self, lease: LeaseNumber) -> watch::Receiver<Option<Fact>> {
        self.by_lease.entry(lease).or_insert_with(|| watch::Sender::new(None)).subscribe()
    }

    /// Notifies the watchers of a lease that has ended.
    pub(super) fn tell(&mut self, fact: &Fact) {
        if self.by_lease.is_empty() || !matches!(fact.what, What::Ended(_)) {
            return;
        }
        if let Some(watchers) = self.by_lease.remove(&fact.lease) {
            watchers.send_replace(Some(fact.clone()));
        }
    }
}

impl Look for WatchLease {
    type Found = Result<Watched, Rejection>;

    fn look(self, writer: &mut Writer, batch: &mut Batch) -> Self::Found {
        let WatchLease { proof, dialect } = self;
        let lease = writer.apply(Prove { proof, dialect }, batch)?;
        // Registered before the batch ends, so every later end of the lease is reported.
        let ended = writer.watchers.add(lease.id.number);
        Ok(Watched { lease, ended })
    }
}
