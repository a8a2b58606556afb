//! Sessions: one keep-alive for many leases.

use crate::arena::Slot;
use crate::change::Change;
use crate::command::{CloseSession, EndSession, KeepSession, OpenSession};
use crate::lease::Ending;
use crate::name::Dialect;
use crate::outcome::{Limit, Rejection, SessionOpened};
use crate::session::{Session, SessionDigest, SessionRecord};
use crate::time::Timestamp;
use crate::transition::Transition;

pub(crate) fn open(t: &mut Transition<'_>, open: OpenSession) -> Result<SessionOpened, Rejection> {
    t.limits.check_session(&open)?;
    let n_sessions = t.state.n_sessions.get(&open.dialect).copied().unwrap_or_default();
    t.limits.within(Limit::Sessions, n_sessions < t.limits.sessions_max)?;
    let accounts = &t.state.owners.accounts;
    let account = accounts.find(&open.owner.principal, open.peer);
    let n_sessions = account.map_or(0, |slot| accounts.get(slot).n_sessions(open.dialect));
    let is_room = n_sessions < t.limits.principal_sessions_max;
    t.limits.within(Limit::PrincipalSessions, is_room)?;
    if t.state.find_session(&open.digest).is_some() {
        // Secrets are drawn at random; the same one twice means the caller draws them badly.
        return Err(Rejection::RequestConflict);
    }
    let (number, deadline) = (t.state.next_session, t.now + open.ttl);
    t.record(Change::SessionOpened(Box::new(SessionRecord {
        number,
        digest: open.digest,
        owner: open.owner,
        dialect: open.dialect,
        ttl: open.ttl,
        opened_at: t.now,
        deadline,
        ended: None,
        credential: None,
        peer: open.peer,
    })));
    Ok(SessionOpened { number, deadline })
}

pub(crate) fn keep(t: &mut Transition<'_>, keep: &KeepSession) -> Result<Timestamp, Rejection> {
    let slot = live(t, &keep.session, keep.dialect)?;
    let Session { number, ttl, ref credential, .. } = t.state.sessions[slot];
    let not_after = credential.as_ref().map_or(Timestamp::NEVER, |credential| credential.not_after);
    let deadline = (t.now + ttl).min(not_after);
    t.record(Change::SessionKept { session: number, deadline });
    Ok(deadline)
}

/// From this moment every lease of the session is over, though it may take some sweeps to write it down.
pub(crate) fn close(t: &mut Transition<'_>, close: &CloseSession) -> Result<(), Rejection> {
    let slot = live(t, &close.session, close.dialect)?;
    let session = t.state.sessions[slot].number;
    t.record(Change::SessionEnded { session, how: Ending::Released, at: t.now });
    Ok(())
}

/// The same on an operator's word: its leases count as revoked.
pub(crate) fn end(t: &mut Transition<'_>, end: &EndSession) -> Result<(), Rejection> {
    let slot = t.state.session_numbers.get(&end.number).ok_or(Rejection::NoSuchSession)?;
    if t.state.sessions[*slot].ending(t.now).is_some() {
        return Err(Rejection::NoSuchSession);
    }
    t.record(Change::SessionEnded { session: end.number, how: Ending::Revoked, at: t.now });
    Ok(())
}

/// The session with this secret, if it is not over.
pub(crate) fn live(
    t: &Transition<'_>,
    digest: &SessionDigest,
    dialect: Dialect,
) -> Result<Slot<Session>, Rejection> {
    let slot = t.state.find_session(digest).ok_or(Rejection::NoSuchSession)?;
    let session = &t.state.sessions[slot];
    let is_live = session.dialect == dialect && session.ending(t.now).is_none();
    if is_live { Ok(slot) } else { Err(Rejection::NoSuchSession) }
}
