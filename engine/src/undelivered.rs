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
pub struct Shareable(Arc<Report>);

struct Report {
    back: Back,
    is_delivered: AtomicBool,
}

/// How it is given back.
enum Back {
    /// Here.
    Here {
        shared: Arc<Shared>,
        /// The first, if there are several.
        lease: LeaseNumber,
        epoch: u64,
    },
    /// By whoever granted it. Gone once it was called.
    Elsewhere(Option<Box<dyn FnOnce() + Send + Sync>>),
}

impl Undelivered {
    pub(super) fn new(shared: Arc<Shared>, lease: LeaseNumber, epoch: u64) -> Self {
        Self::by(Back::Here { shared, lease, epoch })
    }

    /// Another server granted it, and has to be told.
    pub fn elsewhere(give_back: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self::by(Back::Elsewhere(Some(Box::new(give_back))))
    }

    fn by(back: Back) -> Self {
        Self(Told::Alone(Report { back, is_delivered: AtomicBool::new(false) }))
    }

    /// What was granted here, and in which epoch.
    pub fn grant(&self) -> Option<(u64, LeaseNumber)> {
        match &self.report().back {
            Back::Here { lease, epoch, .. } => Some((*epoch, *lease)),
            Back::Elsewhere(_) => None,
        }
    }

    fn report(&self) -> &Report {
        match &self.0 {
            Told::Alone(report) => report,
            Told::Together(Shareable(report)) => report,
        }
    }

    /// The client may know of it from here on.
    pub fn delivered(self) {
        self.report().is_delivered.store(true, Relaxed);
    }

    /// One guard more for the same grant: only if none of them is delivered is it given back.
    pub fn split(self) -> (Self, Self) {
        let report = self.shared();
        (Self::from_shared(report.clone()), Self::from_shared(report))
    }

    /// In a form that can be cloned, which is being the same guard.
    pub fn shared(self) -> Shareable {
        match self.0 {
            Told::Alone(report) => Shareable(Arc::new(report)),
            Told::Together(report) => report,
        }
    }

    /// Returns the guard from its form that can be cloned.
    pub fn from_shared(report: Shareable) -> Self {
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
            match &mut self.back {
                Back::Here { shared, lease, epoch } => shared.is_gone(Gone::Grant(*lease, *epoch)),
                Back::Elsewhere(give_back) => {
                    give_back.take().into_iter().for_each(|give_back| give_back());
                }
            }
        }
    }
}
