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
        // Secrets are drawn at random. A repeated secret means that the caller's random numbers are bad.
        return Err(Rejection::RequestConflict);
    }
    let not_after = open.credential.as_ref().map_or(Timestamp::NEVER, |known| known.not_after);
    let (number, deadline) = (t.state.next_session, (t.now + open.ttl).min(not_after));
    t.record(Change::SessionOpened(Box::new(SessionRecord {
        number,
        digest: open.digest,
        owner: open.owner,
        dialect: open.dialect,
        ttl: open.ttl,
        opened_at: t.now,
        deadline,
        ended: None,
        credential: open.credential,
        peer: open.peer,
    })));
    Ok(SessionOpened { number, deadline })
}

pub(crate) fn keep(t: &mut Transition<'_>, keep: &KeepSession) -> Result<Timestamp, Rejection> {
    let slot = own(t, &keep.session, keep.dialect, keep.principal.as_deref())?;
    let Session { number, ttl, ref credential, .. } = t.state.sessions[slot];
    let not_after = credential.as_ref().map_or(Timestamp::NEVER, |credential| credential.not_after);
    let deadline = (t.now + ttl).min(not_after);
    t.record(Change::SessionKept { session: number, deadline });
    Ok(deadline)
}

/// Closes a session. From now on all of its leases count as ended, although later sweeps record that.
pub(crate) fn close(t: &mut Transition<'_>, close: &CloseSession) -> Result<(), Rejection> {
    let slot = own(t, &close.session, close.dialect, close.principal.as_deref())?;
    let session = t.state.sessions[slot].number;
    t.record(Change::SessionEnded { session, how: Ending::Released, at: t.now });
    Ok(())
}

/// Ends a session for an operator. Its leases count as revoked.
pub(crate) fn end(t: &mut Transition<'_>, end: &EndSession) -> Result<(), Rejection> {
    let slot = t.state.session_numbers.get(&end.number).ok_or(Rejection::NoSuchSession)?;
    if t.state.sessions[*slot].ending(t.now).is_some() {
        return Err(Rejection::NoSuchSession);
    }
    t.record(Change::SessionEnded { session: end.number, how: Ending::Revoked, at: t.now });
    Ok(())
}

/// Returns the session with this secret, if it has not ended.
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

/// Returns the session with this secret, if it belongs to this principal. For any other principal it does not exist, so
/// a leaked secret alone is useless.
pub(crate) fn own(
    t: &Transition<'_>,
    digest: &SessionDigest,
    dialect: Dialect,
    principal: Option<&str>,
) -> Result<Slot<Session>, Rejection> {
    let slot = live(t, digest, dialect)?;
    let owner = t.state.owner(t.state.sessions[slot].owner);
    let is_own = principal.is_none_or(|principal| *owner.principal == *principal);
    if is_own { Ok(slot) } else { Err(Rejection::NoSuchSession) }
}
