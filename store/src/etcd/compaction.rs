//! Compacts etcd. Every append overwrites the head, and etcd keeps every former value until it is compacted.

use std::time::Duration;

use leasehold_base::pace;
use leasehold_etcd::{Error, RangeRequest};

use super::cluster::Cluster;
use super::keys::Keys;

/// Compacts etcd. Used by the leader, and only if etcd contains no keys outside this store: other users might need
/// former values of their keys.
pub(super) struct Compaction {
    keys: Keys,
    /// A revision noted at an earlier time, and that time.
    noted: Option<(Duration, i64)>,
}

impl Compaction {
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, noted: None }
    }

    /// Compacts if it is due. `every` is the interval between compactions, and the minimum age of a revision that is
    /// compacted.
    pub(super) fn tend(&mut self, cluster: &dyn Cluster, every: Duration) -> Result<(), Error> {
        let is_recent = |(at, _)| pace::now().saturating_sub(at) < every;
        if self.noted.is_some_and(is_recent) { Ok(()) } else { self.compact(cluster) }
    }

    fn compact(&mut self, cluster: &dyn Cluster) -> Result<(), Error> {
        let count = |(key, range_end): (Vec<u8>, Vec<u8>)| {
            let request = RangeRequest { key, range_end, count_only: true, ..Default::default() };
            cluster.range(request)
        };
        let ours = count(self.keys.all())?;
        // The range from the first possible key to the end of all keys.
        let all = count((vec![0], vec![0]))?;
        let before = self.noted.replace((pace::now(), ours.revision()));
        if let Some((_, before)) = before.filter(|_| all.count <= ours.count) {
            cluster.compact(before)?;
        }
        Ok(())
    }
}
