//! Warns of leases that might not outlast a leader change of the cluster.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hyper::header::HeaderMap;

/// The response header with the shortest TTL, in milliseconds, that outlasts a leader change. Leases with a shorter
/// TTL might end.
const FAILOVER_MS: &str = "leasehold-failover-ms";

/// The last value that the servers sent, and whether the warning was logged.
#[derive(Debug, Default)]
pub(crate) struct Failover {
    /// 0 if no server sent the header, because it is not part of a cluster.
    ms: AtomicU64,
    is_warned: AtomicBool,
}

impl Failover {
    /// Reads the value from the headers of a response.
    pub(crate) fn learn(&self, headers: &HeaderMap) {
        let Some(said) = headers.get(FAILOVER_MS) else { return };
        let ms = said.to_str().ok().and_then(|text| text.parse().ok());
        ms.into_iter().for_each(|ms| self.ms.store(ms, Relaxed));
    }

    pub(crate) fn time(&self) -> Option<Duration> {
        Some(self.ms.load(Relaxed)).filter(|ms| *ms > 0).map(Duration::from_millis)
    }

    /// Logs a warning if the TTL is too short. It does so once per client.
    pub(crate) fn warn(&self, ttl: Duration) {
        let Some(failover) = self.time().filter(|failover| ttl < *failover) else { return };
        if !self.is_warned.swap(true, Relaxed) {
            tracing::warn!(
                ?ttl,
                ?failover,
                "the TTL is shorter than a fail-over of this cluster: a leader change might end the lease"
            );
        }
    }
}
