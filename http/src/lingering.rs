//! Connections that got their last response. The server reads from them for a while, so that clients that are still
//! sending get the response.

use std::fmt;

use prometheus_client::metrics::gauge::Gauge;

use super::wire::Wire;
use leasehold_auth::shares::Taken;

/// A connection without a slot, from which the server reads for a while after the last response.
pub(super) struct Lingering {
    wire: Wire,
    n_lingering: Gauge,
    _taken: Taken,
}

impl Lingering {
    /// Counts the connection until it is dropped. `taken` is its share of `lingering-max`.
    pub(super) fn new(wire: Wire, n_lingering: Gauge, taken: Taken) -> Self {
        n_lingering.inc();
        Self { wire, n_lingering, _taken: taken }
    }

    /// Reads until the client has the response, or the time limit passes.
    pub(super) async fn finish(self) {
        self.wire.linger().await;
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        self.n_lingering.dec();
    }
}

impl fmt::Debug for Lingering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lingering").finish_non_exhaustive()
    }
}
