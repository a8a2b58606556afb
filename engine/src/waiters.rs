//! Connections that wait for a lock.

use std::collections::BTreeMap;
use std::time::Instant;

use leasehold_core::LeaseNumber;

use super::mailbox::ReplyTo;
use super::message::Ticket;
use super::waited::Wanted;

/// Connections by the waiting lease.
#[derive(Default)]
pub(super) struct Waiters {
    by_lease: BTreeMap<LeaseNumber, Vec<Waiter>>,
    leases: BTreeMap<Ticket, LeaseNumber>,
}

pub(super) struct Waiter {
    pub(super) ticket: Ticket,
    pub(super) wanted: Wanted,
    pub(super) reply_to: ReplyTo,
    pub(super) sent_at: Instant,
}

impl Waiters {
    /// Adds a connection. A lease can have several, because a client can reconnect before its old connection is closed.
    pub(super) fn add(&mut self, lease: LeaseNumber, waiter: Waiter) {
        self.leases.insert(waiter.ticket, lease);
        self.by_lease.entry(lease).or_default().push(waiter);
    }

    /// Removes and returns the connections of a lease that no longer waits.
    pub(super) fn take(&mut self, lease: LeaseNumber) -> Vec<Waiter> {
        let waiters = self.by_lease.remove(&lease).unwrap_or_default();
        for waiter in &waiters {
            self.leases.remove(&waiter.ticket);
        }
        waiters
    }

    /// Removes a disconnected connection. Returns its lease if no other connection waits for it.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<LeaseNumber> {
        let lease = self.leases.remove(&ticket)?;
        let waiters = self.by_lease.get_mut(&lease)?;
        waiters.retain(|waiter| waiter.ticket != ticket);
        if waiters.is_empty() {
            self.by_lease.remove(&lease);
            return Some(lease);
        }
        None
    }

    /// Returns whether a connection waits for this lease.
    pub(super) fn has(&self, lease: LeaseNumber) -> bool {
        self.by_lease.contains_key(&lease)
    }

    pub(super) fn drain(&mut self) -> Vec<Waiter> {
        self.drain_leases().into_values().flatten().collect()
    }

    /// Removes and returns all connections, by lease.
    pub(super) fn drain_leases(&mut self) -> BTreeMap<LeaseNumber, Vec<Waiter>> {
        self.leases.clear();
        std::mem::take(&mut self.by_lease)
    }
}
