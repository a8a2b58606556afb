//! The ended leases of one account that are still remembered: a linked list through the leases, oldest first.
//!
//! The list reuses the links of the holders list, which only active leases need, so it takes no extra memory.

use crate::arena::{Arena, Slot};
use crate::lease::{Lease, Links};

#[derive(Default)]
pub(crate) struct EndedLeases {
    first: Option<Slot<Lease>>,
    last: Option<Slot<Lease>>,
    len: u32,
}

impl EndedLeases {
    /// The lease that ended first.
    pub(crate) fn first(&self) -> Option<Slot<Lease>> {
        self.first
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// All leases, oldest first.
    pub(crate) fn iter<'a>(
        &self,
        leases: &'a Arena<Lease>,
    ) -> impl Iterator<Item = Slot<Lease>> + 'a {
        std::iter::successors(self.first, |slot| leases[*slot].in_lock.after)
    }

    /// Appends a lease that has just ended.
    pub(crate) fn push(&mut self, leases: &mut Arena<Lease>, slot: Slot<Lease>) {
        leases[slot].in_lock = Links { before: self.last, after: None };
        match self.last {
            Some(last) => leases[last].in_lock.after = Some(slot),
            None => self.first = Some(slot),
        }
        self.last = Some(slot);
        self.len += 1;
    }

    /// Removes a lease that is about to be forgotten.
    pub(crate) fn remove(&mut self, leases: &mut Arena<Lease>, slot: Slot<Lease>) {
        let Links { before, after } = std::mem::take(&mut leases[slot].in_lock);
        match before {
            Some(before) => leases[before].in_lock.after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => leases[after].in_lock.before = before,
            None => self.last = before,
        }
        self.len -= 1;
    }
}
