//! Ends waits that their principals are no longer entitled to, even if the client is not connected.

use leasehold_auth::{Gate, Permitted, View};
use leasehold_core::{Revoke, Target, Whose};
use leasehold_engine::{EngineHandle, Error, ListHoldings};

/// The reason that clients get for such a wait.
const REASON: &str = "its principal no longer has the right to acquire this lock";

/// Ends every wait that would not be permitted to start now. Works page by page. Held leases keep their deadlines.
pub(super) async fn end_waits(gate: &Gate, engine: &EngineHandle) -> Result<(), Error> {
    let Some(mut review) = gate.review_waits(engine.wall_ms()) else { return Ok(()) };
    let mut from = Some(0);
    while let Some(place) = from {
        let list = ListHoldings { whose: Whose::Waiting, from: place, view: View::default() };
        let page = engine.ask(Permitted::unchecked(list)).await?;
        from = page.next;
        let numbers = review.over(&page.leases);
        if !numbers.is_empty() {
            tracing::info!(n = numbers.len(), "waits ended: {REASON}");
            let revoke = Revoke { target: Target::Leases(numbers), reason: REASON.into() };
            let _ = engine.ask(Permitted::unchecked(revoke)).await?;
        }
    }
    review.finish();
    Ok(())
}
