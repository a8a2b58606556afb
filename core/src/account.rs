//! Accounts: what one principal uses. Unauthenticated clients are counted by peer.

use std::sync::Arc;

use crate::arena::{Arena, Slot};
use crate::ended::EndedLeases;
use crate::footprint::Footprint;
use crate::index::{Index, NameHash};
use crate::lease::Lease;
use crate::limits::Limits;
use crate::mutant;
use crate::name::{Dialect, Peer};

/// The counts of one principal, or of one peer.
pub(crate) struct Account {
    pub(crate) principal: Arc<str>,
    pub(crate) peer: Option<Peer>,
    /// The number of owners, leases, sessions and namespaces that refer to this account.
    n_refs: u32,
    /// The number of waiting and active leases, which is limited.
    pub(crate) n_leases: u32,
    /// The number of namespaces it was the first to use, which is limited too.
    pub(crate) n_namespaces: u32,
    /// The number of sessions that have not ended, by dialect. Limited for each dialect.
    sessions: Vec<(Dialect, u32)>,
    /// The bytes of its leases, including ended ones.
    pub(crate) footprint: Footprint,
    /// Its ended leases that stay readable.
    pub(crate) kept: EndedLeases,
    /// Its ended leases kept only to answer repeated request ids.
    pub(crate) answered: EndedLeases,
}

/// The share of one account in the remembered ended leases. Beyond it, the account's oldest ended leases are forgotten.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    requests: usize,
    answered: usize,
    ended: usize,
    kept: usize,
}

impl Share {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            requests: limits.principal_requests_bytes_max,
            answered: limits.principal_answered_max,
            ended: limits.principal_ended_bytes_max,
            kept: limits.principal_ended_max,
        }
    }
}

impl Account {
    /// Returns its ended lease to forget next, if the account has more than its share.
    pub(crate) fn too_much(&self, share: &Share) -> Option<Slot<Lease>> {
        let Footprint { requests, ended, .. } = self.footprint;
        if mutant!(PrincipalShareIgnored) {
            None
        } else if ended > share.ended || self.kept.len() > share.kept {
            self.kept.first()
        } else if requests > share.requests || self.answered.len() > share.answered {
            self.answered.first()
        } else {
            None
        }
    }

    /// Returns its ended leases of one kind: readable ones if `keep`, else those that only answer repeated requests.
    pub(crate) fn ended_mut(&mut self, keep: bool) -> &mut EndedLeases {
        if keep { &mut self.kept } else { &mut self.answered }
    }

    pub(crate) fn is(&self, principal: &str, peer: Option<Peer>) -> bool {
        self.peer == peer && *self.principal == *principal
    }

    pub(crate) fn n_sessions(&self, dialect: Dialect) -> u32 {
        self.sessions.iter().find(|(of, _)| *of == dialect).map_or(0, |(_, n)| *n)
    }

    /// Counts one more session in `dialect`.
    pub(crate) fn add_session(&mut self, dialect: Dialect) {
        match self.sessions.iter_mut().find(|(of, _)| *of == dialect) {
            Some((_, n)) => *n += 1,
            None => self.sessions.push((dialect, 1)),
        }
    }

    /// Counts one session less in `dialect`.
    pub(crate) fn remove_session(&mut self, dialect: Dialect) {
        if let Some((_, n)) = self.sessions.iter_mut().find(|(of, _)| *of == dialect) {
            *n -= 1;
        }
        self.sessions.retain(|(_, n)| *n > 0);
    }
}

/// All accounts with at least one reference.
pub(crate) struct Accounts {
    arena: Arena<Account>,
    index: Index<Slot<Account>>,
    hash: NameHash,
}

impl Accounts {
    pub(crate) fn new(hash: NameHash) -> Self {
        Self { arena: Arena::new(), index: Index::new(), hash }
    }

    pub(crate) fn find(&self, principal: &str, peer: Option<Peer>) -> Option<Slot<Account>> {
        let hash = self.hash.of((principal, peer));
        self.index.find(hash, |slot| self.arena[*slot].is(principal, peer))
    }

    /// Adds a reference to an account, which is created if it is new.
    pub(crate) fn retain(&mut self, principal: &Arc<str>, peer: Option<Peer>) -> Slot<Account> {
        let slot = self.find(principal, peer).unwrap_or_else(|| self.add(principal, peer));
        self.arena[slot].n_refs += 1;
        slot
    }

    /// Adds a reference to an existing account.
    pub(crate) fn retain_known(&mut self, slot: Slot<Account>) {
        self.arena[slot].n_refs += 1;
    }

    /// Removes a reference. The account is forgotten with its last reference.
    pub(crate) fn release(&mut self, slot: Slot<Account>) {
        self.arena[slot].n_refs -= 1;
        if self.arena[slot].n_refs == 0 {
            let Account { principal, peer, .. } = &self.arena[slot];
            self.index.remove(self.hash.of((&**principal, *peer)), |other| *other == slot);
            self.arena.remove(slot);
        }
    }

    pub(crate) fn get(&self, slot: Slot<Account>) -> &Account {
        &self.arena[slot]
    }

    pub(crate) fn get_mut(&mut self, slot: Slot<Account>) -> &mut Account {
        &mut self.arena[slot]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot<Account>, &Account)> {
        self.arena.iter()
    }

    /// Used by [`crate::invariant`].
    pub(crate) fn n_refs(&self, slot: Slot<Account>) -> u32 {
        self.arena[slot].n_refs
    }

    fn add(&mut self, principal: &Arc<str>, peer: Option<Peer>) -> Slot<Account> {
        let principal = principal.clone();
        let hash = self.hash.of((&*principal, peer));
        let slot = self.arena.insert(Account {
            principal,
            peer,
            n_refs: 0,
            n_leases: 0,
            n_namespaces: 0,
            sessions: Vec::new(),
            footprint: Footprint::default(),
            kept: EndedLeases::default(),
            answered: EndedLeases::default(),
        });
        let Self { arena, index, hash: hasher } = self;
        let hash_of = |slot: &Slot<Account>| {
            let Account { principal, peer, .. } = &arena[*slot];
            hasher.of((&**principal, *peer))
        };
        index.insert(hash, slot, hash_of);
        slot
    }
}
