//! Who waits by a credential that counts no more, or for what they may not have any more, leaves the queue: also where
//! nobody is connected who could be told.

use std::collections::BTreeSet;

use leasehold_core::{LeaseRecord, Revoke, Target, Whose};

use super::gate::Authority;
use super::policy::Policy;
use super::principal::OF_KEYS;
use super::{Gate, Permitted, View};
use crate::engine::{EngineHandle, Error, ListHoldings};

/// What those are told whose wait ended so.
const REASON: &str = "its principal may not acquire this lock any more";

/// Ends every wait that would not be allowed to begin now. In slices; what held leases there are run to their
/// deadlines.
pub(super) async fn end_waits(gate: &Gate, engine: &EngineHandle) -> Result<(), Error> {
    let Some((authority, waits)) = gate.authority().zip(gate.waits()) else { return Ok(()) };
    let wall_ms = engine.wall_ms();
    let live = authority.live_keys(wall_ms);
    // Before the look: who begins to wait meanwhile is not taken for somebody who waits no more.
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

/// As far as a name tells.
fn may_wait(authority: &Authority, live: &BTreeSet<&str>, lease: &LeaseRecord) -> bool {
    let principal = &*lease.owner.principal;
    let is_gone = principal.strip_prefix(OF_KEYS).is_some_and(|name| !live.contains(name))
        || Policy::is_of_certificate(principal) && authority.mtls().is_none();
    !is_gone && authority.could_acquire(principal, &lease.lock)
}
