//! Finds holders of a lock among those that its view leaves out because there are too many.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{LockKey, LockView, Machine, Token};

/// The secrets of leases.
pub type Secrets = Arc<BTreeSet<[u8; 16]>>;

/// Several locks without their queues, in one round. Returns the first locks, as many as fit a page and at least one.
#[derive(Clone, Debug)]
pub struct ReadLocks {
    /// Which locks.
    pub keys: Vec<LockKey>,
    /// A view has all holders with one of these secrets, however many others there are.
    pub secrets: Secrets,
}

/// Adds the holders with these secrets to a view that has only some holders. Returns how many holders it searched.
pub(super) fn complete(
    view: &mut LockView,
    machine: &Machine,
    (key, secrets): (&LockKey, &Secrets),
) -> usize {
    if view.holders.len() == view.n_holders || secrets.is_empty() {
        return 0;
    }
    let mut found = machine.holders_with(key, secrets);
    found.retain(|lease| view.holders.iter().all(|known| known.id != lease.id));
    view.holders.extend(found);
    view.n_holders
}

/// Asks whether a lease with this token holds the lock.
#[derive(Clone, Debug)]
pub struct CheckToken {
    /// Which lock.
    pub key: LockKey,
    /// Which token.
    pub token: Token,
}

/// What is known of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenState {
    /// A lease with this token holds the lock.
    pub is_held: bool,
    /// The token of the latest grant.
    pub last_token: Token,
}
