//! Logs what happens to leases.

use leasehold_base::text::harmless;
use leasehold_core::{Ending, Fact, Note, Span, What};

use super::owner::shown;

/// Logs a change. There are many such lines, so they have a log target of their own.
pub(super) fn change(fact: &Fact) {
    let Fact { what, lock, owner, dialect, token, reason, waited, held, .. } = fact;
    let call = || fact.by().and_then(|asker| asker.call.as_deref());
    let ms = |span: &Span| span.as_nanos() / 1_000_000;
    tracing::info!(
        target: "change",
        what = word(*what),
        namespace = &*harmless(&lock.namespace),
        lock = &*harmless(&lock.name),
        owner = &*harmless(&shown(*dialect, owner)),
        owner_principal = &*harmless(&owner.principal),
        token = token.get(),
        waited_ms = ms(waited),
        held_ms = ms(held),
        reason = reason.as_deref().map(harmless).as_deref(),
        by = call().map(|call| harmless(&call.principal)).as_deref(),
        peer = call().map(|call| &*call.peer),
        route = call().map(|call| &*call.route),
        request_id = call().and_then(|call| call.request_id.as_deref()),
        trace_id = call().and_then(|call| call.trace_id.as_deref()),
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
