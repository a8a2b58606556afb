//! The resources that the locks protect. Each accepts writes only through a fencing gate.

use leasehold::{FencingGate, Stale};
use tokio::sync::watch;

/// One resource per lock, indexed by the number of the lock.
#[derive(Debug)]
pub(super) struct Downstream {
    gate: FencingGate,
    names: Vec<String>,
    newest: Vec<watch::Sender<u64>>,
}

impl Downstream {
    pub(super) fn new(names: Vec<String>) -> Self {
        let newest = names.iter().map(|_| watch::Sender::new(0)).collect();
        Self { gate: FencingGate::default(), names, newest }
    }

    /// Writes if the gate accepts the token. Calls `wrote` in the order of the writes.
    pub(super) fn write(&self, lock: usize, token: u64, wrote: impl FnOnce()) -> Result<(), Stale> {
        self.gate.write(&self.names[lock], token, || {
            wrote();
            self.newest[lock].send_modify(|newest| *newest = token.max(*newest));
        })
    }

    /// Completes when another client has written with a higher token.
    pub(super) async fn overtaken(&self, lock: usize, token: u64) {
        let mut newest = self.newest[lock].subscribe();
        // This cannot fail: we own the sender.
        let _ = newest.wait_for(|newest| *newest > token).await;
    }
}
