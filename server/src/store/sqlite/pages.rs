//! Are the pages of a database in order? What its rows say is judged elsewhere; here it is about what SQLite itself
//! goes by: which page belongs to what, which are free, in which order keys are. SQLite would stumble over such damage
//! later, or write into pages that are in use.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::source::open_unchanging;
use super::{beside, refused};
use crate::store::Error;

/// Refuses a database whose pages are not in order.
///
/// `main` is said because otherwise SQLite looks at its temporary database too, and from then on begins and ends a
/// transaction there with every commit of ours.
pub(super) fn check(file: &str, db: &Connection) -> Result<(), Error> {
    let damaged = |why: &dyn std::fmt::Display| refused(format!("{file}: {why}"));
    let verdict = db.query_row("PRAGMA main.quick_check(1)", [], |row| row.get::<_, String>(0));
    match verdict.map_err(|error| damaged(&error))?.as_str() {
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
