//! Changes to locks.

use crate::arena::Slot;
use crate::lease::Lease;
use crate::lock::{Busy, Lapse, Lock, Usage};
use crate::mutant;
use crate::name::LockKey;
use crate::state::State;
use crate::token::Token;

impl State {
    /// Returns the lock `key` and marks it as in use. Adds it if it is new.
    pub(super) fn use_lock(&mut self, key: &LockKey) -> Slot<Lock> {
        let slot = self.find_lock(key).unwrap_or_else(|| self.add_lock(key));
        self.wake(slot);
        slot
    }

    pub(crate) fn add_lock(&mut self, key: &LockKey) -> Slot<Lock> {
        let namespace = self.namespaces.find_or_add(&key.namespace);
        self.namespaces.count_lock(namespace, true);
        self.footprint.names += key.name.len();
        let slot = self.locks.insert(Lock {
            namespace,
            name: key.name.clone(),
            last_token: Token::ZERO,
            usage: Usage::Busy(Busy::default()),
            lapse: None,
        });
        let Self { locks, lock_index, hash, .. } = self;
        let hash_of = |slot: &Slot<Lock>| {
            let lock = &locks[*slot];
            hash.of((lock.namespace.index(), &lock.name))
        };
        lock_index.insert(hash_of(&slot), slot, hash_of);
        self.lock_changed(slot);
        if self.is_catalogued(slot) && !mutant!(NewLockNotListed) {
            self.namespaces.catalog(namespace).insert(&self.locks, slot);
        }
        slot
    }

    /// Adds at most `n_max` more locks to the catalogs. Returns whether all locks are in them. Once they are, every new
    /// lock is added when it is first named.
    pub(crate) fn catalog(&mut self, n_max: usize) -> bool {
        if self.catalogued == usize::MAX {
            return true;
        }
        let next = self.locks.iter_from(self.catalogued).take(n_max).map(|(slot, _)| slot);
        let next: Vec<_> = next.collect();
        for slot in &next {
            let namespace = self.locks[*slot].namespace;
            self.namespaces.catalog(namespace).insert(&self.locks, *slot);
        }
        self.catalogued = match next.last() {
            Some(last) if next.len() == n_max => last.index() + 1,
            _ => usize::MAX,
        };
        self.catalogued == usize::MAX
    }

    pub(crate) fn is_catalogued(&self, slot: Slot<Lock>) -> bool {
        slot.index() < self.catalogued
    }

    /// Removes a lock from the idle locks, if it was one.
    fn wake(&mut self, slot: Slot<Lock>) {
        if self.locks[slot].busy().is_none() {
            self.idle.remove(&mut self.locks, slot);
            self.namespaces.count_idle(self.locks[slot].namespace, false);
        }
    }

    /// Moves a lock to the idle locks, if it is not used any more.
    pub(crate) fn rest(&mut self, slot: Slot<Lock>) {
        if self.locks[slot].busy().is_some_and(Busy::is_over) {
            self.idle.push(&mut self.locks, slot, self.now);
            self.namespaces.count_idle(self.locks[slot].namespace, true);
        }
    }

    /// Removes a lock. The namespace's token floor preserves its last token.
    pub(super) fn forget_lock(&mut self, slot: Slot<Lock>) {
        self.clear_lapse(slot);
        self.wake(slot);
        let hash = self.lock_hash(slot);
        self.lock_index.remove(hash, |other| *other == slot);
        let namespace = self.locks[slot].namespace;
        if self.is_catalogued(slot) {
            self.namespaces.catalog(namespace).remove(&self.locks, slot);
        }
        let lock = self.locks.remove(slot);
        self.lock_changed(slot);
        self.footprint.names -= lock.name.len();
        self.namespaces.count_lock(lock.namespace, false);
        self.namespaces.raise_floor(lock.namespace, lock.last_token);
    }

    pub(super) fn add_holder(&mut self, lock: Slot<Lock>, slot: Slot<Lease>) {
        let token = self.leases[slot].token;
        let holder = &mut self.locks[lock];
        holder.last_token = holder.last_token.max(token);
        let busy = holder.busy_mut();
        busy.n_holders += 1;
        let after = busy.holders.replace(slot);
        if let Some(after) = after {
            self.leases[after].in_lock.before = Some(slot);
        }
        self.leases[slot].in_lock.after = after;
        self.count_holder(lock, slot);
        self.clear_lapse(lock);
        self.lock_moved(lock);
    }

    pub(super) fn remove_holder(&mut self, lock: Slot<Lock>, slot: Slot<Lease>) {
        let links = std::mem::take(&mut self.leases[slot].in_lock);
        let busy = self.locks[lock].busy_mut();
        busy.n_holders -= 1;
        match links.before {
            Some(before) => self.leases[before].in_lock.after = links.after,
            None => busy.holders = links.after,
        }
        if let Some(after) = links.after {
            self.leases[after].in_lock.before = links.before;
        }
        self.discount_holder(lock, slot);
        self.lock_moved(lock);
    }

    pub(crate) fn set_lapse(&mut self, lock: Slot<Lock>, lapse: Lapse) {
        if lapse.grace_until > self.now {
            self.grace_deadlines.set(lock, lapse.grace_until);
            self.locks[lock].busy_mut().in_grace = true;
            self.lock_moved(lock);
        }
        self.locks[lock].lapse = Some(Box::new(lapse));
    }

    pub(super) fn clear_lapse(&mut self, lock: Slot<Lock>) {
        if let Some(lapse) = self.locks[lock].lapse.take() {
            self.owners.release(lapse.owner);
            self.end_grace(lock);
        }
    }

    /// Ends the grace period of a lock. The lapse itself stays, so that it can still be reported.
    pub(crate) fn end_grace(&mut self, lock: Slot<Lock>) {
        self.grace_deadlines.remove(lock);
        if let Usage::Busy(busy) = &mut self.locks[lock].usage {
            busy.in_grace = false;
        }
        self.lock_moved(lock);
    }

    /// Follows a change of a lock's holders, queue or grace period: notes it for lists, and updates whether the lock is a
    /// convoy: free, but with waiters, which wait for a group of locks.
    pub(crate) fn lock_moved(&mut self, lock: Slot<Lock>) {
        self.lock_changed(lock);
        let Usage::Busy(busy) = &mut self.locks[lock].usage else { return };
        let is_convoy = busy.is_convoy();
        if std::mem::replace(&mut busy.in_convoy, is_convoy) != is_convoy {
            self.n_convoys = if is_convoy { self.n_convoys + 1 } else { self.n_convoys - 1 };
        }
    }
}
