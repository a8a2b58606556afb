//! Maps the core's rows to table rows. Each column has one line in its table's list here and one where its record is
//! built. A new column also needs a line in [`ADDED_IN_LAYOUT_2`] or its successor.

use std::sync::Arc;

use leasehold_core::*;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Result, Row as SqlRow, params};

use super::cell::{Cell, Names};
use crate::tag::{operation_of, operation_tag};

/// Defines a table: its columns with their SQL and their values, and how a record is built from them.
macro_rules! table {
    (
        $table:ident of $record:ident: $type:ty {
            $first:ident: $first_type:ty, $first_sql:literal, $first_value:expr;
            $($column:ident: $column_type:ty, $sql:literal, $value:expr;)*
        } $end:literal => $made:expr
    ) => {
        mod $table {
            use super::*;

            pub(super) const CREATE: &str = concat!(
                "CREATE TABLE ", stringify!($table), " (", stringify!($first), " ", $first_sql
                $(, ", ", stringify!($column), " ", $sql)*, $end, ";"
            );
            pub(super) const SELECT: &str = concat!(
                "SELECT ", stringify!($first) $(, ", ", stringify!($column))*,
                " FROM ", stringify!($table), " "
            );
            const PUT: &str = concat!(
                "INSERT OR REPLACE INTO ", stringify!($table), " (",
                stringify!($first) $(, ", ", stringify!($column))*,
                ") VALUES (?" $(, table!(@place $column))*, ")"
            );

            pub(super) fn put(db: &Connection, $record: &$type) -> Result<()> {
                let mut statement = db.prepare_cached(PUT)?;
                let mut bind = Bind(&mut statement, 0);
                bind.next::<$first_type>(&$first_value)?;
                $(bind.next::<$column_type>(&$value)?;)*
                statement.raw_execute().map(drop)
            }

            pub(super) fn read(row: &SqlRow<'_>, names: &mut Names) -> Result<$type> {
                let mut cells = Cells(row, 0, names);
                let $first: $first_type = cells.next()?;
                $(let $column: $column_type = cells.next()?;)*
                Ok($made)
            }
        }
    };
    (@place $column:ident) => { ",?" };
}

table!(namespaces of it: (Arc<str>, Token) {
    name: Arc<str>, "TEXT PRIMARY KEY", it.0;
    floor: Token, "INTEGER NOT NULL", it.1;
} ") WITHOUT ROWID" => (name, floor));

table!(tokens of it: LockRecord {
    namespace: Arc<str>, "TEXT NOT NULL", it.lock.namespace;
    lock: Box<str>, "TEXT NOT NULL", it.lock.name;
    last_token: Token, "INTEGER NOT NULL", it.last_token;
    lapse_principal: Option<Arc<str>>, "TEXT", of_lapse(it, |lapse| lapse.owner.principal.clone());
    lapse_instance: Option<Arc<str>>, "TEXT", of_lapse(it, |lapse| lapse.owner.instance.clone());
    lapse_dialect: Option<Dialect>, "INTEGER", of_lapse(it, |lapse| lapse.dialect);
    lapse_expired_at: Option<Timestamp>, "INTEGER", of_lapse(it, |lapse| lapse.expired_at);
    lapse_grace_until: Option<Timestamp>, "INTEGER", of_lapse(it, |lapse| lapse.grace_until);
} ", PRIMARY KEY (namespace, lock)) WITHOUT ROWID" => LockRecord {
    lock: LockKey { namespace, name: lock },
    last_token,
    lapse: match (lapse_principal, lapse_instance, lapse_dialect) {
        (Some(principal), Some(instance), Some(dialect)) => Some(LapseRecord {
            owner: Owner { principal, instance },
            dialect,
            expired_at: lapse_expired_at.unwrap_or(Timestamp::NEVER),
            grace_until: lapse_grace_until.unwrap_or(Timestamp::NEVER),
        }),
        _ => None,
    },
});

table!(sessions of it: SessionRecord {
    number: SessionNumber, "INTEGER PRIMARY KEY", it.number;
    digest: SessionDigest, "BLOB NOT NULL", it.digest;
    principal: Arc<str>, "TEXT NOT NULL", it.owner.principal;
    instance: Arc<str>, "TEXT NOT NULL", it.owner.instance;
    dialect: Dialect, "INTEGER NOT NULL", it.dialect;
    ttl: Span, "INTEGER NOT NULL", it.ttl;
    opened_at: Timestamp, "INTEGER NOT NULL", it.opened_at;
    deadline: Timestamp, "INTEGER", it.deadline;
    ended: Option<Ending>, "TEXT", it.ended;
    credential: Option<Arc<str>>, "TEXT", it.credential.as_ref().map(|it| it.id.clone());
    credential_groups: Option<Vec<Arc<str>>>, "TEXT", it.credential.as_ref().map(|it| it.groups.clone());
    credential_not_after: Timestamp, "INTEGER",
        it.credential.as_ref().map_or(Timestamp::NEVER, |it| it.not_after);
    peer: Option<Peer>, "INTEGER", it.peer;
} ")" => SessionRecord {
    number,
    digest,
    owner: Owner { principal, instance },
    dialect,
    ttl,
    opened_at,
    deadline,
    ended,
    credential: credential.map(|id| {
        let groups = credential_groups.unwrap_or_default();
        Arc::new(Credential { id, groups, not_after: credential_not_after })
    }),
    peer,
});

table!(leases of it: LeaseRecord {
    number: LeaseNumber, "INTEGER PRIMARY KEY", it.number;
    namespace: Arc<str>, "TEXT NOT NULL", it.lock.namespace;
    lock: Box<str>, "TEXT NOT NULL", it.lock.name;
    principal: Arc<str>, "TEXT NOT NULL", it.owner.principal;
    instance: Arc<str>, "TEXT NOT NULL", it.owner.instance;
    phase: Phase, "TEXT NOT NULL", it.phase;
    mode: Mode, "TEXT NOT NULL", it.mode;
    token: Token, "INTEGER NOT NULL", it.token;
    version: u32, "INTEGER NOT NULL", it.version;
    dialect: Dialect, "INTEGER NOT NULL", it.dialect;
    session: Option<SessionNumber>, "INTEGER", it.session;
    tethered: bool, "INTEGER NOT NULL", it.tethered;
    keep: bool, "INTEGER NOT NULL", it.keep;
    created_at: Timestamp, "INTEGER NOT NULL", it.created_at;
    granted_at: Timestamp, "INTEGER NOT NULL", it.granted_at;
    renewed_at: Timestamp, "INTEGER NOT NULL", it.renewed_at;
    deadline: Timestamp, "INTEGER", it.deadline;
    ttl: Option<Span>, "INTEGER", it.ttl;
    grace: Span, "INTEGER NOT NULL", it.grace;
    metadata: Option<Arc<[u8]>>, "BLOB", it.metadata;
    reason: Option<Arc<str>>, "TEXT", it.reason;
    secret: Secret, "BLOB NOT NULL", it.secret;
    group_first: Option<LeaseNumber>, "INTEGER", it.group.map(|group| group.first);
    group_size: Option<u32>, "INTEGER", it.group.map(|group| group.size);
    peer: Option<Peer>, "INTEGER", it.peer;
} ")" => LeaseRecord {
    number,
    secret,
    lock: LockKey { namespace, name: lock },
    owner: Owner { principal, instance },
    session,
    dialect,
    mode,
    phase,
    tethered,
    keep,
    version,
    token,
    created_at,
    granted_at,
    renewed_at,
    deadline,
    ttl,
    grace,
    metadata,
    requests: Vec::new(),
    reason,
    group: group_first.zip(group_size).map(|(first, size)| Group { first, size }),
    peer,
});

const REQUESTS: &str = "CREATE TABLE requests (
    lease INTEGER NOT NULL, n INTEGER NOT NULL, operation INTEGER NOT NULL, id TEXT NOT NULL,
    fingerprint INTEGER NOT NULL, PRIMARY KEY (lease, n)) WITHOUT ROWID;";

/// The SQL of every table except `meta`.
pub(super) const CREATE: [&str; 5] =
    [namespaces::CREATE, tokens::CREATE, sessions::CREATE, leases::CREATE, REQUESTS];

/// The columns that layout 1 does not have.
pub(super) const ADDED_IN_LAYOUT_2: &str = "
    ALTER TABLE sessions ADD COLUMN credential TEXT;
    ALTER TABLE sessions ADD COLUMN credential_groups TEXT;
    ALTER TABLE sessions ADD COLUMN credential_not_after INTEGER;
    ALTER TABLE leases ADD COLUMN group_first INTEGER;
    ALTER TABLE leases ADD COLUMN group_size INTEGER;
    ALTER TABLE leases ADD COLUMN peer INTEGER;
    ALTER TABLE sessions ADD COLUMN peer INTEGER;";

/// Calls `each` with every row, in the order that an import requires.
pub(super) fn for_each<E: From<rusqlite::Error>>(
    db: &Connection,
    mut each: impl FnMut(Row) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let names = &mut Names::default();
    select(db, namespaces::SELECT, &mut each, |row| {
        namespaces::read(row, names).map(|(name, floor)| Row::Namespace { name, floor })
    })?;
    select(db, tokens::SELECT, &mut each, |row| tokens::read(row, names).map(Row::Lock))?;
    select(db, sessions::SELECT, &mut each, |row| sessions::read(row, names).map(Row::Session))?;
    let has_requests: bool =
        db.query_row("SELECT EXISTS (SELECT 1 FROM requests)", [], |row| row.get(0))?;
    let in_order = format!("{} ORDER BY number", leases::SELECT);
    select(db, &in_order, &mut each, |row| {
        let mut lease = leases::read(row, names)?;
        if has_requests {
            lease.requests = requests(db, lease.number)?;
        }
        Ok(Row::Lease(lease))
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
    let sql = format!("{} WHERE name = ?1", namespaces::SELECT);
    let read = |row: &SqlRow<'_>| namespaces::read(row, &mut Names::default());
    let found = db.prepare_cached(&sql)?.query_row([name], read).optional()?;
    Ok(found.map(|(name, floor)| Row::Namespace { name, floor }))
}

pub(super) fn get_token(db: &Connection, key: &LockKey) -> Result<Option<LockRecord>> {
    let sql = format!("{} WHERE namespace = ?1 AND lock = ?2", tokens::SELECT);
    let read = |row: &SqlRow<'_>| tokens::read(row, &mut Names::default());
    db.prepare_cached(&sql)?.query_row(params![key.namespace, key.name], read).optional()
}

pub(super) fn get_session(db: &Connection, number: SessionNumber) -> Result<Option<SessionRecord>> {
    let sql = format!("{} WHERE number = ?1", sessions::SELECT);
    let read = |row: &SqlRow<'_>| sessions::read(row, &mut Names::default());
    db.prepare_cached(&sql)?.query_row([number.0 as i64], read).optional()
}

pub(super) fn get_lease(db: &Connection, number: LeaseNumber) -> Result<Option<LeaseRecord>> {
    let sql = format!("{} WHERE number = ?1", leases::SELECT);
    let read = |row: &SqlRow<'_>| {
        let lease = leases::read(row, &mut Names::default())?;
        Ok(LeaseRecord { requests: requests(db, number)?, ..lease })
    };
    db.prepare_cached(&sql)?.query_row([number.0 as i64], read).optional()
}

pub(super) fn put(db: &Connection, row: &Row) -> Result<()> {
    match row {
        // The caller writes this row, because it belongs with other data.
        Row::Meta { .. } => Ok(()),
        Row::Namespace { name, floor } => namespaces::put(db, &(name.clone(), *floor)),
        Row::Lock(record) => tokens::put(db, record),
        Row::Session(record) => sessions::put(db, record),
        Row::Lease(record) => {
            leases::put(db, record)?;
            put_requests(db, record)
        }
    }
}

/// Deletes the requests of a lease before it is written again.
pub(super) fn delete_requests(db: &Connection, lease: LeaseNumber) -> Result<()> {
    db.prepare_cached("DELETE FROM requests WHERE lease = ?1")?.execute([lease.0 as i64]).map(drop)
}

pub(super) fn delete_namespace(db: &Connection, name: &str) -> Result<()> {
    db.prepare_cached("DELETE FROM namespaces WHERE name = ?1")?.execute([name]).map(drop)
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
    delete_requests(db, number)
}

pub(super) fn delete_all(db: &Connection) -> Result<()> {
    db.execute_batch(
        "DELETE FROM namespaces; DELETE FROM tokens; DELETE FROM sessions; DELETE FROM leases;
         DELETE FROM requests;",
    )
}

fn put_requests(db: &Connection, record: &LeaseRecord) -> Result<()> {
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

fn requests(db: &Connection, lease: LeaseNumber) -> Result<Vec<Request>> {
    let sql = "SELECT operation, id, fingerprint FROM requests WHERE lease = ?1 ORDER BY n";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map([lease.0 as i64], |row| {
        let operation = operation_of(row.get(0)?);
        Ok(Request {
            operation: operation.map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, 0))?,
            id: row.get(1)?,
            fingerprint: row.get::<_, i64>(2)? as u64,
        })
    })?;
    rows.collect()
}

fn of_lapse<T>(lock: &LockRecord, what: impl FnOnce(&LapseRecord) -> T) -> Option<T> {
    lock.lapse.as_ref().map(what)
}

/// Binds the parameters of a statement in order.
struct Bind<'a, 's>(&'a mut CachedStatement<'s>, usize);

impl Bind<'_, '_> {
    fn next<T: Cell>(&mut self, value: &T) -> Result<()> {
        self.1 += 1;
        self.0.raw_bind_parameter(self.1, value.write())
    }
}

/// Reads the values of a row in order.
struct Cells<'a, 'r>(&'a SqlRow<'r>, usize, &'a mut Names);

impl Cells<'_, '_> {
    fn next<T: Cell>(&mut self) -> Result<T> {
        let column = self.1;
        self.1 += 1;
        let value = self.0.get_ref(column)?;
        T::read(value, self.2).map_err(|why| {
            rusqlite::Error::FromSqlConversionFailure(column, value.data_type(), Box::new(why))
        })
    }
}
