//! Warns of leases that might not outlast a leader change of the cluster.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hyper::header::HeaderMap;

/// Leases with a shorter TTL than this, in milliseconds, might end when the leader changes.
const FAILOVER_MS: &str = "leasehold-failover-ms";

/// The last value that the servers sent, and whether the client was warned.
#[derive(Debug, Default)]
pub(crate) struct Failover {
    /// 0 if the servers sent none: it is a single server.
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

    /// Warns once of a TTL that is too short.
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
