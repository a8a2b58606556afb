//! The locks of one namespace in the order of their names.
//!
//! Only slots are here, four bytes each: the names stay where they are, and are looked up to compare. A lock is put in
//! when it is first named and taken out when it is forgotten; acquiring and releasing one that is known costs nothing.

use crate::arena::{Arena, Slot};
use crate::lock::Lock;

/// Most slots in one piece: moving half of them up costs less than finding the place.
const PIECE_MAX: usize = 512;

/// Slots in pieces that are never empty, in order.
#[derive(Default)]
pub(crate) struct Catalog {
    pieces: Vec<Vec<Slot<Lock>>>,
}

impl Catalog {
    /// Puts a lock in its place.
    pub(crate) fn insert(&mut self, locks: &Arena<Lock>, slot: Slot<Lock>) {
        let name = &*locks[slot].name;
        let is_last = self.last().is_none_or(|last| *locks[last].name < *name);
        if is_last {
            return self.push(slot);
        }
        let (piece, at) = self.find(locks, name);
        let slots = &mut self.pieces[piece];
        slots.insert(at, slot);
        if slots.len() > PIECE_MAX {
            let upper = slots.split_off(slots.len() / 2);
            self.pieces.insert(piece + 1, upper);
        }
    }

    /// Takes a lock out that is in it.
    pub(crate) fn remove(&mut self, locks: &Arena<Lock>, slot: Slot<Lock>) {
        let (piece, at) = self.find(locks, &locks[slot].name);
        self.pieces[piece].remove(at);
        if self.pieces[piece].is_empty() {
            self.pieces.remove(piece);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
    }

    /// The locks from the first on whose name is not before `name`, in order.
    pub(crate) fn from<'a>(
        &'a self,
        locks: &'a Arena<Lock>,
        name: &str,
    ) -> impl Iterator<Item = Slot<Lock>> + use<'a> {
        let (piece, at) = self.find(locks, name);
        self.pieces.iter().skip(piece).flatten().skip(at).copied()
    }

    fn last(&self) -> Option<Slot<Lock>> {
        self.pieces.last().and_then(|piece| piece.last().copied())
    }

    fn push(&mut self, slot: Slot<Lock>) {
        match self.pieces.last_mut() {
            Some(piece) if piece.len() < PIECE_MAX => piece.push(slot),
            _ => self.pieces.push(vec![slot]),
        }
    }

    /// Where `name` is, or would be: piece and place.
    fn find(&self, locks: &Arena<Lock>, name: &str) -> (usize, usize) {
        let is_before = |slot: &Slot<Lock>| *locks[*slot].name < *name;
        let ends_before = |piece: &Vec<Slot<Lock>>| piece.last().is_some_and(is_before);
        let piece = self.pieces.partition_point(ends_before);
        let at = self.pieces.get(piece).map_or(0, |slots| slots.partition_point(is_before));
        (piece, at)
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::Machine;
    use crate::{Acquire, Dialect, Limits, LockKey, Owner, Release, Secret, Timestamp};

    /// Names that come in no order, some of them gone again, are listed in order.
    #[test]
    fn names_are_in_order_whatever_came_and_went() {
        let mut machine = Machine::new(Limits { idle_max: 0, ..Limits::default() }, 1);
        let name = |n: u64| format!("{:04x}", n * 40_503 % 65_536);
        let mut kept = std::collections::BTreeSet::new();
        for n in 0..3_000 {
            let lock = LockKey::new("shop", name(n));
            let acquire = Acquire::new(lock, Owner::new("ann", "a"), Dialect(0), Secret([1; 16]));
            let applied = machine.apply(Timestamp::ZERO, acquire);
            let Ok(crate::Acquired::Granted(grant)) = applied.outcome else { panic!("it is free") };
            if n % 3 == 0 {
                let owner = Owner::new("ann", "a");
                let proof = crate::Proof::Id { id: grant.lease.id, owner, token: None, lock: None };
                let release = Release { proof, dialect: Dialect(0), request_id: None };
                assert!(machine.apply(Timestamp::ZERO, release).outcome.is_ok());
                machine.apply(Timestamp::ZERO, crate::Sweep { n_changes_max: 10 });
            } else {
                kept.insert(name(n));
            }
        }
        assert_eq!(crate::invariant::check(&machine), Ok(()));
        let listed = |from: &str| -> Vec<String> {
            machine.names("shop", from).map(str::to_owned).collect()
        };
        assert_eq!(listed(""), kept.iter().cloned().collect::<Vec<_>>());
        let half: Vec<_> = kept.range("8000".to_owned()..).cloned().collect();
        assert_eq!(listed("8000"), half);
        assert!(machine.names("nowhere", "").next().is_none());
    }
}
