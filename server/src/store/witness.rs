//! Somebody who compares what servers that share a store make of it: the simulation.

use std::fmt;
use std::sync::Arc;

use leasehold_core::Machine;

/// Shown the state after a record, by whoever wrote it and by whoever read it.
#[derive(Clone)]
pub struct Witness(Arc<Shown>);

type Shown = dyn Fn(u64, &Machine) + Send + Sync;

impl Witness {
    /// Told of every state with the number of the last record in it.
    pub fn new(shown: impl Fn(u64, &Machine) + Send + Sync + 'static) -> Self {
        Self(Arc::new(shown))
    }

    pub(crate) fn see(&self, seq: u64, machine: &Machine) {
        self.0(seq, machine);
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}
