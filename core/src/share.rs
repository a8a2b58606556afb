//! Shares: leases that a lock on a path takes on its parent directories.
//!
//! Protocols that lock paths take several leases for one lock: the lock's own lease, and a share of each parent
//! directory. Clients never request shares by name. So the number of shares per lock is not limited, a share does not
//! count as a held lock, and shares do not appear in events.

use std::collections::BTreeMap;

use crate::arena::Slot;
use crate::lease::Lease;
use crate::lock::Lock;
use crate::mutant;
use crate::name::Dialect;
use crate::state::State;

/// The dialects that lock paths.
pub const OF_PATHS: &[Dialect] = &[Dialect(4), Dialect(8)];

/// Returns whether this is the name of a lock for shares, and so not the name of a file or directory. A directory has
/// three such locks: its tree, its readers and its members. The root directory is `/`, with a lock like any other
/// directory.
pub fn is_share_name(name: &str) -> bool {
    match name.as_bytes() {
        b"/" => false,
        [.., b'/'] | [.., b'/', b'.'] | [.., b'/', b'.', b'.'] => true,
        _ => false,
    }
}

/// Returns whether a lease of this dialect on a lock of this name is a share.
pub fn is_share(dialect: Dialect, name: &str) -> bool {
    OF_PATHS.contains(&dialect) && is_share_name(name)
}

/// How many locks and leases are held. Derived from the leases, never journaled.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) n_locks: usize,
    /// The number of active leases that are not shares.
    pub(crate) n_leases: usize,
    /// For locks with the name of a share: how many of their leases are not shares. Few locks have such leases.
    claims: BTreeMap<Slot<Lock>, u32>,
}

impl Held {
    /// Used by [`crate::invariant`].
    pub(crate) fn n_claims(&self, lock: Slot<Lock>) -> u32 {
        self.claims.get(&lock).copied().unwrap_or_default()
    }
}

impl State {
    pub(crate) fn is_share(&self, lease: &Lease) -> bool {
        is_share(lease.dialect, &self.locks[lease.lock].name)
    }

    /// Counts a lease that became a holder of its lock.
    pub(crate) fn count_holder(&mut self, lock: Slot<Lock>, slot: Slot<Lease>) {
        if self.is_share(&self.leases[slot]) && !mutant!(SharesCounted) {
            return;
        }
        let n_claims = match is_share_name(&self.locks[lock].name) {
            true => {
                let n_claims = self.held.claims.entry(lock).or_default();
                *n_claims += 1;
                *n_claims
            }
            false => self.locks[lock].n_holders(),
        };
        self.held.n_locks += usize::from(n_claims == 1);
        self.held.n_leases += 1;
    }

    /// Subtracts a lease that stopped holding its lock.
    pub(crate) fn discount_holder(&mut self, lock: Slot<Lock>, slot: Slot<Lease>) {
        if self.is_share(&self.leases[slot]) && !mutant!(SharesCounted) {
            return;
        }
        let n_claims = match is_share_name(&self.locks[lock].name) {
            true => {
                let n_claims = self.held.n_claims(lock).saturating_sub(1);
                self.held.claims.insert(lock, n_claims);
                n_claims
            }
            false => self.locks[lock].n_holders(),
        };
        if n_claims == 0 {
            self.held.claims.remove(&lock);
            self.held.n_locks -= 1;
        }
        self.held.n_leases -= 1;
    }

    /// Returns whether a lock has the name of a share, only shares as holders, and no waiters.
    pub(crate) fn is_only_shared(&self, lock: Slot<Lock>) -> bool {
        let Lock { name, .. } = &self.locks[lock];
        is_share_name(name) && self.held.n_claims(lock) == 0 && self.locks[lock].queue().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_or_folder_has_the_name_of_a_share() {
        let names = [
            ("/", false),
            ("//", true),
            ("//.", true),
            ("//..", true),
            ("/a/", true),
            ("/a/.", true),
            ("/a/..", true),
            ("/a.", false),
            ("/a..", false),
            ("/a/b", false),
        ];
        for (name, expected) in names {
            assert_eq!(is_share_name(name), expected, "{name}");
        }
    }
}
