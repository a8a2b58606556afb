//! Unused locks, remembered for their last tokens: a linked list through the locks, longest idle first.

use crate::arena::{Arena, Slot};
use crate::lock::{Busy, Idle, Lock, Usage};
use crate::time::Timestamp;

#[derive(Default)]
pub(crate) struct IdleLocks {
    first: Option<Slot<Lock>>,
    last: Option<Slot<Lock>>,
    len: usize,
}

impl IdleLocks {
    /// Returns the lock that has been idle longest, and since when.
    pub(crate) fn first(&self, locks: &Arena<Lock>) -> Option<(Slot<Lock>, Timestamp)> {
        self.first.map(|slot| (slot, idle(&locks[slot]).since))
    }

    /// Returns all idle locks, longest idle first.
    pub(crate) fn iter<'a>(&self, locks: &'a Arena<Lock>) -> impl Iterator<Item = Slot<Lock>> + 'a {
        std::iter::successors(self.first, |slot| idle(&locks[*slot]).after)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends a lock that is idle from `now` on.
    pub(crate) fn push(&mut self, locks: &mut Arena<Lock>, slot: Slot<Lock>, now: Timestamp) {
        locks[slot].usage = Usage::Idle(Idle { before: self.last, after: None, since: now });
        match self.last {
            Some(last) => idle_mut(&mut locks[last]).after = Some(slot),
            None => self.first = Some(slot),
        }
        self.last = Some(slot);
        self.len += 1;
    }

    /// Removes a lock that is used again or is about to be forgotten.
    pub(crate) fn remove(&mut self, locks: &mut Arena<Lock>, slot: Slot<Lock>) {
        let Idle { before, after, .. } = *idle(&locks[slot]);
        match before {
            Some(before) => idle_mut(&mut locks[before]).after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => idle_mut(&mut locks[after]).before = before,
            None => self.last = before,
        }
        locks[slot].usage = Usage::Busy(Busy::default());
        self.len -= 1;
    }
}

fn idle(lock: &Lock) -> &Idle {
    match &lock.usage {
        Usage::Idle(idle) => idle,
        Usage::Busy(_) => panic!("a busy lock is in the list of idle ones"),
    }
}

fn idle_mut(lock: &mut Lock) -> &mut Idle {
    match &mut lock.usage {
        Usage::Idle(idle) => idle,
        Usage::Busy(_) => panic!("a busy lock is in the list of idle ones"),
    }
}
