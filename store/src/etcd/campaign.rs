//! Tries to become leader: creates the leader key in etcd.

use leasehold_etcd::{Op, Txn, When};

use super::cluster::Cluster;
use super::guard::{Tenure, put_once};
use super::keeper::Lease;
use super::keys::Keys;
use super::value::{self, LeaderValue};

/// Tries to create the leader key with a lease of about `ttl` seconds. Returns the key's revision and value, and its
/// lease. Returns `None` if another server leads, or if one of the keys `vetoes` exists, which rule out any leader. The
/// error states in words why the outcome is unknown.
pub(super) fn campaign(
    cluster: &dyn Cluster,
    keys: &Keys,
    ttl: i64,
    leader: &LeaderValue,
    vetoes: &[Vec<u8>],
) -> Result<Option<(Tenure, Lease)>, String> {
    let granted = cluster.lease_grant(ttl).map_err(|error| error.to_string())?;
    let lease = Lease { id: granted.id, ttl: granted.ttl };
    let (key, value) = (keys.leader(), value::encode(leader));
    let mut txn = Txn::default().when(key.clone(), When::Absent);
    for other in vetoes {
        txn = txn.when(other.clone(), When::Absent);
    }
    let txn = txn.then(Op::Put(key.clone(), value.clone(), lease.id));
    let put = put_once(cluster, txn, (key, &value));
    if let Ok(Some(created_at)) = put {
        return Ok(Some((Tenure { created_at, value }, lease)));
    }
    // If this fails, the lease expires on its own.
    let _ = cluster.lease_revoke(lease.id);
    put.map(|_| None).map_err(|error| error.to_string())
}
