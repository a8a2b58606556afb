//! Encodes and decodes changes. The meaning of a tag never changes, so that old journals stay readable.

use std::sync::Arc;

use leasehold_core::*;

use super::codec::{Damaged, Reader, Writer};
use super::tag::{
    ending_of, ending_tag, mode_number, mode_of, note_of, note_tag, operation_of, operation_tag,
    phase_of, phase_tag,
};

pub(super) fn write(w: &mut Writer, change: &Change) {
    match change {
        Change::LeaseAdded(record) => {
            write_peer(w, record.peer);
            write_lease_added(w, record);
        }
        Change::Granted { lease, token, at, deadline } => tagged(w, 2, |w| {
            w.number(lease.0);
            w.number(token.get());
            w.number(at.as_nanos());
            write_time(w, *deadline);
        }),
        Change::Renewed { lease, at, deadline, request } => tagged(w, 3, |w| {
            w.number(lease.0);
            w.number(at.as_nanos());
            write_time(w, *deadline);
            w.option(request.as_ref(), write_request);
        }),
        Change::Amended { lease, ttl } => tagged(w, 4, |w| {
            w.number(lease.0);
            w.option(*ttl, |w, ttl| w.number(ttl.as_nanos()));
        }),
        Change::Parked { lease, deadline } => tagged(w, 5, |w| {
            w.number(lease.0);
            write_time(w, *deadline);
        }),
        Change::Attached { lease, deadline } => tagged(w, 6, |w| {
            w.number(lease.0);
            write_time(w, *deadline);
        }),
        Change::Ended { lease, how, at, kept, request, reason } => tagged(w, 7, |w| {
            w.number(lease.0);
            w.byte(ending_tag(*how));
            w.number(at.as_nanos());
            w.flag(*kept);
            w.option(request.as_ref(), write_request);
            w.option(reason.as_deref(), Writer::text);
        }),
        Change::RequestForgotten { lease, operation, id } => tagged(w, 8, |w| {
            w.number(lease.0);
            w.byte(operation_tag(*operation));
            w.text(id);
        }),
        Change::LeaseForgotten { lease } => tagged(w, 9, |w| w.number(lease.0)),
        Change::GraceForgone { lock } => tagged(w, 10, |w| write_key(w, lock)),
        Change::LockForgotten { lock } => tagged(w, 11, |w| write_key(w, lock)),
        Change::SessionOpened(record) => {
            write_peer(w, record.peer);
            write_session_opened(w, record);
        }
        Change::SessionKept { session, deadline } => tagged(w, 13, |w| {
            w.number(session.0);
            write_time(w, *deadline);
        }),
        Change::SessionEnded { session, how, at } => tagged(w, 14, |w| {
            w.number(session.0);
            w.byte(ending_tag(*how));
            w.number(at.as_nanos());
        }),
        Change::SessionForgotten { session } => tagged(w, 15, |w| w.number(session.0)),
        Change::Restored { raise } => tagged(w, 16, |w| w.number(*raise)),
        Change::NamespaceForgotten { namespace } => tagged(w, 19, |w| w.text(namespace)),
        Change::Asked { asker, n_changes } => tagged(w, 20, |w| write_asked(w, asker, *n_changes)),
        Change::Maintenance { on } => tagged(w, 21, |w| w.flag(*on)),
        Change::Noted { lease, what, at, reason } => {
            w.byte(22);
            write_noted(w, *lease, *what, *at, reason.as_deref());
        }
    }
}

pub(super) fn read(r: &mut Reader<'_>) -> Result<Change, Damaged> {
    Ok(match r.byte()? {
        1 => Change::LeaseAdded(Box::new(read_lease(r)?)),
        2 => Change::Granted {
            lease: LeaseNumber(r.number()?),
            token: read_token(r)?,
            at: Timestamp::from_nanos(r.number()?),
            deadline: read_time(r)?,
        },
        3 => Change::Renewed {
            lease: LeaseNumber(r.number()?),
            at: Timestamp::from_nanos(r.number()?),
            deadline: read_time(r)?,
            request: r.option(read_request)?,
        },
        4 => Change::Amended { lease: LeaseNumber(r.number()?), ttl: r.option(read_span)? },
        5 => Change::Parked { lease: LeaseNumber(r.number()?), deadline: read_time(r)? },
        6 => Change::Attached { lease: LeaseNumber(r.number()?), deadline: read_time(r)? },
        7 => Change::Ended {
            lease: LeaseNumber(r.number()?),
            how: ending_of(r.byte()?)?,
            at: Timestamp::from_nanos(r.number()?),
            kept: r.flag()?,
            request: r.option(read_request)?,
            reason: r.option(Reader::shared)?,
        },
        8 => Change::RequestForgotten {
            lease: LeaseNumber(r.number()?),
            operation: read_operation(r)?,
            id: r.text()?.into(),
        },
        9 => Change::LeaseForgotten { lease: LeaseNumber(r.number()?) },
        10 => Change::GraceForgone { lock: read_key(r)? },
        11 => Change::LockForgotten { lock: read_key(r)? },
        12 => Change::SessionOpened(Box::new(read_session(r)?)),
        13 => Change::SessionKept { session: SessionNumber(r.number()?), deadline: read_time(r)? },
        14 => Change::SessionEnded {
            session: SessionNumber(r.number()?),
            how: ending_of(r.byte()?)?,
            at: Timestamp::from_nanos(r.number()?),
        },
        15 => Change::SessionForgotten { session: SessionNumber(r.number()?) },
        16 => Change::Restored { raise: r.number()? },
        17 => {
            let group = Some(Group { first: LeaseNumber(r.number()?), size: r.small()? });
            Change::LeaseAdded(Box::new(LeaseRecord { group, ..read_lease(r)? }))
        }
        18 => {
            let credential = Some(Arc::new(read_credential(r)?));
            Change::SessionOpened(Box::new(SessionRecord { credential, ..read_session(r)? }))
        }
        19 => Change::NamespaceForgotten { namespace: r.shared()? },
        20 => {
            let (principal, credential) = (r.shared()?, r.shared()?);
            let (rule, peer) = (r.shared()?, r.shared()?);
            let asker = Arc::new(Asker { principal, credential, rule, peer, call: None });
            Change::Asked { asker, n_changes: r.small()? }
        }
        21 => Change::Maintenance { on: r.flag()? },
        22 => Change::Noted {
            lease: LeaseNumber(r.number()?),
            what: note_of(r.byte()?)?,
            at: Timestamp::from_nanos(r.number()?),
            reason: r.option(Reader::shared)?,
        },
        23 => read_of_peer(r)?,
        _ => return Err(Damaged("it contains a change of an unknown kind")),
    })
}

/// Encodes a row of the state. Each kind of row has its own tag.
pub(super) fn write_row(w: &mut Writer, row: &Row) {
    match row {
        Row::Meta { .. } => w.byte(0),
        Row::Namespace { name, floor } => tagged(w, 1, |w| {
            w.text(name);
            w.number(floor.get());
        }),
        Row::Lock(record) => tagged(w, 2, |w| {
            write_key(w, &record.lock);
            w.number(record.last_token.get());
            w.option(record.lapse.as_ref(), |w, lapse| {
                write_owner(w, &lapse.owner);
                w.byte(lapse.dialect.0);
                write_time(w, lapse.expired_at);
                write_time(w, lapse.grace_until);
            });
        }),
        Row::Session(record) => tagged(w, 3, |w| {
            write_peer(w, record.peer);
            write_session_opened(w, record);
        }),
        Row::Lease(record) => tagged(w, 4, |w| {
            write_peer(w, record.peer);
            write_lease_added(w, record);
        }),
    }
}

/// Returns an upper bound of the encoded size of a change, without encoding it.
pub fn bytes_at_most(change: &Change) -> usize {
    /// The maximum size of everything but the texts: all numbers, tags and secrets of a change.
    const REST: usize = 192;
    let request = |request: &Request| request.id.len() + 24;
    let texts = match change {
        Change::LeaseAdded(lease) => {
            lease.lock.namespace.len()
                + lease.lock.name.len()
                + lease.owner.principal.len()
                + lease.owner.instance.len()
                + lease.metadata.as_ref().map_or(0, |metadata| metadata.len())
                + lease.requests.iter().map(request).sum::<usize>()
                + lease.reason.as_ref().map_or(0, |reason| reason.len())
        }
        Change::Ended { request: asked, reason, .. } => {
            asked.as_ref().map_or(0, request) + reason.as_ref().map_or(0, |reason| reason.len())
        }
        Change::Renewed { request: asked, .. } => asked.as_ref().map_or(0, request),
        Change::RequestForgotten { id, .. } => id.len(),
        Change::GraceForgone { lock } | Change::LockForgotten { lock } => {
            lock.namespace.len() + lock.name.len()
        }
        Change::SessionOpened(session) => {
            let credential = session.credential.as_ref().map_or(0, |credential| {
                let groups = credential.groups.iter().map(|group| group.len() + 10);
                credential.id.len() + groups.sum::<usize>()
            });
            session.owner.principal.len() + session.owner.instance.len() + credential
        }
        Change::NamespaceForgotten { namespace } => namespace.len(),
        Change::Noted { reason, .. } => reason.as_ref().map_or(0, |reason| reason.len()),
        Change::Asked { asker, .. } => {
            let Asker { principal, credential, rule, peer, .. } = &**asker;
            principal.len() + credential.len() + rule.len() + peer.len()
        }
        _ => 0,
    };
    texts + REST
}

fn tagged(w: &mut Writer, tag: u8, rest: impl FnOnce(&mut Writer)) {
    w.byte(tag);
    rest(w);
}

/// Writes the peer of an unauthenticated owner, which precedes the record of its lease or session.
fn write_peer(w: &mut Writer, peer: Option<Peer>) {
    if let Some(Peer(peer)) = peer {
        tagged(w, 23, |w| w.number(peer));
    }
}

fn read_of_peer(r: &mut Reader<'_>) -> Result<Change, Damaged> {
    const MISPLACED: Damaged = Damaged("it has an unexpected peer");
    let peer = Some(Peer(r.number()?));
    if r.0.first() == Some(&23) {
        return Err(MISPLACED);
    }
    match read(r)? {
        Change::LeaseAdded(record) => {
            Ok(Change::LeaseAdded(Box::new(LeaseRecord { peer, ..*record })))
        }
        Change::SessionOpened(record) => {
            Ok(Change::SessionOpened(Box::new(SessionRecord { peer, ..*record })))
        }
        _ => Err(MISPLACED),
    }
}

fn write_asked(w: &mut Writer, asker: &Asker, n_changes: u32) {
    let Asker { principal, credential, rule, peer, .. } = asker;
    [principal, credential, rule, peer].into_iter().for_each(|text| w.text(text));
    w.number(n_changes.into());
}

fn write_noted(
    w: &mut Writer,
    lease: LeaseNumber,
    what: Note,
    at: Timestamp,
    reason: Option<&str>,
) {
    w.number(lease.0);
    w.byte(note_tag(what));
    w.number(at.as_nanos());
    w.option(reason, Writer::text);
}

/// Uses tag 17 only for a lease in a group, because most leases are not in one.
fn write_lease_added(w: &mut Writer, lease: &LeaseRecord) {
    match lease.group {
        None => w.byte(1),
        Some(Group { first, size }) => tagged(w, 17, |w| {
            w.number(first.0);
            w.number(size.into());
        }),
    }
    write_lease(w, lease);
}

fn write_session_opened(w: &mut Writer, session: &SessionRecord) {
    match session.credential.as_deref() {
        None => w.byte(12),
        Some(Credential { id, groups, not_after }) => tagged(w, 18, |w| {
            w.text(id);
            w.number(groups.len() as u64);
            groups.iter().for_each(|group| w.text(group));
            write_time(w, *not_after);
        }),
    }
    write_session(w, session);
}

fn read_credential(r: &mut Reader<'_>) -> Result<Credential, Damaged> {
    let id = r.shared()?;
    let groups = (0..r.number()?).map(|_| r.shared()).collect::<Result<_, _>>()?;
    Ok(Credential { id, groups, not_after: read_time(r)? })
}

fn write_lease(w: &mut Writer, lease: &LeaseRecord) {
    w.number(lease.number.0);
    w.fixed(&lease.secret.0);
    write_key(w, &lease.lock);
    write_owner(w, &lease.owner);
    w.option(lease.session, |w, session| w.number(session.0));
    w.byte(lease.dialect.0);
    w.number(mode_number(lease.mode));
    w.byte(phase_tag(lease.phase));
    w.flag(lease.tethered);
    w.flag(lease.keep);
    w.number(lease.version.into());
    w.number(lease.token.get());
    w.number(lease.created_at.as_nanos());
    // Both times usually equal the creation time. They are earlier only in a damaged row; the wrapping
    // subtraction makes sure that the damage stays visible.
    let since_created = |at: Timestamp| at.as_nanos().wrapping_sub(lease.created_at.as_nanos());
    [lease.granted_at, lease.renewed_at].iter().for_each(|at| w.number(since_created(*at)));
    write_time(w, lease.deadline);
    w.option(lease.ttl, |w, ttl| w.number(ttl.as_nanos()));
    w.number(lease.grace.as_nanos());
    w.option(lease.metadata.as_deref(), Writer::bytes);
    w.number(lease.requests.len() as u64);
    lease.requests.iter().for_each(|request| write_request(w, request));
    w.option(lease.reason.as_deref(), Writer::text);
}

fn read_lease(r: &mut Reader<'_>) -> Result<LeaseRecord, Damaged> {
    let number = LeaseNumber(r.number()?);
    let secret = Secret(r.fixed()?);
    let lock = read_key(r)?;
    let owner = read_owner(r)?;
    let session = r.option(|r| r.number().map(SessionNumber))?;
    let dialect = Dialect(r.byte()?);
    let mode = mode_of(r.number()?)?;
    let phase = phase_of(r.byte()?)?;
    let (tethered, keep, version) = (r.flag()?, r.flag()?, r.small()?);
    let token = read_token(r)?;
    let created_at = Timestamp::from_nanos(r.number()?);
    Ok(LeaseRecord {
        number,
        secret,
        lock,
        owner,
        session,
        dialect,
        mode,
        phase,
        tethered,
        keep,
        version,
        token,
        created_at,
        granted_at: created_at + read_span(r)?,
        renewed_at: created_at + read_span(r)?,
        deadline: read_time(r)?,
        ttl: r.option(read_span)?,
        grace: read_span(r)?,
        metadata: r.option(|r| r.bytes().map(Into::into))?,
        requests: (0..r.number()?).map(|_| read_request(r)).collect::<Result<_, _>>()?,
        reason: r.option(Reader::shared)?,
        group: None,
        peer: None,
    })
}

fn write_session(w: &mut Writer, session: &SessionRecord) {
    w.number(session.number.0);
    w.fixed(&session.digest.0);
    write_owner(w, &session.owner);
    w.byte(session.dialect.0);
    w.number(session.ttl.as_nanos());
    w.number(session.opened_at.as_nanos());
    write_time(w, session.deadline);
    w.option(session.ended, |w, how| w.byte(ending_tag(how)));
}

fn read_session(r: &mut Reader<'_>) -> Result<SessionRecord, Damaged> {
    Ok(SessionRecord {
        number: SessionNumber(r.number()?),
        digest: SessionDigest(r.fixed()?),
        owner: read_owner(r)?,
        dialect: Dialect(r.byte()?),
        ttl: read_span(r)?,
        opened_at: Timestamp::from_nanos(r.number()?),
        deadline: read_time(r)?,
        ended: r.option(|r| ending_of(r.byte()?))?,
        credential: None,
        peer: None,
    })
}

fn write_request(w: &mut Writer, request: &Request) {
    w.byte(operation_tag(request.operation));
    w.text(&request.id);
    w.fixed(&request.fingerprint.to_le_bytes());
}

fn read_request(r: &mut Reader<'_>) -> Result<Request, Damaged> {
    Ok(Request {
        operation: read_operation(r)?,
        id: r.text()?.into(),
        fingerprint: u64::from_le_bytes(r.fixed()?),
    })
}

fn write_key(w: &mut Writer, key: &LockKey) {
    w.text(&key.namespace);
    w.text(&key.name);
}

pub(super) fn read_key(r: &mut Reader<'_>) -> Result<LockKey, Damaged> {
    Ok(LockKey { namespace: r.shared()?, name: r.text()?.into() })
}

fn write_owner(w: &mut Writer, owner: &Owner) {
    w.text(&owner.principal);
    w.text(&owner.instance);
}

pub(super) fn read_owner(r: &mut Reader<'_>) -> Result<Owner, Damaged> {
    Ok(Owner { principal: r.shared()?, instance: r.shared()? })
}

/// Encodes "never" as one byte, because it is common and would otherwise take ten.
fn write_time(w: &mut Writer, at: Timestamp) {
    w.option(at.finite(), |w, at| w.number(at.as_nanos()));
}

pub(super) fn read_time(r: &mut Reader<'_>) -> Result<Timestamp, Damaged> {
    let at = r.option(|r| r.number().map(Timestamp::from_nanos))?;
    Ok(at.unwrap_or(Timestamp::NEVER))
}

fn read_span(r: &mut Reader<'_>) -> Result<Span, Damaged> {
    r.number().map(Span::from_nanos)
}

pub(super) fn read_token(r: &mut Reader<'_>) -> Result<Token, Damaged> {
    Token::new(r.number()?).ok_or(Damaged("a token is too large"))
}

fn read_operation(r: &mut Reader<'_>) -> Result<Operation, Damaged> {
    operation_of(r.byte()?)
}
