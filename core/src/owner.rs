//! The owners the machine knows, each name kept once.

use crate::account::{Account, Accounts};
use crate::arena::{Arena, Slot};
use crate::index::{Index, NameHash};
use crate::name::{Owner, Peer};

/// What an owner takes up beside its names, about.
const OWNER_BYTES: usize = 64;

/// An owner some lease, session or lapse refers to.
pub(crate) struct Known {
    pub(crate) owner: Owner,
    /// Whom most of what it has is counted with. A lease that is counted with another says so itself.
    pub(crate) account: Slot<Account>,
    n_refs: u32,
    /// Leases it has, active, waiting or remembered.
    pub(crate) n_leases: u32,
}

pub(crate) struct Owners {
    arena: Arena<Known>,
    index: Index<Slot<Known>>,
    hash: NameHash,
    pub(crate) accounts: Accounts,
    /// What all of them take up.
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

    /// One more reference to `owner`, who speaks from `peer` if nobody vouches for it.
    pub(crate) fn retain(&mut self, owner: &Owner, peer: Option<Peer>) -> Slot<Known> {
        let slot = self.find(owner).unwrap_or_else(|| self.add(owner.clone(), peer));
        self.arena[slot].n_refs += 1;
        slot
    }

    /// One more reference to an owner that is known.
    pub(crate) fn retain_known(&mut self, slot: Slot<Known>) {
        self.arena[slot].n_refs += 1;
    }

    /// Counts one more lease of an owner, or one less.
    pub(crate) fn count_lease(&mut self, slot: Slot<Known>, is_new: bool) {
        let n_leases = &mut self.arena[slot].n_leases;
        *n_leases = if is_new { *n_leases + 1 } else { *n_leases - 1 };
    }

    /// One reference less; the last one forgets the owner.
    pub(crate) fn release(&mut self, slot: Slot<Known>) {
        self.arena[slot].n_refs -= 1;
        if self.arena[slot].n_refs == 0 {
            self.index.remove(self.hash.of(&self.arena[slot].owner), |other| *other == slot);
            let Known { owner, account, .. } = self.arena.remove(slot);
            self.n_bytes -= bytes(&owner);
            self.accounts.release(account);
        }
    }

    /// The account of `owner`, found as `known`, when it speaks from `peer`; if anything is counted there.
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

    /// What all of them take up.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// For [`crate::invariant`].
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

/// What an owner takes up.
pub(crate) fn bytes(owner: &Owner) -> usize {
    OWNER_BYTES + owner.principal.len() + owner.instance.len()
}
