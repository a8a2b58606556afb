//! The core's rows as rows of tables.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_core::*;
use rusqlite::{Connection, OptionalExtension, Result, Row as SqlRow, params};

use crate::store::change::{mode_number, mode_of, operation_of, operation_tag};

const LEASE: &str = "number, namespace, lock, principal, instance, phase, mode, token, version, dialect,
    session, tethered, keep, created_at, granted_at, renewed_at, deadline, ttl, grace, metadata, reason,
    secret";
const SESSION: &str =
    "number, digest, principal, instance, dialect, ttl, opened_at, deadline, ended";
const TOKEN: &str = "namespace, lock, last_token, lapse_principal, lapse_instance, lapse_dialect,
    lapse_expired_at, lapse_grace_until";

/// Texts that are in many rows, kept once while rows are read.
#[derive(Default)]
pub(super) struct Names(HashMap<Box<str>, Arc<str>>);

impl Names {
    fn get(&mut self, text: &str) -> Arc<str> {
        /// Names that are all different would only make this large.
        const N_MAX: usize = 10_000;
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let name: Arc<str> = text.into();
        if self.0.len() < N_MAX {
            self.0.insert(text.into(), name.clone());
        }
        name
    }
}

/// Calls `each` with every row, in the order an import wants.
pub(super) fn for_each<E: From<rusqlite::Error>>(
    db: &Connection,
    mut each: impl FnMut(Row) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let names = &mut Names::default();
    let namespaces = "SELECT name, floor FROM namespaces";
    select(db, namespaces, &mut each, |row| namespace(row, names))?;
    let tokens = format!("SELECT {TOKEN} FROM tokens");
    select(db, &tokens, &mut each, |row| token(row, names).map(Row::Lock))?;
    let sessions = format!("SELECT {SESSION} FROM sessions");
    select(db, &sessions, &mut each, |row| session(row, names).map(Row::Session))?;
    let has_requests: bool =
        db.query_row("SELECT EXISTS (SELECT 1 FROM requests)", [], |row| row.get(0))?;
    let leases = format!("SELECT {LEASE} FROM leases ORDER BY number");
    select(db, &leases, &mut each, |row| {
        let requests = if has_requests { requests(db, row.get(0)?)? } else { Vec::new() };
        lease(row, names, requests).map(Row::Lease)
    })
}

fn select<E: From<rusqlite::Error>>(
    db: &Connection,
    sql: &str,
    each: &mut impl FnMut(Row) -> std::result::Result<(), E>,
    mut read: impl FnMut(&SqlRow<'_>) -> Result<Row>,
) -> std::result::Result<(), E> {
    let mut statement = db.prepare(sql)?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        each(read(row)?)?;
    }
    Ok(())
}

pub(super) fn get_namespace(db: &Connection, name: &str) -> Result<Option<Row>> {
    let sql = "SELECT name, floor FROM namespaces WHERE name = ?1";
    db.prepare_cached(sql)?
        .query_row([name], |row| namespace(row, &mut Names::default()))
        .optional()
}

pub(super) fn get_token(db: &Connection, key: &LockKey) -> Result<Option<LockRecord>> {
    let sql = format!("SELECT {TOKEN} FROM tokens WHERE namespace = ?1 AND lock = ?2");
    let read = |row: &SqlRow<'_>| token(row, &mut Names::default());
    db.prepare_cached(&sql)?.query_row(params![key.namespace, key.name], read).optional()
}

pub(super) fn get_session(db: &Connection, number: SessionNumber) -> Result<Option<SessionRecord>> {
    let sql = format!("SELECT {SESSION} FROM sessions WHERE number = ?1");
    let read = |row: &SqlRow<'_>| session(row, &mut Names::default());
    db.prepare_cached(&sql)?.query_row([number.0 as i64], read).optional()
}

pub(super) fn get_lease(db: &Connection, number: LeaseNumber) -> Result<Option<LeaseRecord>> {
    let sql = format!("SELECT {LEASE} FROM leases WHERE number = ?1");
    let read = |row: &SqlRow<'_>| lease(row, &mut Names::default(), requests(db, number.0 as i64)?);
    db.prepare_cached(&sql)?.query_row([number.0 as i64], read).optional()
}

pub(super) fn put(db: &Connection, row: &Row) -> Result<()> {
    match row {
        // Written by whoever knows what else belongs to it.
        Row::Meta { .. } => Ok(()),
        Row::Namespace { name, floor } => {
            let sql = "INSERT OR REPLACE INTO namespaces (name, floor) VALUES (?1, ?2)";
            db.prepare_cached(sql)?.execute(params![name, floor.get() as i64]).map(drop)
        }
        Row::Lock(record) => put_token(db, record),
        Row::Session(record) => put_session(db, record),
        Row::Lease(record) => put_lease(db, record),
    }
}

pub(super) fn delete_token(db: &Connection, key: &LockKey) -> Result<()> {
    let sql = "DELETE FROM tokens WHERE namespace = ?1 AND lock = ?2";
    db.prepare_cached(sql)?.execute(params![key.namespace, key.name]).map(drop)
}

pub(super) fn delete_session(db: &Connection, number: SessionNumber) -> Result<()> {
    let sql = "DELETE FROM sessions WHERE number = ?1";
    db.prepare_cached(sql)?.execute([number.0 as i64]).map(drop)
}

pub(super) fn delete_lease(db: &Connection, number: LeaseNumber) -> Result<()> {
    db.prepare_cached("DELETE FROM leases WHERE number = ?1")?.execute([number.0 as i64])?;
    db.prepare_cached("DELETE FROM requests WHERE lease = ?1")?.execute([number.0 as i64]).map(drop)
}

pub(super) fn delete_all(db: &Connection) -> Result<()> {
    db.execute_batch(
        "DELETE FROM namespaces; DELETE FROM tokens; DELETE FROM sessions; DELETE FROM leases;
         DELETE FROM requests;",
    )
}

fn put_token(db: &Connection, record: &LockRecord) -> Result<()> {
    let sql = format!("INSERT OR REPLACE INTO tokens ({TOKEN}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8)");
    let lapse = record.lapse.as_ref();
    db.prepare_cached(&sql)?
        .execute(params![
            record.lock.namespace,
            record.lock.name,
            record.last_token.get() as i64,
            lapse.map(|lapse| &lapse.owner.principal),
            lapse.map(|lapse| &lapse.owner.instance),
            lapse.map(|lapse| lapse.dialect.0),
            lapse.map(|lapse| time_to_sql(lapse.expired_at)),
            lapse.map(|lapse| time_to_sql(lapse.grace_until)),
        ])
        .map(drop)
}

fn put_session(db: &Connection, record: &SessionRecord) -> Result<()> {
    let sql =
        format!("INSERT OR REPLACE INTO sessions ({SESSION}) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)");
    db.prepare_cached(&sql)?
        .execute(params![
            record.number.0 as i64,
            record.digest.0,
            record.owner.principal,
            record.owner.instance,
            record.dialect.0,
            record.ttl.as_nanos() as i64,
            time_to_sql(record.opened_at),
            time_to_sql(record.deadline),
            record.ended.map(|how| phase_text(Phase::Ended(how))),
        ])
        .map(drop)
}

fn put_lease(db: &Connection, record: &LeaseRecord) -> Result<()> {
    let sql = format!(
        "INSERT OR REPLACE INTO leases ({LEASE}) VALUES
         (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22)"
    );
    db.prepare_cached(&sql)?.execute(params![
        record.number.0 as i64,
        record.lock.namespace,
        record.lock.name,
        record.owner.principal,
        record.owner.instance,
        phase_text(record.phase),
        mode_text(record.mode),
        record.token.get() as i64,
        record.version,
        record.dialect.0,
        record.session.map(|session| session.0 as i64),
        record.tethered,
        record.keep,
        time_to_sql(record.created_at),
        time_to_sql(record.granted_at),
        time_to_sql(record.renewed_at),
        time_to_sql(record.deadline),
        record.ttl.map(|ttl| ttl.as_nanos() as i64),
        record.grace.as_nanos() as i64,
        record.metadata.as_deref(),
        record.reason.as_deref(),
        record.secret.0,
    ])?;
    let sql = "DELETE FROM requests WHERE lease = ?1";
    db.prepare_cached(sql)?.execute([record.number.0 as i64])?;
    for (n, request) in record.requests.iter().enumerate() {
        let sql =
            "INSERT INTO requests (lease, n, operation, id, fingerprint) VALUES (?1,?2,?3,?4,?5)";
        db.prepare_cached(sql)?.execute(params![
            record.number.0 as i64,
            n as i64,
            operation_tag(request.operation),
            request.id,
            request.fingerprint as i64,
        ])?;
    }
    Ok(())
}

fn namespace(row: &SqlRow<'_>, names: &mut Names) -> Result<Row> {
    Ok(Row::Namespace { name: name(row, 0, names)?, floor: token_at(row, 1)? })
}

fn token(row: &SqlRow<'_>, names: &mut Names) -> Result<LockRecord> {
    let lapse = match row.get::<_, Option<i64>>(6)? {
        None => None,
        Some(_) => Some(LapseRecord {
            owner: Owner { principal: name(row, 3, names)?, instance: name(row, 4, names)? },
            dialect: Dialect(row.get(5)?),
            expired_at: time(row, 6)?,
            grace_until: time(row, 7)?,
        }),
    };
    let lock = LockKey { namespace: name(row, 0, names)?, name: text(row, 1)?.into() };
    Ok(LockRecord { lock, last_token: token_at(row, 2)?, lapse })
}

fn session(row: &SqlRow<'_>, names: &mut Names) -> Result<SessionRecord> {
    let ended = row.get_ref(8)?.as_str_or_null()?;
    let ended = match ended.map(phase_of_text) {
        None => None,
        Some(Some(Phase::Ended(how))) => Some(how),
        Some(_) => return Err(damaged(8, "a session's end is not known")),
    };
    Ok(SessionRecord {
        number: SessionNumber(row.get::<_, i64>(0)? as u64),
        digest: SessionDigest(row.get(1)?),
        owner: Owner { principal: name(row, 2, names)?, instance: name(row, 3, names)? },
        dialect: Dialect(row.get(4)?),
        ttl: Span::from_nanos(row.get::<_, i64>(5)? as u64),
        opened_at: time(row, 6)?,
        deadline: time(row, 7)?,
        ended,
    })
}

fn lease(row: &SqlRow<'_>, names: &mut Names, requests: Vec<Request>) -> Result<LeaseRecord> {
    let phase = phase_of_text(text(row, 5)?).ok_or(damaged(5, "a phase is not known"))?;
    let mode = mode_of_text(text(row, 6)?).ok_or(damaged(6, "a mode is not known"))?;
    let metadata = row.get_ref(19)?.as_blob_or_null()?;
    let reason = row.get_ref(20)?.as_str_or_null()?;
    Ok(LeaseRecord {
        number: LeaseNumber(row.get::<_, i64>(0)? as u64),
        lock: LockKey { namespace: name(row, 1, names)?, name: text(row, 2)?.into() },
        owner: Owner { principal: name(row, 3, names)?, instance: name(row, 4, names)? },
        phase,
        mode,
        token: token_at(row, 7)?,
        version: row.get(8)?,
        dialect: Dialect(row.get(9)?),
        session: row.get::<_, Option<i64>>(10)?.map(|number| SessionNumber(number as u64)),
        tethered: row.get(11)?,
        keep: row.get(12)?,
        created_at: time(row, 13)?,
        granted_at: time(row, 14)?,
        renewed_at: time(row, 15)?,
        deadline: time(row, 16)?,
        ttl: row.get::<_, Option<i64>>(17)?.map(|ttl| Span::from_nanos(ttl as u64)),
        grace: Span::from_nanos(row.get::<_, i64>(18)? as u64),
        group: None,
        metadata: metadata.map(Into::into),
        requests,
        reason: reason.map(Into::into),
        secret: Secret(row.get(21)?),
    })
}

fn requests(db: &Connection, lease: i64) -> Result<Vec<Request>> {
    let sql = "SELECT operation, id, fingerprint FROM requests WHERE lease = ?1 ORDER BY n";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([lease], |row| {
        Ok(Request {
            operation: operation_of(row.get(0)?).map_err(|e| damaged(0, e.0))?,
            id: text(row, 1)?.into(),
            fingerprint: row.get::<_, i64>(2)? as u64,
        })
    })?;
    rows.collect()
}

fn text<'r>(row: &'r SqlRow<'_>, column: usize) -> Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn name(row: &SqlRow<'_>, column: usize, names: &mut Names) -> Result<Arc<str>> {
    text(row, column).map(|text| names.get(text))
}

fn token_at(row: &SqlRow<'_>, column: usize) -> Result<Token> {
    let value = row.get::<_, i64>(column)? as u64;
    Token::new(value).ok_or(damaged(column, "a token is too large"))
}

/// Never is `NULL`.
fn time(row: &SqlRow<'_>, column: usize) -> Result<Timestamp> {
    let nanos: Option<i64> = row.get(column)?;
    Ok(nanos.map_or(Timestamp::NEVER, |nanos| Timestamp::from_nanos(nanos as u64)))
}

fn time_to_sql(at: Timestamp) -> Option<i64> {
    at.finite().map(|at| at.as_nanos() as i64)
}

fn mode_text(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "exclusive".into(),
        Mode::Shared => "shared".into(),
        Mode::Counted(_) => (mode_number(mode) - 2).to_string(),
    }
}

fn mode_of_text(text: &str) -> Option<Mode> {
    match text {
        "exclusive" => Some(Mode::Exclusive),
        "shared" => Some(Mode::Shared),
        count => count.parse::<u32>().ok().and_then(|n| mode_of(2 + u64::from(n)).ok()),
    }
}

const PHASES: [(Phase, &str); 6] = [
    (Phase::Waiting, "waiting"),
    (Phase::Parked, "parked"),
    (Phase::Active, "active"),
    (Phase::Ended(Ending::Released), "released"),
    (Phase::Ended(Ending::Expired), "expired"),
    (Phase::Ended(Ending::Revoked), "revoked"),
];

fn phase_text(phase: Phase) -> &'static str {
    PHASES.iter().find(|(known, _)| *known == phase).map_or("", |(_, text)| text)
}

fn phase_of_text(text: &str) -> Option<Phase> {
    PHASES.iter().find(|(_, known)| *known == text).map(|(phase, _)| *phase)
}

fn damaged(column: usize, why: &'static str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Null, why.into())
}
