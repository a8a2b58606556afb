//! The two files, their tables and their layout versions.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, ToSql, params};

use super::digest::Digest;
use super::{journal_path, refused, rows, tables_path, trouble, trouble_in};
use crate::{Error, Hash};

/// Identifies the files as ours: "LEAS".
const APPLICATION_ID: i64 = 0x4C45_4153;
/// The newest layout. Files with an older layout are migrated, and files with a newer one are rejected.
const SCHEMA_VERSION: i64 = 2;
/// A version higher than ours by more than this is reported as damage, not as a newer layout.
const NEWER_MAX: i64 = 3;

/// One of the two files.
#[derive(Clone, Copy)]
pub(super) enum Database {
    Journal,
    Tables,
}

impl Database {
    fn create(self) -> String {
        match self {
            Self::Journal => [META, JOURNAL].concat(),
            Self::Tables => [&[META][..], &rows::CREATE].concat().concat(),
        }
    }

    /// Returns the migration steps. The step from layout n to n + 1 is at index n - 1.
    fn steps(self) -> [Step; SCHEMA_VERSION as usize - 1] {
        match self {
            Self::Journal => [|_| Ok(())],
            Self::Tables => [tables_to_layout_2],
        }
    }
}

/// Migrates a file from one layout to the next.
type Step = fn(&Connection) -> rusqlite::Result<()>;

const JOURNAL: &str = "CREATE TABLE journal (seq INTEGER PRIMARY KEY, record BLOB NOT NULL);";
/// The key of the hash of everything else in `meta`.
const SEAL: &str = "seal";

const META: &str = "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;";

/// Fills two empty files with an empty store.
pub(super) fn create(id: [u8; 16], journal: &Path, tables: &Path) -> Result<(), Error> {
    let id = format!("{:032x}", u128::from_be_bytes(id));
    let generation = u64::from_le_bytes(leasehold_base::random::bytes()) >> 11;
    fill(journal, Database::Journal, |db| set(db, "store_id", &id))?;
    fill(tables, Database::Tables, |db| {
        Digest::default().put(db)?;
        put(db, "folded_through", 0)?;
        put(db, "generation", generation as i64)?;
        set(db, "store_id", &id)
    })
}

fn fill(
    path: &Path,
    database: Database,
    meta: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> Result<(), Error> {
    let why = |error| trouble(path, error);
    let mut db = unsynced(path)?;
    db.pragma_update(None, "page_size", 4096).map_err(why)?;
    let tx = db.transaction().map_err(why)?;
    let script = format!(
        "{} PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA_VERSION};",
        database.create()
    );
    tx.execute_batch(&script).and_then(|()| meta(&tx)).map_err(why)?;
    tx.commit().map_err(why)
}

/// Opens a file of an unfinished store. It is synced only on completion, because it is worthless before that.
pub(super) fn unsynced(path: &Path) -> Result<Connection, Error> {
    let why = |error| trouble(path, error);
    let db = Connection::open(path).map_err(why)?;
    db.pragma_update(None, "journal_mode", "MEMORY").map_err(why)?;
    db.pragma_update(None, "synchronous", "OFF").map_err(why)?;
    Ok(db)
}

/// Opens `journal.db`.
pub(super) fn open_journal(data: &Path) -> Result<Connection, Error> {
    let path = journal_path(data);
    let why = |error| trouble(&path, error);
    let journal = open(&path, Database::Journal)?;
    journal.pragma_update(None, "wal_autocheckpoint", 1000).map_err(why)?;
    // A busy database is reported immediately, so that other requests do not wait as well.
    journal.busy_timeout(std::time::Duration::ZERO).map_err(why)?;
    Ok(journal)
}

/// Opens `tables.db`, which must belong to this journal.
pub(super) fn open_tables(data: &Path, journal: &Connection) -> Result<Connection, Error> {
    let path = tables_path(data);
    let tables = open(&path, Database::Tables)?;
    check_same(&path, journal, &tables)?;
    Ok(tables)
}

/// Fails if two files belong to different stores.
pub(super) fn check_same(
    path: &Path,
    journal: &Connection,
    tables: &Connection,
) -> Result<(), Error> {
    // Reads the journal first: if it is damaged, it cannot tell whether the tables belong to it.
    let ours = store_id(&path.with_file_name(super::JOURNAL), journal)?;
    if ours == store_id(path, tables)? {
        return Ok(());
    }
    Err(refused(format!("{} belongs to another store", path.display())))
}

fn store_id(path: &Path, db: &Connection) -> Result<String, Error> {
    let lost = || refused(format!("{} is damaged: its store id is missing", path.display()));
    get::<String>(db, "store_id")?.ok_or_else(lost)
}

fn open(path: &Path, database: Database) -> Result<Connection, Error> {
    let why = |error| trouble(path, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(why)?;
    // The remains of a crash are applied later, once they are known to be intact.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(why)?;
    db.busy_timeout(std::time::Duration::from_secs(5)).map_err(why)?;
    bring_forward(path, &db, database)?;
    db.pragma_update(None, "journal_mode", "WAL").map_err(why)?;
    db.pragma_update(None, "synchronous", "FULL").map_err(why)?;
    Ok(db)
}

/// Returns whether one of our files has the newest layout.
pub(super) fn is_current(path: &Path, db: &Connection) -> Result<bool, Error> {
    Ok(check_version(path, db)? == SCHEMA_VERSION)
}

/// Returns the layout of one of our files.
fn check_version(path: &Path, db: &Connection) -> Result<i64, Error> {
    let why = |error| trouble(path, error);
    let pragma = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if pragma("application_id").map_err(why)? != APPLICATION_ID {
        return Err(refused(format!("{} is not a Leasehold file", path.display())));
    }
    let version = pragma("user_version").map_err(why)?;
    if version < 1 {
        return Err(refused(format!("{} has no layout", path.display())));
    }
    if version > SCHEMA_VERSION + NEWER_MAX {
        return Err(refused(format!("{} is damaged: unknown layout {version}", path.display())));
    }
    if version > SCHEMA_VERSION {
        return Err(refused(format!(
            "{} has layout {version}, but this program supports only {SCHEMA_VERSION}; use a newer version of \
             Leasehold",
            path.display()
        )));
    }
    Ok(version)
}

/// Migrates an older layout step by step, each step in one transaction.
pub(super) fn bring_forward(path: &Path, db: &Connection, database: Database) -> Result<(), Error> {
    let from = check_version(path, db)?;
    let take = |n: usize, step: Step| {
        let tx = db.unchecked_transaction()?;
        step(&tx)?;
        tx.pragma_update(None, "user_version", n as i64 + 2)?;
        seal(&tx)?;
        tx.commit()
    };
    for (n, step) in database.steps().into_iter().enumerate().skip(from as usize - 1) {
        take(n, step).map_err(|error| trouble(path, error))?;
    }
    Ok(())
}

fn tables_to_layout_2(tables: &Connection) -> rusqlite::Result<()> {
    tables.execute_batch(rows::ADDED_IN_LAYOUT_2)?;
    let mut digest = Digest::default();
    rows::for_each(tables, |row| {
        digest.add(&row);
        Ok::<_, rusqlite::Error>(())
    })?;
    digest.put(tables)
}

pub(super) fn get<T: rusqlite::types::FromSql>(
    db: &Connection,
    key: &str,
) -> Result<Option<T>, Error> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    db.query_row(sql, [key], |row: &Row<'_>| row.get(0)).optional().map_err(trouble_in(db))
}

/// Sets a value and updates the seal, both or neither: in a separate transaction, or as part of the current one.
pub(super) fn set(db: &Connection, key: &str, value: impl ToSql) -> rusqlite::Result<()> {
    sealed(db, |db| put(db, key, value))
}

/// Deletes a value and updates the seal, in the same way.
pub(super) fn unset(db: &Connection, key: &str) -> rusqlite::Result<()> {
    sealed(db, |db| db.execute("DELETE FROM meta WHERE key = ?1", [key]).map(drop))
}

fn sealed(
    db: &Connection,
    say: impl FnOnce(&Connection) -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    db.execute_batch("SAVEPOINT saying")?;
    let said = say(db).and_then(|()| seal(db));
    let end = if said.is_ok() { "RELEASE saying" } else { "ROLLBACK TO saying; RELEASE saying" };
    let ended = db.execute_batch(end);
    said.and(ended)
}

/// Sets a value without updating the seal, so that the caller can set more.
pub(super) fn put(db: &Connection, key: &str, value: impl ToSql) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
    db.prepare_cached(sql)?.execute(params![key, value])?;
    Ok(())
}

/// Updates the seal: a hash of `meta`, which reveals any changed or lost row.
pub(super) fn seal(db: &Connection) -> rusqlite::Result<()> {
    put(db, SEAL, meta_hash(db)?.0)
}

pub(super) fn check_seal(file: &str, db: &Connection) -> Result<(), Error> {
    let hash = meta_hash(db).map_err(trouble_in(db))?;
    match get::<[u8; Hash::BYTES]>(db, SEAL)? {
        Some(sealed) if sealed == hash.0 => Ok(()),
        _ => Err(refused(format!("{file}: its table meta was changed, or lost a row"))),
    }
}

fn meta_hash(db: &Connection) -> rusqlite::Result<Hash> {
    let mut bytes = Vec::new();
    let mut statement =
        db.prepare_cached("SELECT key, value FROM meta WHERE key <> ?1 ORDER BY key")?;
    let mut found = statement.query([SEAL])?;
    while let Some(row) = found.next()? {
        for column in 0..2 {
            let (tag, value): (u8, &[u8]) = match row.get_ref(column)? {
                ValueRef::Null => (0, &[]),
                ValueRef::Integer(n) => (1, &n.to_le_bytes()),
                ValueRef::Real(n) => (2, &n.to_le_bytes()),
                ValueRef::Text(text) => (3, text),
                ValueRef::Blob(blob) => (4, blob),
            };
            bytes.push(tag);
            bytes.extend((value.len() as u64).to_le_bytes());
            bytes.extend(value);
        }
    }
    Ok(Hash::of(&bytes))
}
