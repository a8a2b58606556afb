//! The locks of one namespace, ordered by name.
//!
//! A catalog holds only slots, of four bytes each. The names stay in the locks, and each comparison reads them there.
//! That takes as long as the rest of granting a new lock, so there is no catalog until the first list request. From
//! then on, a lock is inserted when it is first named and removed when it is forgotten. Acquiring and releasing a known
//! lock does not touch the catalog.

use crate::arena::{Arena, Slot};
use crate::lock::Lock;

/// The maximum number of slots in one piece. Inserting a lock compares names, and each comparison reads two places in
/// memory, so pieces are small. The list of pieces grows with their number, so they are not tiny.
const PIECE_MAX: usize = 128;

/// Slots in ordered pieces, none of them empty.
#[derive(Default)]
pub(crate) struct Catalog {
    pieces: Vec<Piece>,
}

struct Piece {
    slots: Vec<Slot<Lock>>,
    /// An upper bound for the names in this piece, and a lower bound for the next piece. Unused in the last piece.
    until: Box<str>,
}

impl Catalog {
    /// Inserts a lock at its position.
    pub(crate) fn insert(&mut self, locks: &Arena<Lock>, slot: Slot<Lock>) {
        let name = &*locks[slot].name;
        let Some(last) = self.pieces.last() else {
            return self.pieces.push(Piece { slots: vec![slot], until: "".into() });
        };
        let is_last = last.slots.last().is_none_or(|last| *locks[*last].name < *name);
        let (piece, at) = match is_last {
            true => (self.pieces.len() - 1, last.slots.len()),
            false => self.find(locks, name),
        };
        let slots = &mut self.pieces[piece].slots;
        slots.insert(at, slot);
        if slots.len() > PIECE_MAX {
            // If names arrive in order, this leaves full pieces behind.
            let half = if is_last { PIECE_MAX } else { PIECE_MAX / 2 };
            self.split(locks, piece, half);
        }
    }

    fn split(&mut self, locks: &Arena<Lock>, piece: usize, at: usize) {
        let lower = &mut self.pieces[piece];
        let slots = lower.slots.split_off(at);
        let until = locks[lower.slots[at - 1]].name.clone();
        let until = std::mem::replace(&mut lower.until, until);
        self.pieces.insert(piece + 1, Piece { slots, until });
    }

    /// Removes a lock, which must be in the catalog.
    pub(crate) fn remove(&mut self, locks: &Arena<Lock>, slot: Slot<Lock>) {
        let (piece, at) = self.find(locks, &locks[slot].name);
        self.pieces[piece].slots.remove(at);
        if self.pieces[piece].slots.is_empty() {
            self.pieces.remove(piece);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
    }

    /// Returns the locks whose names are not before `name`, in order.
    pub(crate) fn from<'a>(
        &'a self,
        locks: &'a Arena<Lock>,
        name: &str,
    ) -> impl Iterator<Item = Slot<Lock>> + use<'a> {
        let (piece, at) = self.find(locks, name);
        self.pieces.iter().skip(piece).flat_map(|piece| &piece.slots).skip(at).copied()
    }

    /// Returns the piece and the position of `name`, or where it would be inserted.
    fn find(&self, locks: &Arena<Lock>, name: &str) -> (usize, usize) {
        let Some((last, bounded)) = self.pieces.split_last() else { return (0, 0) };
        let piece = bounded.partition_point(|piece| *piece.until < *name);
        let slots = &bounded.get(piece).unwrap_or(last).slots;
        (piece, slots.partition_point(|slot| *locks[*slot].name < *name))
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::Machine;
    use crate::{Acquire, Dialect, Limits, LockKey, Owner, Release, Secret, Timestamp};

    /// Names that arrive in no order, some of which are removed again, are listed in order.
    #[test]
    fn names_are_in_order_whatever_came_and_went() {
        let mut machine = Machine::new(Limits { idle_max: 0, ..Limits::default() }, 1);
        let name = |n: u64| format!("{:04x}", n * 40_503 % 65_536);
        let mut kept = std::collections::BTreeSet::new();
        for n in 0..3_000 {
            if n > 2_000 && n % 10 == 0 {
                machine.order_names(3);
            }
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
        assert!(!machine.order_names(1), "there is more");
        assert!(machine.order_names(usize::MAX));
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
