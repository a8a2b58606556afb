//! Credentials of waiters that do not need a connection.
//!
//! The journal stores only principal names. Whether a wait is still permitted can also depend on groups and
//! certificates, so these are kept here.

use std::collections::HashMap;
use std::sync::Mutex;

use leasehold_base::sync::lock;
use leasehold_core::LeaseNumber;

use super::Principal;

/// How many entries of ended waits can accumulate before they are removed.
const SPARE: usize = 1000;

/// The principals of waiting leases, kept in memory. After a restart only the names in the journal are known.
#[derive(Default)]
pub(super) struct Waits(Mutex<WaitingCredentials>);

#[derive(Default)]
struct WaitingCredentials {
    by: HashMap<LeaseNumber, Principal>,
    /// Number of entries after the last cleanup.
    n_cleared: usize,
}

impl Waits {
    /// Records that this lease waits for the principal `who`.
    pub(super) fn add(&self, lease: LeaseNumber, who: &Principal) {
        lock(&self.0).by.insert(lease, who.clone());
    }

    /// Returns the principal of this waiting lease, if this process recorded it.
    pub(super) fn who(&self, lease: LeaseNumber) -> Option<Principal> {
        lock(&self.0).by.get(&lease).cloned()
    }

    /// Returns whether there are enough entries to make a cleanup worthwhile.
    pub(super) fn are_many(&self) -> bool {
        let known = lock(&self.0);
        known.by.len() > 2 * known.n_cleared + SPARE
    }

    /// Returns all recorded leases, as candidates for a cleanup.
    pub(super) fn numbers(&self) -> Vec<LeaseNumber> {
        lock(&self.0).by.keys().copied().collect()
    }

    /// Removes the entries of these leases.
    pub(super) fn clear(&self, gone: impl IntoIterator<Item = LeaseNumber>) {
        let mut known = lock(&self.0);
        for lease in gone {
            known.by.remove(&lease);
        }
        known.n_cleared = known.by.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_wait_no_more_are_forgotten() {
        let waits = Waits::default();
        let who = Principal::anonymous();
        for n in 0..=SPARE as u64 {
            assert!(!waits.are_many(), "{n}");
            waits.add(LeaseNumber(n), &who);
        }
        assert!(waits.are_many());
        assert_eq!(waits.numbers().len(), SPARE + 1);
        waits.clear((1..=SPARE as u64).map(LeaseNumber));
        assert!(!waits.are_many());
        assert!(waits.who(LeaseNumber(0)).is_some());
        assert!(waits.who(LeaseNumber(1)).is_none());
    }
}
