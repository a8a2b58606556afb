//! What happens to leases, in the log.

use leasehold_core::{Ending, Fact, Note, Span, What};

/// A line for each change. Whether anybody reads them is decided by their target: they are many.
pub(super) fn change(fact: &Fact) {
    let Fact { what, lock, owner, token, reason, waited, held, asker, .. } = fact;
    let ms = |span: &Span| span.as_nanos() / 1_000_000;
    tracing::info!(
        target: "change",
        what = word(*what),
        namespace = &*lock.namespace,
        lock = &*lock.name,
        owner = &*owner.instance,
        principal = &*owner.principal,
        token = token.get(),
        waited_ms = ms(waited),
        held_ms = ms(held),
        reason = reason.as_deref(),
        peer = asker.as_ref().map(|asker| &*asker.peer),
        "lease"
    );
}

fn word(what: What) -> &'static str {
    match what {
        What::Queued => "queued",
        What::Granted => "granted",
        What::Ended(Ending::Released) => "released",
        What::Ended(Ending::Expired) => "expired",
        What::Ended(Ending::Revoked) => "revoked",
        What::WaitEnded(_) => "wait ended",
        What::Noted(Note::HeldLong) => "held long",
        What::Noted(Note::WaitedLong) => "waited long",
        What::Noted(Note::DeadlockSuspected) => "deadlock suspected",
    }
}
