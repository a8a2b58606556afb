//! Checks the pages of a database: which page belongs to which tree, which pages are free, and in which order the keys
//! are. The contents of rows are checked elsewhere. With such damage, SQLite would fail later, or write to pages that
//! are in use.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::source::open_unchanging;
use super::{beside, refused};
use crate::Error;

/// An upper bound of the steps that SQLite needs to check one page of a tree, which are one or two.
const STEPS_PER_PAGE: i64 = 4;

/// Fails if the pages of a database are damaged.
pub(super) fn check(file: &str, db: &Connection) -> Result<(), Error> {
    verdict(file, quick_check(db))
}

/// Checks the trees of a database while other code reads the rows and compares their digest. `db` must be a separate
/// connection.
///
/// SQLite first checks the trees, and then every row. The second part takes ten times as long and finds no damage that
/// the digest would not reveal. So the check is interrupted after as many steps as the first part needs at most.
pub(super) fn check_trees(file: &str, mut db: Connection) -> Result<(), Error> {
    let n_pages: rusqlite::Result<i64> =
        db.pragma_query_value(Some("main"), "page_count", |row| row.get(0));
    let checked = n_pages.and_then(|n_pages| {
        let n_steps = n_pages.saturating_mul(STEPS_PER_PAGE).max(1);
        db.progress_handler(n_steps.try_into().unwrap_or(i32::MAX), Some(|| true))?;
        quick_check(&db)
    });
    match checked {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(()),
        checked => verdict(file, checked),
    }
}

/// The pragma names `main`, because otherwise SQLite also opens its temporary database. From then on it would start and
/// end a transaction there with each of our commits.
fn quick_check(db: &Connection) -> rusqlite::Result<String> {
    db.query_row("PRAGMA main.quick_check(1)", [], |row| row.get(0))
}

fn verdict(file: &str, checked: rusqlite::Result<String>) -> Result<(), Error> {
    let damaged = |why: &dyn std::fmt::Display| refused(format!("{file}: {why}"));
    match checked.map_err(|error| damaged(&error))?.as_str() {
        "ok" => Ok(()),
        verdict => Err(damaged(&verdict)),
    }
}

/// Opens a second connection to a database that does not change in the meantime, so that its pages are checked while
/// its rows are read. Returns `None` if the path is not UTF-8, so that SQLite cannot open it by its path.
pub(super) fn again(file: &str, db: &Connection) -> Result<Option<Connection>, Error> {
    let Some(path) = db.path().map(Path::new) else { return Ok(None) };
    // Without a log, it might be impossible to create one, so the file is opened as unchanging.
    if !beside(path, "-wal").exists() {
        return open_unchanging(path).map(Some);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags(path, flags);
    opened.map(Some).map_err(|error| refused(format!("{file}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a database with two trees of several levels, whose rows need far more steps than the check takes.
    fn checked(damage: &str) -> Result<(), Error> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("many.db");
        let db = Connection::open(&path).expect("a database");
        let filled = db.execute_batch(
            "CREATE TABLE many (n INTEGER PRIMARY KEY, text TEXT NOT NULL);
             CREATE TABLE others (n INTEGER PRIMARY KEY, text TEXT NOT NULL);
             WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 20000)
             INSERT INTO many SELECT n, hex(n) || 'a text of some length' FROM t;
             INSERT INTO others SELECT * FROM many;",
        );
        filled.and_then(|()| db.execute_batch(damage)).expect("made");
        drop(db);
        check_trees("many.db", Connection::open(&path).expect("opened"))
    }

    #[test]
    fn trees_are_looked_at_and_rows_are_left_to_others() {
        checked("").expect("sound");
        // The wrong schema makes every row invalid, which only the reader of the rows notices.
        let wrong_row = "PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, 'text TEXT', 'text INTEGER CHECK (text > 0)');";
        checked(wrong_row).expect("trees that are in order");
        let one_tree_for_both = "PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET rootpage = (SELECT min(rootpage) FROM sqlite_schema);";
        assert!(checked(one_tree_for_both).is_err());
    }
}
