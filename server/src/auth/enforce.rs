//! Ends waits that their principals are no longer entitled to, even if the client is not connected.
//!
//! A wait ends if its credential became invalid or its principal lost the right to acquire the lock.

use std::collections::BTreeSet;

use leasehold_core::{LeaseRecord, Revoke, Target, Whose};

use super::gate::Authority;
use super::policy::Policy;
use super::principal::OF_KEYS;
use super::{Gate, Permitted, View};
use crate::engine::{EngineHandle, Error, ListHoldings};

/// The reason that clients get for such a wait.
const REASON: &str = "its principal may not acquire this lock any more";

/// Ends every wait that would not be permitted to start now. Works page by page. Held leases keep their deadlines.
pub(super) async fn end_waits(gate: &Gate, engine: &EngineHandle) -> Result<(), Error> {
    let Some((authority, waits)) = gate.authority().zip(gate.waits()) else { return Ok(()) };
    let wall_ms = engine.wall_ms();
    let live = authority.live_keys(wall_ms);
    // Read before the list: a client that starts to wait in the meantime must not count as gone.
    let mut gone: BTreeSet<_> = waits.numbers().into_iter().collect();
    let mut from = Some(0);
    while let Some(place) = from {
        let list = ListHoldings { whose: Whose::Waiting, from: place, view: View::default() };
        let page = engine.ask(Permitted::new(list)).await?;
        from = page.next;
        let is_over = |lease: &&LeaseRecord| match waits.who(lease.number) {
            Some(who) => {
                !authority.vouches(&who, wall_ms) || !authority.may_acquire(&who, &lease.lock)
            }
            None => !may_wait(&authority, &live, lease),
        };
        let numbers: Vec<_> = page.leases.iter().filter(is_over).map(|l| l.number).collect();
        page.leases.iter().for_each(|lease| {
            gone.remove(&lease.number);
        });
        if !numbers.is_empty() {
            tracing::info!(n = numbers.len(), "waits ended: {REASON}");
            let revoke = Revoke { target: Target::Leases(numbers), reason: REASON.into() };
            let _ = engine.ask(Permitted::new(revoke)).await?;
        }
    }
    waits.clear(gone);
    Ok(())
}

/// Checks a waiter of which only the principal's name is known.
fn may_wait(authority: &Authority, live: &BTreeSet<&str>, lease: &LeaseRecord) -> bool {
    let principal = &*lease.owner.principal;
    let is_gone = principal.strip_prefix(OF_KEYS).is_some_and(|name| !live.contains(name))
        || Policy::is_of_certificate(principal) && authority.mtls().is_none();
    !is_gone && authority.could_acquire(principal, &lease.lock)
}
