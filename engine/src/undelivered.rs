//! The guard of a grant that its client does not know of yet.
//!
//! A client can disconnect before it receives its grant, or the response might never reach the system's buffers. So
//! every new grant leaves the engine with this guard, which travels with the response. Wherever the response is dropped
//! on the way, the guard is dropped with it and releases the grant.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use leasehold_core::{LeaseNumber, mutant};

use super::shared::{Gone, Shared};

/// Dropped before [`Self::delivered`] was called, it releases the grant: one lease, or all leases that were granted
/// together. Lease numbers are never reused, so a late release cannot end a later lease.
#[must_use = "dropping it releases the grant"]
pub struct Undelivered(Guard);

enum Guard {
    Alone(Report),
    /// Several connections wait for the same lease. It is enough if one of them gets the response.
    Together(Shareable),
}

/// A guard that can be cloned. All clones count as one guard.
#[derive(Clone)]
pub struct Shareable(Arc<Report>);

struct Report {
    back: Back,
    is_delivered: AtomicBool,
}

/// How the grant is released.
enum Back {
    /// This engine releases it.
    Here {
        shared: Arc<Shared>,
        /// The first lease, if there are several.
        lease: LeaseNumber,
        epoch: u64,
    },
    /// The server that granted it releases it. The function is taken when it is called.
    Elsewhere(Option<Box<dyn FnOnce() + Send + Sync>>),
}

impl Undelivered {
    pub(super) fn new(shared: Arc<Shared>, lease: LeaseNumber, epoch: u64) -> Self {
        Self::by(Back::Here { shared, lease, epoch })
    }

    /// Creates a guard for a grant of another server, which `give_back` tells to release it.
    pub fn elsewhere(give_back: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self::by(Back::Elsewhere(Some(Box::new(give_back))))
    }

    fn by(back: Back) -> Self {
        Self(Guard::Alone(Report { back, is_delivered: AtomicBool::new(false) }))
    }

    /// Returns the grant of this engine and its epoch; `None` for a grant of another server.
    pub fn grant(&self) -> Option<(u64, LeaseNumber)> {
        match &self.report().back {
            Back::Here { lease, epoch, .. } => Some((*epoch, *lease)),
            Back::Elsewhere(_) => None,
        }
    }

    fn report(&self) -> &Report {
        match &self.0 {
            Guard::Alone(report) => report,
            Guard::Together(Shareable(report)) => report,
        }
    }

    /// Marks the grant as delivered: the client might know of it from now on.
    pub fn delivered(self) {
        self.report().is_delivered.store(true, Relaxed);
    }

    /// Splits the guard in two. The grant is released only if neither is delivered.
    pub fn split(self) -> (Self, Self) {
        let report = self.shared();
        (Self::from_shared(report.clone()), Self::from_shared(report))
    }

    /// Converts the guard to a form that can be cloned.
    pub fn shared(self) -> Shareable {
        match self.0 {
            Guard::Alone(report) => Shareable(Arc::new(report)),
            Guard::Together(report) => report,
        }
    }

    /// Converts the guard back from its clonable form.
    pub fn from_shared(report: Shareable) -> Self {
        Self(Guard::Together(report))
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
            match &mut self.back {
                Back::Here { shared, lease, epoch } => shared.is_gone(Gone::Grant(*lease, *epoch)),
                Back::Elsewhere(give_back) => {
                    give_back.take().into_iter().for_each(|give_back| give_back());
                }
            }
        }
    }
}
