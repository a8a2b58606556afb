//! How many locks there are of each kind.

use super::query::Stand;
use super::row::Row;

/// How many locks, holders and waiters there are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Locks.
    pub n_locks: usize,
    /// Holders of all locks.
    pub n_holders: usize,
    /// Waiters of all locks.
    pub n_waiters: usize,
    /// Locks with a holder.
    pub n_held: usize,
    /// Locks with a waiter.
    pub n_waited_for: usize,
    /// Locks that are reserved for their last owner.
    pub n_in_grace: usize,
    /// Locks without a holder that are not reserved.
    pub n_free: usize,
}

impl Counts {
    pub(super) fn of(row: &Row) -> Self {
        let is_held = row.n_holders > 0;
        Self {
            n_locks: 1,
            n_holders: row.n_holders as usize,
            n_waiters: row.n_waiting as usize,
            n_held: usize::from(is_held),
            n_waited_for: usize::from(row.n_waiting > 0),
            n_in_grace: usize::from(row.in_grace),
            n_free: usize::from(!is_held && !row.in_grace),
        }
    }

    /// Returns the number of locks that stand like this.
    pub(super) fn of_stand(&self, stand: Option<Stand>) -> usize {
        match stand {
            None => self.n_locks,
            Some(Stand::Held) => self.n_held,
            Some(Stand::Waiting) => self.n_waited_for,
            Some(Stand::Grace) => self.n_in_grace,
            Some(Stand::Free) => self.n_free,
        }
    }

    fn with(self, other: Self, with: fn(usize, usize) -> usize) -> Self {
        Self {
            n_locks: with(self.n_locks, other.n_locks),
            n_holders: with(self.n_holders, other.n_holders),
            n_waiters: with(self.n_waiters, other.n_waiters),
            n_held: with(self.n_held, other.n_held),
            n_waited_for: with(self.n_waited_for, other.n_waited_for),
            n_in_grace: with(self.n_in_grace, other.n_in_grace),
            n_free: with(self.n_free, other.n_free),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }
}

/// The counts of locks that clients name, and of those that have only shares.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Split {
    named: Counts,
    only_shared: Counts,
}

impl Split {
    fn part(&mut self, row: &Row) -> &mut Counts {
        if row.is_only_shared { &mut self.only_shared } else { &mut self.named }
    }

    pub(super) fn add(&mut self, row: &Row) {
        let part = self.part(row);
        *part = part.plus(Counts::of(row));
    }

    pub(super) fn subtract(&mut self, row: &Row) {
        let part = self.part(row);
        *part = part.minus(Counts::of(row));
    }

    /// Returns the counts of the locks that are shown.
    pub(super) fn shown(&self, hides_shared: bool) -> Counts {
        if hides_shared { self.named } else { self.named.plus(self.only_shared) }
    }
}
