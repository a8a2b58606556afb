//! The locks held while the command runs. If one of several is lost, all count as lost.

use std::pin::Pin;
use std::time::Duration;

use leasehold::{Error, LockGuard, Lost, Moment, MultiGuard};

use crate::output::plain;

/// The locks of one `run`.
pub(super) struct Held {
    /// The lock names as messages show them.
    name: String,
    guard: Guard,
}

enum Guard {
    One(LockGuard),
    Several(MultiGuard),
}

/// A lease that `run` holds.
pub(super) struct Lease<'a> {
    pub(super) lock_name: &'a str,
    pub(super) lease_id: &'a str,
    pub(super) fencing_token: u64,
}

impl Held {
    pub(super) fn one(guard: LockGuard) -> Self {
        Self { name: guard.name().into(), guard: Guard::One(guard) }
    }

    pub(super) fn several(guard: MultiGuard) -> Self {
        let names: Vec<_> = guard.leases().iter().map(|lease| lease.lock_name.as_str()).collect();
        Self { name: names.join(", "), guard: Guard::Several(guard) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn owner(&self) -> &str {
        match &self.guard {
            Guard::One(guard) => guard.owner(),
            Guard::Several(guard) => guard.owner(),
        }
    }

    /// Returns the leases, in the order in which the locks were named.
    pub(super) fn leases(&self) -> Vec<Lease<'_>> {
        match &self.guard {
            Guard::One(guard) => vec![Lease {
                lock_name: guard.name(),
                lease_id: guard.lease_id(),
                fencing_token: guard.fencing_token(),
            }],
            Guard::Several(guard) => {
                let leases = guard.leases().iter().map(|lease| Lease {
                    lock_name: &lease.lock_name,
                    lease_id: &lease.lease_id,
                    fencing_token: lease.fencing_token,
                });
                leases.collect()
            }
        }
    }

    /// Returns the fencing tokens as text for messages.
    pub(super) fn tokens(&self) -> String {
        let tokens: Vec<_> = self.leases().iter().map(|it| it.fencing_token.to_string()).collect();
        tokens.join(", ")
    }

    pub(super) fn deadline(&self) -> Moment {
        match &self.guard {
            Guard::One(guard) => guard.deadline(),
            Guard::Several(guard) => guard.deadline(),
        }
    }

    /// Returns the time after which another client might hold one of the locks.
    pub(super) fn end(&self) -> Moment {
        match &self.guard {
            Guard::One(guard) => guard.end(),
            Guard::Several(guard) => guard.end(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        match &self.guard {
            Guard::One(guard) => guard.is_held(),
            Guard::Several(guard) => guard.check().is_ok(),
        }
    }

    /// Completes when one of them is lost.
    pub(super) fn lost(&self) -> Pin<Box<dyn Future<Output = Lost> + Send>> {
        match &self.guard {
            Guard::One(guard) => Box::pin(guard.lost()),
            Guard::Several(guard) => Box::pin(guard.lost()),
        }
    }

    /// Describes which lock was lost and why, as far as the server reported it.
    pub(super) fn loss(&self, loss: Lost) -> String {
        let ending = match &self.guard {
            Guard::One(guard) => guard.ending(),
            Guard::Several(guard) => guard.ending(),
        };
        match ending {
            Some(end) => {
                let how =
                    if end.how == "expired" { "expired" } else { &format!("was {}", end.how) };
                let reason = end.reason.as_deref().filter(|reason| !reason.is_empty());
                let reason = reason.map_or(String::new(), |reason| format!(": {}", plain(reason)));
                format!("{}: the lease {how}{reason}", plain(&end.lock_name))
            }
            None => format!("{}: {loss}", self.name),
        }
    }

    /// Completes when [`end`](Self::end) changes.
    pub(super) fn renewal(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match &self.guard {
            Guard::One(guard) => Box::pin(guard.renewal()),
            Guard::Several(guard) => Box::pin(guard.renewal()),
        }
    }

    pub(super) async fn release(self) -> Result<(), Error> {
        match self.guard {
            Guard::One(guard) => guard.release().await,
            Guard::Several(guard) => guard.release().await,
        }
    }

    /// Sets the leases to expire after `time`, and keeps the locks until then.
    pub(super) async fn leave_for(self, time: Duration) -> Result<(), Error> {
        match self.guard {
            Guard::One(guard) => guard.leave_for(time).await,
            Guard::Several(guard) => guard.leave_for(time).await,
        }
    }
}
