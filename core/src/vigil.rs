//! Which leases are to be looked at, and when: because they may be held or waited for too long, or in a deadlock.
//!
//! Derived, never journaled: what is journaled is what a look found ([`Change::Noted`](crate::Change)). A lease that
//! is past its time when it is imported counts as noted before, so that a restart repeats nothing.

use crate::arena::Slot;
use crate::deadline::Deadlines;
use crate::lease::Lease;
use crate::limits::Limits;
use crate::mutant;
use crate::state::State;
use crate::time::{Span, Timestamp};

/// When to look at which lease. A span of zero means never.
pub(crate) struct Vigil {
    held_warn: Span,
    wait_warn: Span,
    deadlock_after: Span,
    /// Of leases that wait together, only the first is here.
    looks: Deadlines<Lease>,
}

impl Vigil {
    pub(crate) fn new(limits: &Limits) -> Self {
        let Limits { held_warn, wait_warn, deadlock_after, .. } = *limits;
        Self { held_warn, wait_warn, deadlock_after, looks: Deadlines::new() }
    }

    /// The same with nobody to look at.
    pub(crate) fn afresh(&self) -> Self {
        Self { looks: Deadlines::new(), ..*self }
    }

    /// The next look there is.
    pub(crate) fn first(&self) -> Option<(Timestamp, Slot<Lease>)> {
        self.looks.first()
    }

    pub(crate) fn get(&self, slot: Slot<Lease>) -> Option<Timestamp> {
        self.looks.get(slot)
    }

    /// For [`crate::invariant`].
    pub(crate) fn is_consistent(&self) -> bool {
        self.looks.is_consistent()
    }

    pub(crate) fn remove(&mut self, slot: Slot<Lease>) {
        self.looks.remove(slot);
    }

    /// When a lease is first looked at after `after`. One that waits is looked at each time its wait has doubled, so
    /// that a deadlock that came about late is found, and one that lasts is told again, but ever more rarely.
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
        // While it waits, that is when it was asked for.
        let since = lease.granted_at;
        let mut doubled = self.deadlock_after;
        while doubled > Span::ZERO && since + doubled <= after {
            doubled = Span::from_nanos(doubled.as_nanos().saturating_mul(2));
        }
        later(since, doubled, after).min(later(since, self.wait_warn, after))
    }

    /// Has the lease waited too long at `now`, and had it not before the look that was due at `at`?
    pub(crate) fn is_wait_long(&self, lease: &Lease, at: Timestamp, now: Timestamp) -> bool {
        let warn_at = lease.granted_at + self.wait_warn;
        self.wait_warn > Span::ZERO && at <= warn_at && warn_at <= now
    }

    /// Has its wait doubled by `now`, and had it not before the look that was due at `at`?
    pub(crate) fn is_for_deadlock(&self, lease: &Lease, at: Timestamp, now: Timestamp) -> bool {
        let n_doublings = |waited: Span| waited.as_nanos() / self.deadlock_after.as_nanos().max(1);
        let [before, after] = [Timestamp::from_nanos(at.as_nanos().saturating_sub(1)), now]
            .map(|at| n_doublings(at.since(lease.granted_at)).checked_ilog2());
        self.deadlock_after > Span::ZERO && before < after
    }
}

/// `span` after `since`, if there is such a span and that is after `after`.
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

    /// Something was noted of a lease: whoever reads the journal does not note it again.
    pub(crate) fn noted(&mut self, slot: Slot<Lease>, at: Timestamp) {
        let lease = &self.leases[slot];
        let first = lease.group().filter(|_| !lease.is_active()).map(|group| group.first);
        let looked_at = first.map_or(Some(slot), |first| self.find_lease(first));
        if let Some(slot) = looked_at {
            self.look_again(slot, at);
        }
    }
}
