//! Compacts etcd. Every append overwrites the head, and etcd keeps every former value until it is compacted.

use std::time::Duration;

use leasehold_base::pace;
use leasehold_etcd::{Error, RangeRequest};

use super::cluster::Cluster;
use super::keys::Keys;

/// The interval between compactions, and the minimum age of a revision that is compacted.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Compacts etcd. Used by the leader, and only if etcd contains no keys outside this store: other users might need
/// former values of their keys.
pub(super) struct Compaction {
    keys: Keys,
    every: Duration,
    /// A revision noted at an earlier time, and that time.
    noted: Option<(Duration, i64)>,
}

impl Compaction {
    pub(super) fn new(keys: Keys, every: Duration) -> Self {
        Self { keys, every, noted: None }
    }

    /// Compacts if it is due.
    pub(super) fn tend(&mut self, cluster: &dyn Cluster) {
        let is_recent = |(at, _)| pace::now().saturating_sub(at) < self.every;
        if self.noted.is_some_and(is_recent) {
            return;
        }
        if let Err(error) = self.compact(cluster) {
            tracing::debug!(%error, "cannot compact etcd");
        }
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
