//! By what those wait who need not be connected: the journal knows only their names, groups and certificates say more.

use std::collections::HashMap;
use std::sync::Mutex;

use leasehold_core::LeaseNumber;

use super::Principal;
use crate::sync::lock;

/// What is kept of those who wait no more, before it is cleared out.
const SPARE: usize = 1000;

/// Who waits, as their credential said it. In memory: after a restart only names are known.
#[derive(Default)]
pub(super) struct Waits(Mutex<Known>);

#[derive(Default)]
struct Known {
    by: HashMap<LeaseNumber, Principal>,
    /// How many there were when they were last cleared out.
    n_cleared: usize,
}

impl Waits {
    /// This lease waits by what `who` showed.
    pub(super) fn add(&self, lease: LeaseNumber, who: &Principal) {
        lock(&self.0).by.insert(lease, who.clone());
    }

    /// Whoever waits with this lease, if this process knows.
    pub(super) fn who(&self, lease: LeaseNumber) -> Option<Principal> {
        lock(&self.0).by.get(&lease).cloned()
    }

    /// Is it worth looking who still waits?
    pub(super) fn are_many(&self) -> bool {
        let known = lock(&self.0);
        known.by.len() > 2 * known.n_cleared + SPARE
    }

    /// Those that are known now, to be cleared of whoever waits no more.
    pub(super) fn numbers(&self) -> Vec<LeaseNumber> {
        lock(&self.0).by.keys().copied().collect()
    }

    /// Forgets these.
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
