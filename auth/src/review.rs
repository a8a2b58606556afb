//! Finds waits that their principals are no longer entitled to, even if the client is not connected.
//!
//! A wait is over if its credential became invalid or its principal lost the right to acquire the lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{LeaseNumber, LeaseRecord};

use super::Gate;
use super::gate::Authority;
use super::policy::Policy;
use super::principal::OF_KEYS;
use super::waits::Waits;

/// A review of all waiting leases, page by page, under the policy in force.
pub struct WaitReview<'a> {
    authority: Arc<Authority>,
    waits: &'a Waits,
    wall_ms: i64,
    /// The names of all keys that have not expired.
    live: BTreeSet<Box<str>>,
    /// The recorded leases that no page contained so far.
    gone: BTreeSet<LeaseNumber>,
}

impl Gate {
    /// Begins a review, before the waiting leases are listed: a client that starts to wait in the meantime must not
    /// count as gone. Returns `None` if authentication is off.
    pub fn review_waits(&self, wall_ms: i64) -> Option<WaitReview<'_>> {
        let (authority, waits) = self.authority().zip(self.waits())?;
        let live = authority.live_keys(wall_ms).into_iter().map(Box::from).collect();
        let gone = waits.numbers().into_iter().collect();
        Some(WaitReview { authority, waits, wall_ms, live, gone })
    }
}

impl WaitReview<'_> {
    /// Returns the leases of this page whose waits would not be permitted to start now.
    pub fn over(&mut self, page: &[LeaseRecord]) -> Vec<LeaseNumber> {
        let numbers = page.iter().filter(|lease| self.is_over(lease)).map(|l| l.number).collect();
        page.iter().for_each(|lease| {
            self.gone.remove(&lease.number);
        });
        numbers
    }

    /// Forgets the recorded leases that no page contained.
    pub fn finish(self) {
        self.waits.clear(self.gone);
    }

    fn is_over(&self, lease: &LeaseRecord) -> bool {
        match self.waits.who(lease.number) {
            Some(who) => {
                !self.authority.vouches(&who, self.wall_ms)
                    || !self.authority.may_acquire(&who, &lease.lock)
            }
            None => !self.may_wait(lease),
        }
    }

    /// Checks a waiter of which only the principal's name is known.
    fn may_wait(&self, lease: &LeaseRecord) -> bool {
        let principal = &*lease.owner.principal;
        let is_gone = principal.strip_prefix(OF_KEYS).is_some_and(|name| !self.live.contains(name))
            || Policy::is_of_certificate(principal) && self.authority.mtls().is_none();
        !is_gone && self.authority.could_acquire(principal, &lease.lock)
    }
}
