//! Has etcd forget what keys were. Every append puts the head anew, and etcd keeps all it ever was until somebody says
//! that it need not.

use std::time::Duration;

use leasehold_base::pace;
use leasehold_etcd::{Error, RangeRequest};

use super::cluster::Cluster;
use super::keys::Keys;

/// How often etcd is compacted, and how old a revision must be to be forgotten by it.
pub(super) const EVERY: Duration = Duration::from_secs(60);

/// Done by whoever leads, and only where nobody else has anything in etcd: others may need what keys were.
pub(super) struct Compaction {
    keys: Keys,
    every: Duration,
    /// The revision of some time ago.
    noted: Option<(Duration, i64)>,
}

impl Compaction {
    pub(super) fn new(keys: Keys, every: Duration) -> Self {
        Self { keys, every, noted: None }
    }

    /// Compacts if it is time to.
    pub(super) fn tend(&mut self, cluster: &dyn Cluster) {
        let is_recent = |(at, _)| pace::now().saturating_sub(at) < self.every;
        if self.noted.is_some_and(is_recent) {
            return;
        }
        if let Err(error) = self.compact(cluster) {
            tracing::debug!(%error, "etcd was not compacted");
        }
    }

    fn compact(&mut self, cluster: &dyn Cluster) -> Result<(), Error> {
        let count = |(key, range_end): (Vec<u8>, Vec<u8>)| {
            let request = RangeRequest { key, range_end, count_only: true, ..Default::default() };
            cluster.range(request)
        };
        let ours = count(self.keys.all())?;
        // From the first possible key to the end of all.
        let all = count((vec![0], vec![0]))?;
        let before = self.noted.replace((pace::now(), ours.revision()));
        if let Some((_, before)) = before.filter(|_| all.count <= ours.count) {
            cluster.compact(before)?;
        }
        Ok(())
    }
}
