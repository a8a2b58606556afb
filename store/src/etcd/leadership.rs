//! The leader key, and etcd's leases.

use leasehold_etcd::{Op, Txn, When};

use super::guard::leader_entry;
use super::{EtcdBackend, reading, unless};
use crate::shared::guard::Tenure;
use crate::shared::{BackendFailure, Entry, LeaderEntry, Leadership, Lease};

impl Leadership for EtcdBackend {
    fn grant(&self, ttl: i64) -> Result<Lease, BackendFailure> {
        let granted = self.cluster.lease_grant(ttl)?;
        Ok(Lease { id: granted.id, ttl: granted.ttl })
    }

    fn keep(&self, lease: Lease) -> Result<(), BackendFailure> {
        Ok(self.cluster.lease_keep_alive(lease.id).map(drop)?)
    }

    fn revoke(&self, lease: Lease) -> Result<(), BackendFailure> {
        Ok(self.cluster.lease_revoke(lease.id)?)
    }

    fn claim(
        &self,
        value: &[u8],
        lease: Lease,
        none_of: &[Entry<'_>],
    ) -> Result<Option<Tenure>, BackendFailure> {
        let key = self.keys.leader();
        let txn = Txn::default().when(key.clone(), When::Absent);
        let txn = unless(txn, &self.keys, none_of);
        let txn = txn.then(Op::Put(key.clone(), value.to_vec(), lease.id));
        let created = self.put_once(txn, key, value)?;
        Ok(created.map(|number| Tenure { number, value: value.to_vec() }))
    }

    fn leader(&self) -> Result<Option<LeaderEntry>, BackendFailure> {
        let answer = self.txn(reading([self.keys.leader()]))?;
        Ok(answer.found(0).map(leader_entry))
    }

    fn clear_leader(&self, found: &LeaderEntry) -> Result<bool, BackendFailure> {
        let key = self.keys.leader();
        let txn = Txn::default()
            .when(key.clone(), When::CreatedAt(found.number))
            .when(key.clone(), When::Is(&found.value));
        Ok(self.txn(txn.then(Op::Delete(key)))?.succeeded)
    }
}
