//! Lets the simulation compare the states that the servers of a cluster derive from one store.

use std::fmt;
use std::sync::Arc;

use leasehold_core::Machine;

/// A callback that is shown the state after each record, both by the server that wrote the record and by those
/// that read it.
#[derive(Clone)]
pub struct Witness(Arc<Shown>);

type Shown = dyn Fn(u64, &Machine) + Send + Sync;

impl Witness {
    /// Makes a witness from a callback, which gets the number of a record and the state after it.
    pub fn new(shown: impl Fn(u64, &Machine) + Send + Sync + 'static) -> Self {
        Self(Arc::new(shown))
    }

    /// Shows the machine as of record `seq`.
    pub fn see(&self, seq: u64, machine: &Machine) {
        self.0(seq, machine);
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Witness")
    }
}
