//! The two files, their tables and their versions.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::journal::first_seq;
use super::{journal_path, refused, rows, tables_path};
use crate::store::Error;

/// Marks a file as ours: "LEAS".
const APPLICATION_ID: i64 = 0x4C45_4153;
/// The newest layout. A file with an older one is brought forward, one with a newer one is refused.
const SCHEMA_VERSION: i64 = 2;

const JOURNAL: &str = "CREATE TABLE journal (seq INTEGER PRIMARY KEY, record BLOB NOT NULL);";
const META: &str = "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;";

/// Opens or makes `journal.db`.
pub(super) fn open_journal(data: &Path) -> Result<Connection, Error> {
    let path = journal_path(data);
    if !path.exists() && tables_path(data).exists() {
        return Err(refused(format!("{} is missing beside tables.db", path.display())));
    }
    let journal = open(&path, &[META, JOURNAL], &[""])?;
    journal.pragma_update(None, "wal_autocheckpoint", 1000).map_err(refused)?;
    // Whoever is busy is told so at once, instead of everybody behind it waiting too.
    journal.busy_timeout(std::time::Duration::ZERO).map_err(refused)?;
    if get::<String>(&journal, "store_id")?.is_none() {
        let id: [u8; 16] = crate::random::bytes();
        set(&journal, "store_id", format!("{:032x}", u128::from_be_bytes(id))).map_err(refused)?;
    }
    Ok(journal)
}

/// Opens or makes `tables.db`, which must belong to this journal.
pub(super) fn open_tables(data: &Path, journal: &Connection) -> Result<Connection, Error> {
    let path = tables_path(data);
    let is_new = !path.exists();
    if is_new && first_seq(journal)?.is_some_and(|seq| seq > 1) {
        return Err(refused(format!("{} is missing beside journal.db", path.display())));
    }
    let create = [&[META][..], &rows::CREATE].concat();
    let tables = open(&path, &create, &[rows::ADDED_IN_LAYOUT_2])?;
    let id: Option<String> = get(journal, "store_id")?;
    match get::<String>(&tables, "store_id")? {
        None => {
            let generation = u64::from_le_bytes(crate::random::bytes()) >> 11;
            set(&tables, "folded_through", 0).map_err(refused)?;
            set(&tables, "generation", generation as i64).map_err(refused)?;
            set(&tables, "store_id", id).map_err(refused)?;
        }
        Some(theirs) if Some(&theirs) != id.as_ref() => {
            return Err(refused(format!("{} belongs to another store", path.display())));
        }
        Some(_) => {}
    }
    Ok(tables)
}

/// Opens or makes a file. The step that leads from layout n to n + 1 stands at n - 1.
fn open(
    path: &Path,
    create: &[&str],
    steps: &[&str; SCHEMA_VERSION as usize - 1],
) -> Result<Connection, Error> {
    let why = |error: rusqlite::Error| refused(format!("{}: {error}", path.display()));
    let is_new = std::fs::metadata(path).map_or(true, |file| file.len() == 0);
    let db = Connection::open(path).map_err(why)?;
    db.busy_timeout(std::time::Duration::from_secs(5)).map_err(why)?;
    if is_new {
        db.pragma_update(None, "page_size", 4096).map_err(why)?;
        let script = format!(
            "BEGIN IMMEDIATE; {} PRAGMA application_id = {APPLICATION_ID};
             PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;",
            create.concat()
        );
        db.execute_batch(&script).map_err(why)?;
    }
    let pragma = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if pragma("application_id").map_err(why)? != APPLICATION_ID {
        return Err(refused(format!("{} is not a file of ours", path.display())));
    }
    let version = pragma("user_version").map_err(why)?;
    if version < 1 {
        return Err(refused(format!("{} has no layout", path.display())));
    }
    if version > SCHEMA_VERSION {
        return Err(refused(format!(
            "{} has layout {version}, and this program knows only {SCHEMA_VERSION}: it is too old",
            path.display()
        )));
    }
    migrate(&db, version, steps).map_err(why)?;
    db.pragma_update(None, "journal_mode", "WAL").map_err(why)?;
    db.pragma_update(None, "synchronous", "FULL").map_err(why)?;
    Ok(db)
}

/// Brings an older layout forward, a step at a time, each in one transaction.
fn migrate(db: &Connection, from: i64, steps: &[&str]) -> rusqlite::Result<()> {
    for (n, step) in steps.iter().enumerate().skip(from as usize - 1) {
        let to = n + 2;
        db.execute_batch(&format!("BEGIN IMMEDIATE; {step} PRAGMA user_version = {to}; COMMIT;"))?;
    }
    Ok(())
}

pub(super) fn get<T: rusqlite::types::FromSql>(
    db: &Connection,
    key: &str,
) -> Result<Option<T>, Error> {
    let sql = "SELECT value FROM meta WHERE key = ?1";
    db.query_row(sql, [key], |row: &Row<'_>| row.get(0)).optional().map_err(refused)
}

pub(super) fn set(db: &Connection, key: &str, value: impl ToSql) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
    db.prepare_cached(sql)?.execute(params![key, value])?;
    Ok(())
}
