//! Schedules checks of leases that might be held or waited for too long, or be in a deadlock.
//!
//! The schedule is derived and never journaled. The journal records only the results of checks
//! ([`Change::Noted`](crate::Change)). When a lease is imported, checks that were due before count as done, so that a
//! restart does not repeat notes.

use crate::arena::Slot;
use crate::deadline::Deadlines;
use crate::lease::Lease;
use crate::limits::Limits;
use crate::mutant;
use crate::state::State;
use crate::time::{Span, Timestamp};

/// When to check each lease. A duration of zero disables that kind of check.
pub(crate) struct Vigil {
    held_warn: Span,
    wait_warn: Span,
    deadlock_after: Span,
    /// The next check of each lease. Of a waiting group, only the first lease is scheduled.
    looks: Deadlines<Lease>,
}

impl Vigil {
    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { held_warn, wait_warn, deadlock_after, .. } = *limits;
        Self { held_warn, wait_warn, deadlock_after, looks: Deadlines::new() }
    }

    /// Returns the same settings with an empty schedule.
    pub(crate) fn afresh(&self) -> Self {
        Self { looks: Deadlines::new(), ..*self }
    }

    /// Returns the earliest scheduled check.
    pub(crate) fn first(&self) -> Option<(Timestamp, Slot<Lease>)> {
        self.looks.first()
    }

    pub(crate) fn get(&self, slot: Slot<Lease>) -> Option<Timestamp> {
        self.looks.get(slot)
    }

    /// Used by [`crate::invariant`].
    pub(crate) fn is_consistent(&self) -> bool {
        self.looks.is_consistent()
    }

    pub(crate) fn remove(&mut self, slot: Slot<Lease>) {
        self.looks.remove(slot);
    }

    /// Returns the first check of a lease after `after`. A waiting lease is checked each time its wait has doubled. So
    /// a deadlock that arises late is found, and one that persists is reported again, but ever more rarely.
    fn next_look(&self, lease: &Lease, after: Timestamp) -> Timestamp {
        if lease.is_active() {
            let since =
                if mutant!(HeldFromRequest) { lease.created_at() } else { lease.granted_at };
            return later(since, self.held_warn, after);
        }
        let is_first = lease.group().is_none_or(|group| group.first == lease.number);
        if !is_first && !mutant!(WaitNotedOfEachMember) {
            return Timestamp::NEVER;
        }
        // For a waiting lease, this is the time of its request.
        let since = lease.granted_at;
        let mut doubled = self.deadlock_after;
        while doubled > Span::ZERO && since + doubled <= after {
            doubled = Span::from_nanos(doubled.as_nanos().saturating_mul(2));
        }
        later(since, doubled, after).min(later(since, self.wait_warn, after))
    }

    /// Returns whether a lease has waited too long at `now`, but had not before the check that was due at `at`.
    pub(crate) fn is_wait_long(&self, lease: &Lease, at: Timestamp, now: Timestamp) -> bool {
        let warn_at = lease.granted_at + self.wait_warn;
        self.wait_warn > Span::ZERO && at <= warn_at && warn_at <= now
    }

    /// Returns whether a lease's wait has doubled by `now`, but had not before the check that was due at `at`.
    pub(crate) fn is_for_deadlock(&self, lease: &Lease, at: Timestamp, now: Timestamp) -> bool {
        let n_doublings = |waited: Span| waited.as_nanos() / self.deadlock_after.as_nanos().max(1);
        let [before, after] = [Timestamp::from_nanos(at.as_nanos().saturating_sub(1)), now]
            .map(|at| n_doublings(at.since(lease.granted_at)).checked_ilog2());
        self.deadlock_after > Span::ZERO && before < after
    }
}

/// Returns `since + span`, or never if `span` is zero or the result is not after `after`.
fn later(since: Timestamp, span: Span, after: Timestamp) -> Timestamp {
    let at = since + span;
    if span > Span::ZERO && at > after { at } else { Timestamp::NEVER }
}

impl State {
    /// Schedules the next check of a lease after `after`, if there is one. Shares are not checked.
    pub(crate) fn look_again(&mut self, slot: Slot<Lease>, after: Timestamp) {
        let lease = &self.leases[slot];
        let is_share = lease.is_active() && self.is_share(lease);
        let at = if is_share { Timestamp::NEVER } else { self.vigil.next_look(lease, after) };
        self.vigil.looks.set(slot, at);
    }

    /// Records that a note about a lease was journaled, so that a machine that reads the journal does not repeat it.
    pub(crate) fn noted(&mut self, slot: Slot<Lease>, at: Timestamp) {
        let lease = &self.leases[slot];
        let first = lease.group().filter(|_| !lease.is_active()).map(|group| group.first);
        let looked_at = first.map_or(Some(slot), |first| self.find_lease(first));
        if let Some(slot) = looked_at {
            self.look_again(slot, at);
        }
    }
}
