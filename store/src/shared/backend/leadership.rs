//! Who leads, and for how long.

use super::{BackendFailure, Entry};
use crate::shared::guard::Tenure;

/// Leases, and the entry of the leader.
pub trait Leadership {
    /// Grants a lease of about `ttl` seconds. Entries that were put with it are deleted when it ends.
    fn grant(&self, ttl: i64) -> Result<Lease, BackendFailure>;

    /// Renews a lease.
    fn keep(&self, lease: Lease) -> Result<(), BackendFailure>;

    /// Ends a lease.
    fn revoke(&self, lease: Lease) -> Result<(), BackendFailure>;

    /// Puts the entry of the leader, unless it or one of these entries exists. Tries each member. `value` is different
    /// in each leadership, so an earlier attempt that took effect is recognized. Returns `None` if one of the entries
    /// exists.
    fn claim(
        &self,
        value: &[u8],
        lease: Lease,
        unless: &[Entry<'_>],
    ) -> Result<Option<Tenure>, BackendFailure>;

    /// Reads the entry of the leader.
    fn leader(&self) -> Result<Option<LeaderEntry>, BackendFailure>;

    /// Deletes this entry of a leader, if it is still the current one. Returns whether it was.
    fn clear_leader(&self, found: &LeaderEntry) -> Result<bool, BackendFailure>;
}

/// How long an entry lasts unless it is renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The id of the lease.
    pub id: i64,
    /// Its TTL in seconds, as the system chose it.
    pub ttl: i64,
}

/// The entry of the leader.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaderEntry {
    /// The version of the store in which it was created.
    pub number: i64,
    /// Its value.
    pub value: Vec<u8>,
    /// Whether it has a lease. Without one, no server keeps it, and it never ends.
    pub is_kept: bool,
}
