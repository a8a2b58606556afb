//! A grant that its client was not told of yet.
//!
//! What the engine grants is nobody's until the answer is on its way to the client: it may have gone meanwhile, or the
//! answer may never reach the system's buffers. So every new grant leaves the engine with this guard, which goes
//! wherever the answer goes. Whoever drops the answer on the way, at whichever point, drops the guard with it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use leasehold_core::{LeaseNumber, mutant};

use super::shared::{Gone, Shared};

/// Dropped before [`Self::delivered`] was called, it has the engine give back what was granted: one lease, or all
/// those that were granted together. A lease's number is never used again, so a late report ends no later lease.
#[must_use = "what nobody is told of is given back"]
pub struct Undelivered(Told);

enum Told {
    Alone(Report),
    /// Several connections wait for the same lease. It is enough if one of them is told.
    Together(Shareable),
}

/// All clones are one guard.
#[derive(Clone)]
pub(crate) struct Shareable(Arc<Report>);

struct Report {
    shared: Arc<Shared>,
    /// The first, if there are several.
    lease: LeaseNumber,
    epoch: u64,
    is_delivered: AtomicBool,
}

impl Undelivered {
    pub(super) fn new(shared: Arc<Shared>, lease: LeaseNumber, epoch: u64) -> Self {
        Self(Told::Alone(Report { shared, lease, epoch, is_delivered: AtomicBool::new(false) }))
    }

    /// The client may know of it from here on.
    pub fn delivered(self) {
        let report = match &self.0 {
            Told::Alone(report) => report,
            Told::Together(Shareable(report)) => report,
        };
        report.is_delivered.store(true, Relaxed);
    }

    /// One guard more for the same grant: only if none of them is delivered is it given back.
    pub(super) fn split(self) -> (Self, Self) {
        let report = self.shared();
        (Self::from_shared(report.clone()), Self::from_shared(report))
    }

    /// In a form that can be cloned, which is being the same guard.
    pub(crate) fn shared(self) -> Shareable {
        match self.0 {
            Told::Alone(report) => Shareable(Arc::new(report)),
            Told::Together(report) => report,
        }
    }

    pub(crate) fn from_shared(report: Shareable) -> Self {
        Self(Told::Together(report))
    }
}

impl fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Undelivered")
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let is_kept = *self.is_delivered.get_mut() && !mutant!(DeliveredIsGivenBack);
        if !is_kept && !mutant!(UndeliveredIsKept) {
            self.shared.is_gone(Gone::Grant(self.lease, self.epoch));
        }
    }
}
