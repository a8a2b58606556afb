//! The leader, and leases.

use std::time::Duration;

use leasehold_base::pace;

use super::{Leased, MemoryShared};
use crate::shared::{BackendFailure, Entry, FailureKind, LeaderEntry, Leadership, Lease, Tenure};

impl Leadership for MemoryShared {
    fn grant(&self, ttl: i64) -> Result<Lease, BackendFailure> {
        let mut state = self.state();
        state.n_leases += 1;
        let (id, span) = (state.n_leases, Duration::from_secs(ttl.unsigned_abs()));
        state.leases.insert(id, (span, pace::now() + span));
        Ok(Lease { id, ttl })
    }

    fn keep(&self, lease: Lease) -> Result<(), BackendFailure> {
        let mut state = self.state();
        let found = state.leases.get_mut(&lease.id);
        let gone = || BackendFailure::new(FailureKind::LeaseGone, "the lease is over");
        let (span, until) = found.ok_or_else(gone)?;
        *until = pace::now() + *span;
        Ok(())
    }

    fn revoke(&self, lease: Lease) -> Result<(), BackendFailure> {
        self.change(|state| state.end(lease.id))
    }

    fn claim(
        &self,
        value: &[u8],
        lease: Lease,
        unless: &[Entry<'_>],
    ) -> Result<Option<Tenure>, BackendFailure> {
        self.change(|state| {
            let is_free = !unless.iter().chain([&Entry::Leader]).any(|entry| state.has(*entry));
            let is_leased = state.leases.contains_key(&lease.id);
            (is_free && is_leased).then(|| {
                let (number, value) = (state.version, value.to_vec());
                let lease = Some(lease.id);
                state.leader = Some(Leased { value: (number, value.clone()), lease });
                Tenure { number, value }
            })
        })
    }

    fn leader(&self) -> Result<Option<LeaderEntry>, BackendFailure> {
        Ok(self.state().leader_entry())
    }

    fn clear_leader(&self, found: &LeaderEntry) -> Result<bool, BackendFailure> {
        self.change(|state| {
            let is_found = state.leader_entry().as_ref() == Some(found);
            state.leader.take_if(|_| is_found).is_some()
        })
    }
}
