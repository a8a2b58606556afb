//! The other side of a fencing token: what is protected refuses what is stale.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Lets a write through only if no newer token was seen for the same resource.
///
/// A lease alone excludes nobody: whoever is paused between looking at its deadline and writing writes too late.
/// What is written to has to turn it away, by the token that came with the write. Tokens grow with every grant, so
/// the rule is one comparison: *not older than the newest seen*. Equal is fine: that is the same holder again.
///
/// The comparison and the write have to be one step, or two writers can pass in one order and write in the other.
/// Here the write is a closure that runs while the resource is locked.
///
/// This gate forgets with its process. What outlives the process needs a gate that does too: keep the token in
/// the same database as the data and compare it in the same transaction, as `examples/fenced_sqlite.rs` does.
///
/// ```
/// use leasehold::FencingGate;
///
/// let gate = FencingGate::default();
/// let mut file = Vec::new();
/// assert_eq!(gate.write("report", 7, || file.push("seven")), Ok(()));
/// assert_eq!(gate.write("report", 8, || file.push("eight")), Ok(()));
/// let stale = gate.write("report", 7, || file.push("seven, late")).unwrap_err();
/// assert_eq!((stale.token, stale.newest), (7, 8));
/// assert_eq!(file, ["seven", "eight"]);
/// ```
#[derive(Debug, Default)]
pub struct FencingGate {
    newest: Mutex<HashMap<String, Arc<Mutex<u64>>>>,
}

/// A newer token was seen: whoever sent this one has lost its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The one that came.
    pub token: u64,
    /// The newest seen.
    pub newest: u64,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "token {} is stale: {} was here already", self.token, self.newest)
    }
}

impl std::error::Error for Stale {}

impl FencingGate {
    /// Runs `write` if `token` is not older than the newest seen for `resource`, which it then is. Writes to one
    /// resource go one after the other; others are not held up.
    pub fn write<T>(
        &self,
        resource: &str,
        token: u64,
        write: impl FnOnce() -> T,
    ) -> Result<T, Stale> {
        let newest = self.resource(resource);
        let mut newest = newest.lock().unwrap_or_else(PoisonError::into_inner);
        if token < *newest {
            return Err(Stale { token, newest: *newest });
        }
        *newest = token;
        Ok(write())
    }

    /// Lets every older token be refused from here on, without writing anything.
    pub fn raise(&self, resource: &str, token: u64) -> Result<(), Stale> {
        self.write(resource, token, || ())
    }

    /// The newest token seen.
    pub fn newest(&self, resource: &str) -> Option<u64> {
        let all = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = all.get(resource)?.clone();
        drop(all);
        Some(*newest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn resource(&self, resource: &str) -> Arc<Mutex<u64>> {
        let mut all = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(resource) {
            Some(newest) => newest.clone(),
            None => all.entry(resource.into()).or_default().clone(),
        }
    }
}
