//! The known owners, each name stored once.

use crate::account::{Account, Accounts};
use crate::arena::{Arena, Slot};
use crate::index::{Index, NameHash};
use crate::name::{Owner, Peer};

/// The approximate size of an owner without its names.
const OWNER_BYTES: usize = 64;

/// An owner that at least one lease, session or lapse refers to.
pub(crate) struct Known {
    pub(crate) owner: Owner,
    /// The account that most of its leases count against. A lease with another account stores that account itself.
    pub(crate) account: Slot<Account>,
    n_refs: u32,
    /// The number of its leases, active, waiting or remembered.
    pub(crate) n_leases: u32,
}

pub(crate) struct Owners {
    arena: Arena<Known>,
    index: Index<Slot<Known>>,
    hash: NameHash,
    pub(crate) accounts: Accounts,
    /// The bytes of all owners.
    n_bytes: usize,
}

impl Owners {
    pub(crate) fn new(hash: NameHash) -> Self {
        let accounts = Accounts::new(hash);
        Self { arena: Arena::new(), index: Index::new(), hash, accounts, n_bytes: 0 }
    }

    pub(crate) fn find(&self, owner: &Owner) -> Option<Slot<Known>> {
        self.index.find(self.hash.of(owner), |slot| self.arena[*slot].owner == *owner)
    }

    /// Adds a reference to `owner`. `peer` is the origin of its requests, if it is not authenticated.
    pub(crate) fn retain(&mut self, owner: &Owner, peer: Option<Peer>) -> Slot<Known> {
        let slot = self.find(owner).unwrap_or_else(|| self.add(owner.clone(), peer));
        self.arena[slot].n_refs += 1;
        slot
    }

    /// Adds a reference to an existing owner.
    pub(crate) fn retain_known(&mut self, slot: Slot<Known>) {
        self.arena[slot].n_refs += 1;
    }

    /// Counts one more lease of an owner, or one less.
    pub(crate) fn count_lease(&mut self, slot: Slot<Known>, is_new: bool) {
        let n_leases = &mut self.arena[slot].n_leases;
        *n_leases = if is_new { *n_leases + 1 } else { *n_leases - 1 };
    }

    /// Removes a reference. The owner is forgotten with its last reference.
    pub(crate) fn release(&mut self, slot: Slot<Known>) {
        self.arena[slot].n_refs -= 1;
        if self.arena[slot].n_refs == 0 {
            self.index.remove(self.hash.of(&self.arena[slot].owner), |other| *other == slot);
            let Known { owner, account, .. } = self.arena.remove(slot);
            self.n_bytes -= bytes(&owner);
            self.accounts.release(account);
        }
    }

    /// Returns the account of `owner` for requests from `peer`, if it exists. `known` is the owner's slot, if it has
    /// one.
    pub(crate) fn account(
        &self,
        known: Option<Slot<Known>>,
        owner: &Owner,
        peer: Option<Peer>,
    ) -> Option<Slot<Account>> {
        let usual = known.map(|slot| self.arena[slot].account);
        usual
            .filter(|account| self.accounts.get(*account).is(&owner.principal, peer))
            .or_else(|| self.accounts.find(&owner.principal, peer))
    }

    pub(crate) fn get(&self, slot: Slot<Known>) -> &Known {
        &self.arena[slot]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot<Known>, &Known)> {
        self.arena.iter()
    }

    /// Returns the bytes of all owners.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Used by [`crate::invariant`].
    pub(crate) fn n_refs(&self, slot: Slot<Known>) -> u32 {
        self.arena[slot].n_refs
    }

    fn add(&mut self, owner: Owner, peer: Option<Peer>) -> Slot<Known> {
        let hash = self.hash.of(&owner);
        self.n_bytes += bytes(&owner);
        let account = self.accounts.retain(&owner.principal, peer);
        let slot = self.arena.insert(Known { owner, account, n_refs: 0, n_leases: 0 });
        self.index.insert(hash, slot, |slot| self.hash.of(&self.arena[*slot].owner));
        slot
    }
}

/// Returns the bytes of an owner.
pub(crate) fn bytes(owner: &Owner) -> usize {
    OWNER_BYTES + owner.principal.len() + owner.instance.len()
}
