//! Watching one's own lease: whoever proves it theirs is told when it ends, whatever else they may read.

use std::collections::HashMap;

use leasehold_core::{Dialect, Fact, LeaseNumber, LeaseView, Proof, Prove, Rejection, What};
use tokio::sync::watch;

use super::batch::Batch;
use super::read::Look;
use super::writer::Writer;

/// Be told when a lease ends.
#[derive(Clone, Debug)]
pub struct WatchLease {
    /// Which lease, and by what right.
    pub proof: Proof,
    /// Through which protocol.
    pub dialect: Dialect,
}

/// A lease that is watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// As it is now: active.
    pub lease: Box<LeaseView>,
    /// How it ended, once it has.
    pub ended: watch::Receiver<Option<Fact>>,
}

/// Who watches which lease. An entry goes when its lease ends, so there are never more than active leases.
#[derive(Default)]
pub(super) struct Watchers {
    by_lease: HashMap<LeaseNumber, watch::Sender<Option<Fact>>>,
}

impl Watchers {
    fn add(&mut self, lease: LeaseNumber) -> watch::Receiver<Option<Fact>> {
        self.by_lease.entry(lease).or_insert_with(|| watch::Sender::new(None)).subscribe()
    }

    /// Tells those who watch a lease that it has ended.
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
        // Whatever ends it from here on, in this batch or later, is told after this.
        let ended = writer.watchers.add(lease.id.number);
        Ok(Watched { lease, ended })
    }
}
