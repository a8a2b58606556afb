//! Tries to become leader: creates the entry of the leader.

use super::backend::{Backend, Entry, Failure, Lease};
use super::guard::Tenure;
use super::value::{self, LeaderValue};

/// Tries to create the entry of the leader with a lease of about `ttl` seconds. Returns `None` if another server leads,
/// or if one of the entries `nobody_may` exists, which rule out any leader. After an error the outcome is unknown.
pub(super) fn campaign(
    backend: &dyn Backend,
    ttl: i64,
    leader: &LeaderValue,
    nobody_may: &[Entry<'_>],
) -> Result<Option<(Tenure, Lease)>, Failure> {
    let lease = backend.grant(ttl)?;
    let claimed = backend.claim(&value::encode(leader), lease, nobody_may);
    if let Ok(Some(tenure)) = claimed {
        return Ok(Some((tenure, lease)));
    }
    // If this fails, the lease expires on its own.
    let _ = backend.revoke(lease);
    claimed.map(|_| None)
}
