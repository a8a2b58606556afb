//! Are the pages of a database in order? What its rows say is judged elsewhere; here it is about what SQLite itself
//! goes by: which page belongs to what, which are free, in which order keys are. SQLite would stumble over such damage
//! later, or write into pages that are in use.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::source::open_unchanging;
use super::{beside, refused};
use crate::Error;

/// SQLite counts a step or two for each page of a tree.
const STEPS_PER_PAGE: i64 = 4;

/// Refuses a database whose pages are not in order.
pub(super) fn check(file: &str, db: &Connection) -> Result<(), Error> {
    verdict(file, quick_check(db))
}

/// The same for a database whose rows somebody else reads and adds up, with a connection for nothing else.
///
/// SQLite goes through the trees, says what is wrong with them, and then looks at every row. That takes ten times as
/// long and finds nothing that the sum of the rows would not show, so it is broken off there: as many steps as this are
/// not taken before.
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

/// `main` is said because otherwise SQLite looks at its temporary database too, and from then on begins and ends a
/// transaction there with every commit of ours.
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

/// A second connection to a database that nobody changes meanwhile, so that its pages can be checked while its rows
/// are read. `None`: its path is not UTF-8, so that it cannot be named to SQLite again.
pub(super) fn again(file: &str, db: &Connection) -> Result<Option<Connection>, Error> {
    let Some(path) = db.path().map(Path::new) else { return Ok(None) };
    // Without a log there may be no way to make one either.
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

    /// Two trees of several levels, whose rows are far more than the steps that are taken.
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
        // A row that could not be there, which is for whoever reads the rows.
        let wrong_row = "PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, 'text TEXT', 'text INTEGER CHECK (text > 0)');";
        checked(wrong_row).expect("trees that are in order");
        let one_tree_for_both = "PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET rootpage = (SELECT min(rootpage) FROM sqlite_schema);";
        assert!(checked(one_tree_for_both).is_err());
    }
}
