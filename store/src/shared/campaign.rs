//! Tries to become leader: creates the entry of the leader.

use super::backend::{Backend, BackendFailure, Entry, Lease};
use super::guard::Tenure;
use super::value::{self, LeaderValue};

/// Tries to create the entry of the leader with a lease of about `ttl` seconds. Returns `None` if another server leads,
/// or if one of the entries `vetoes` exists, which rule out any leader. After an error the outcome is unknown.
pub(super) fn campaign(
    backend: &dyn Backend,
    ttl: i64,
    leader: &LeaderValue,
    vetoes: &[Entry<'_>],
) -> Result<Option<(Tenure, Lease)>, BackendFailure> {
    let lease = backend.grant(ttl)?;
    let claimed = backend.claim(&value::encode(leader), lease, vetoes);
    if let Ok(Some(tenure)) = claimed {
        return Ok(Some((tenure, lease)));
    }
    // If this fails, the lease expires on its own.
    let _ = backend.revoke(lease);
    claimed.map(|_| None)
}
