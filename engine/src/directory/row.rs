//! What the directory keeps of one lock.

use std::hash::{DefaultHasher, Hash, Hasher};

use leasehold_core::{Dialect, Glance, Timestamp};

/// No slot.
pub(super) const NONE: u32 = u32::MAX;
/// Holders, and waiters, of one lock whose names a search covers.
pub(super) const OWNERS_MAX: usize = 16;
/// Holders and waiters of one lock that are told apart by [`Row::instances`]. A lock with more matches every owner.
const INSTANCES_MAX: usize = 64;

/// What the directory keeps of one lock beside its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// When the lease of the latest holder ends, or else the grace period. Without the session's end.
    pub(super) ends: u64,
    pub(super) held_since: u64,
    pub(super) waited_since: u64,
    /// The bits of all holders and waiters: see [`bits`].
    pub(super) instances: u64,
    pub(super) n_holders: u32,
    pub(super) n_waiting: u32,
    /// The slot of the session of the latest holder.
    pub(super) session: u32,
    /// The number of the first owner's text. Further ones are kept elsewhere.
    pub(super) owner: u32,
    pub(super) has_more_owners: bool,
    pub(super) dialect: Option<Dialect>,
    pub(super) in_grace: bool,
    pub(super) is_only_shared: bool,
}

impl Row {
    /// Describes a lock, except for its owners' texts.
    pub(super) fn of(lock: Glance<'_>) -> Self {
        let nanos = |at: Option<Timestamp>| at.map_or(u64::MAX, Timestamp::as_nanos);
        let (n_holders, n_waiting) = (lock.n_holders(), lock.n_waiting());
        let grace_until = lock.grace_until();
        let instances = match n_holders + n_waiting > INSTANCES_MAX {
            true => u64::MAX,
            false => lock.owners(INSTANCES_MAX).fold(0, |all, s| all | bits(&s.owner.instance)),
        };
        Self {
            ends: nanos(lock.deadline().or(grace_until)),
            held_since: nanos(lock.held_since()),
            waited_since: nanos(lock.waited_since()),
            instances,
            n_holders: n_holders as u32,
            n_waiting: n_waiting as u32,
            session: lock.session().map_or(NONE, |at| at as u32),
            owner: NONE,
            has_more_owners: false,
            dialect: lock.dialect(),
            in_grace: grace_until.is_some(),
            is_only_shared: lock.is_only_shared(),
        }
    }
}

/// Returns four of 64 bits for an owner's name. A lock without them does not have this owner. About one in 65,000 locks
/// with a single owner has them by chance.
pub(super) fn bits(instance: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    instance.hash(&mut hasher);
    let hash = hasher.finish();
    (0..4).fold(0, |bits, n| bits | 1 << (hash >> (6 * n) & 63))
}
