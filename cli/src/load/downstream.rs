//! What the locks protect: things that are written to, each behind a fencing gate.

use leasehold::{FencingGate, Stale};
use tokio::sync::watch;

/// One thing for each lock, by its number.
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

    /// Writes, if the gate lets it; `wrote` is told in the order of the writes.
    pub(super) fn write(&self, lock: usize, token: u64, wrote: impl FnOnce()) -> Result<(), Stale> {
        self.gate.write(&self.names[lock], token, || {
            wrote();
            self.newest[lock].send_modify(|newest| *newest = token.max(*newest));
        })
    }

    /// Completes when somebody has written with a higher token.
    pub(super) async fn overtaken(&self, lock: usize, token: u64) {
        let mut newest = self.newest[lock].subscribe();
        // It cannot fail: the sender is ours.
        let _ = newest.wait_for(|newest| *newest > token).await;
    }
}
