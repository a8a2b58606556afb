//! What happens to leases, in the log.

use std::borrow::Cow;

use leasehold_core::{Ending, Fact, Note, Span, What};

use crate::http::html::is_hidden;

/// A line for each change. Whether anybody reads them is decided by their target: they are many.
pub(super) fn change(fact: &Fact) {
    let Fact { what, lock, owner, dialect, token, reason, waited, held, .. } = fact;
    let call = || fact.by().and_then(|asker| asker.call.as_deref());
    let ms = |span: &Span| span.as_nanos() / 1_000_000;
    tracing::info!(
        target: "change",
        what = word(*what),
        namespace = &*harmless(&lock.namespace),
        lock = &*harmless(&lock.name),
        owner = &*harmless(&crate::dialect::shown(*dialect, owner)),
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

/// A client's text, with nothing in it that a terminal would obey: a line of JSON leaves some of that as it is.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
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
