//! Counts the bytes of leases, in total and per account, and maintains each account's list of ended leases.

use crate::account::Account;
use crate::arena::Slot;
use crate::footprint::Footprint;
use crate::lease::Lease;
use crate::owner;
use crate::state::State;

impl State {
    /// Adds the bytes of a lease.
    pub(super) fn weigh(&mut self, slot: Slot<Lease>) {
        let weight = Footprint::of(&self.leases[slot]);
        if weight == Footprint::default() {
            return;
        }
        self.footprint += weight;
        let account = self.account_of(&self.leases[slot]);
        self.owners.accounts.get_mut(account).footprint += weight;
        self.recrowd(account, weight);
    }

    /// Subtracts the bytes of a lease, because it ends or is about to change.
    pub(super) fn unweigh(&mut self, slot: Slot<Lease>) {
        let weight = Footprint::of(&self.leases[slot]);
        if weight == Footprint::default() {
            return;
        }
        self.footprint -= weight;
        let account = self.account_of(&self.leases[slot]);
        self.owners.accounts.get_mut(account).footprint -= weight;
        self.recrowd(account, weight);
    }

    /// Adds the bytes of a lease's names to its account, until the lease is forgotten. The lock's name counts with each
    /// lease, the owner's name once.
    pub(super) fn name_weighs(&mut self, slot: Slot<Lease>) {
        let (account, usual, n_name, n_owner) = self.names(slot);
        self.owners.count_lease(self.leases[slot].owner, true);
        self.owners.accounts.get_mut(account).footprint.names += n_name;
        self.owners.accounts.get_mut(usual).footprint.names += n_owner;
    }

    /// Subtracts the bytes of a lease's names. The lease is about to be forgotten.
    pub(super) fn name_weighs_no_more(&mut self, slot: Slot<Lease>) {
        self.owners.count_lease(self.leases[slot].owner, false);
        let (account, usual, n_name, n_owner) = self.names(slot);
        self.owners.accounts.get_mut(account).footprint.names -= n_name;
        self.owners.accounts.get_mut(usual).footprint.names -= n_owner;
    }

    /// Returns the account of a lease, the usual account of its owner, the bytes of the lock's name, and the bytes of
    /// the owner's name if no other lease has this owner.
    fn names(&self, slot: Slot<Lease>) -> (Slot<Account>, Slot<Account>, usize, usize) {
        let lease = &self.leases[slot];
        let known = self.owners.get(lease.owner);
        let n_owner = if known.n_leases == 0 { owner::bytes(&known.owner) } else { 0 };
        (self.account_of(lease), known.account, self.locks[lease.lock].name.len(), n_owner)
    }

    /// Adds a lease that has ended and is still remembered.
    pub(super) fn file_ended(&mut self, slot: Slot<Lease>) {
        let account = self.account_of(&self.leases[slot]);
        let keep = self.leases[slot].keep;
        let of = self.owners.accounts.get_mut(account);
        of.ended_mut(keep).push(&mut self.leases, slot);
        self.recrowd_ended(account);
    }

    /// Removes an ended lease that is about to be forgotten.
    pub(super) fn unfile_ended(&mut self, slot: Slot<Lease>) {
        let account = self.account_of(&self.leases[slot]);
        let keep = self.leases[slot].keep;
        let of = self.owners.accounts.get_mut(account);
        of.ended_mut(keep).remove(&mut self.leases, slot);
        self.recrowd_ended(account);
    }

    fn recrowd(&mut self, account: Slot<Account>, weight: Footprint) {
        if weight.requests > 0 || weight.ended > 0 {
            self.recrowd_ended(account);
        }
    }

    /// Updates whether an account has more ended leases than its share.
    fn recrowd_ended(&mut self, account: Slot<Account>) {
        if self.owners.accounts.get(account).too_much(&self.share).is_some() {
            self.crowded.insert(account);
        } else if !self.crowded.is_empty() {
            self.crowded.remove(&account);
        }
    }
}
