//! Revocations by operators, through the API or the console. Both take the same steps and write the same log and audit
//! lines.

use leasehold_auth::{Caller, Denied, Right, View};
use leasehold_base::text::harmless;
use leasehold_core::{
    EndSession, LeaseRecord, LeaseView, LockKey, Rejection, Revoke, SessionNumber, SessionRecord,
    Target, Whose, is_share,
};
use leasehold_engine::{self as engine, ListHoldings, ListSessions};

use crate::app::App;
use crate::grip;

/// Revokes the leases of `target`, all of which are on this lock.
pub async fn revoke<E>(
    app: &App,
    caller: &Caller,
    key: &LockKey,
    target: Target,
    reason: &str,
) -> Result<Vec<LeaseView>, E>
where
    E: From<Denied> + From<engine::Error> + From<Rejection>,
{
    let revoke = Revoke { target, reason: reason.into() };
    let leases = app.engine.ask(caller.permit_on(Right::Revoke, [key], revoke)?).await??;
    grip::loosen(app, key, caller, &leases).await;
    let (by, why, n) = (by(caller), &*harmless(reason), leases.len());
    match n {
        0 => {
            tracing::info!(lock = ?key, by, reason = why, n, "the lock was not held; nothing was revoked")
        }
        _ => tracing::warn!(lock = ?key, by, reason = why, n, "revoked"),
    }
    app.note_taken(caller, "revoke", is_from_others(caller, &leases), |act| {
        act.on(key).detail("n", n).claimed("reason", Some(reason))
    });
    Ok(leases)
}

/// Returns whether one of these leases belongs to another principal.
pub fn is_from_others(caller: &Caller, leases: &[LeaseView]) -> bool {
    leases.iter().any(|lease| !caller.is(&lease.owner.principal))
}

/// Revokes all leases of an owner or principal. Calls `each` with the revoked leases, and returns their number. Works
/// in slices, so that an owner with many leases does not delay other requests.
pub async fn revoke_all<E>(
    app: &App,
    caller: &Caller,
    whose: &Whose,
    reason: &str,
    is_dry: bool,
    mut each: impl FnMut(&LeaseRecord),
) -> Result<u64, E>
where
    E: From<Denied> + From<engine::Error> + From<Rejection>,
{
    let (mut n, mut from) = (0, Some(0));
    while let Some(place) = from {
        let list = ListHoldings { whose: whose.clone(), from: place, view: View::default() };
        let page = app.engine.ask(caller.permit(list)?).await?;
        from = page.next;
        // The shares of a lock on a path end with it and are not reported.
        let told = page.leases.iter().filter(|lease| !is_share(lease.dialect, &lease.lock.name));
        for lease in told {
            n += 1;
            each(lease);
        }
        if !is_dry && !page.leases.is_empty() {
            let numbers = page.leases.iter().map(|lease| lease.number).collect();
            let revoke = Revoke { target: Target::Leases(numbers), reason: reason.into() };
            let locks = page.leases.iter().map(|lease| &lease.lock);
            app.engine.ask(caller.permit_on(Right::Revoke, locks, revoke)?).await??;
        }
    }
    Ok(n)
}

/// Logs and audits that the leases of an owner or principal were revoked.
pub fn tell_all(app: &App, caller: &Caller, whose: &Whose, reason: &str, n: u64) {
    let is_own = matches!(whose, Whose::Principal(principal) if caller.is(principal));
    let (by, why) = (by(caller), &*harmless(reason));
    tracing::warn!(?whose, by, reason = why, n, "revoked");
    app.note_taken(caller, "revoke", n > 0 && !is_own, |act| {
        act.detail("of", format!("{whose:?}")).detail("n", n).claimed("reason", Some(reason))
    });
}

/// Writes to the audit files that a lock was taken from another principal through a dialect of clients.
pub fn note_revoked(app: &App, caller: &Caller, lock: &LockKey, reason: &str) {
    app.note_taken(caller, "revoke", true, |act| {
        act.on(lock).detail("n", 1).claimed("reason", Some(reason))
    });
}

/// Finds a session by its number, and counts its leases.
pub async fn find_session<E>(
    app: &App,
    caller: &Caller,
    number: SessionNumber,
) -> Result<Option<(SessionRecord, u32)>, E>
where
    E: From<Denied> + From<engine::Error>,
{
    let list = caller.permit(ListSessions { from: number, n_max: 1 })?;
    let found = app.engine.ask(list).await?;
    Ok(found.into_iter().find(|(session, _)| session.number == number))
}

/// Ends a session, and returns how many leases ended with it; `None` if it had already ended. The command has no field
/// for a reason. If there is one, the leases are first revoked with it, so that it is in their history and their
/// holders learn it.
pub async fn end_session<E>(
    app: &App,
    caller: &Caller,
    (session, n_leases): &(SessionRecord, u32),
    reason: Option<&str>,
) -> Result<Option<u64>, E>
where
    E: From<Denied> + From<engine::Error> + From<Rejection>,
{
    let number = session.number;
    let ask = caller.permit(EndSession { number })?;
    let n = match reason {
        Some(reason) => {
            let whose = Whose::Session(number);
            revoke_all::<E>(app, caller, &whose, reason, false, |_| {}).await?
        }
        None => u64::from(*n_leases),
    };
    match app.engine.ask(ask).await? {
        Err(Rejection::NoSuchSession) => return Ok(None),
        ended => ended?,
    }
    let (owner, why) = (&*harmless(&session.owner.instance), reason.map(harmless));
    let is_from_others = n > 0 && !caller.is(&session.owner.principal);
    let (session, by, why) = (number.0, by(caller), why.as_deref());
    tracing::warn!(session, owner, by, reason = why, n, "session ended by an operator");
    app.note_taken(caller, "end-session", is_from_others, |act| {
        act.detail("session", session).detail("n", n).claimed("reason", reason)
    });
    Ok(Some(n))
}

fn by(caller: &Caller) -> &str {
    caller.principal().name()
}
