//! Copies of a store, also of one in use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::load::State;
use super::mark::Found;
use super::schema::{self, Database};
use super::source::Source;
use super::{JOURNAL, NAMES, TABLES, check, journal_path, refused, tables_path, transfer, trouble};
use crate::Error;
use crate::folder::{Making, Unfinished};

/// A copy that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// How large it is.
    pub n_bytes: u64,
}

/// Copies the store in `data`, whether or not a server uses it, into `target`, a new or empty folder. It is checked
/// before anybody can take the copy for a backup.
pub fn backup(data: &Path, target: &Path) -> Result<Copied, Error> {
    let mut source = Source::open(data)?;
    // Of a store in use there is no moment that could be checked before it is copied. Of another, the copy would
    // have no mark to tell what is missing.
    let is_in_use = source.is_in_use();
    if !is_in_use {
        source.judge()?;
    }
    let unfinished = Unfinished::begin(target, Making::Backup)?;
    let (journal, mut tables) = copy(&source, &unfinished)?;
    drop(source);
    schema::set(&tables, "is_backup", 1).map_err(|error| trouble(&tables_path(target), error))?;
    if is_in_use {
        check::judge(&journal, &mut tables, Found::Missing)?;
    }
    complete(unfinished, journal, tables, target)
}

/// Puts a backup, which is checked first, into `data`, a new or empty folder. The first start from it ends whatever
/// the backup says is held, and hands out nothing that could have been handed out since.
pub fn restore(backup: &Path, data: &Path) -> Result<Copied, Error> {
    let mut source = Source::at_rest(backup)?;
    judged(&mut source)?;
    let unfinished = Unfinished::begin(data, Making::Restore)?;
    let (journal, tables) = copy(&source, &unfinished)?;
    // Wherever the store of the backup has moved, this is another one.
    schema::unset(&journal, transfer::CLOSED).map_err(|error| trouble(data, error))?;
    complete(unfinished, journal, tables, data)
}

/// What is in a backup, which is checked, and must be one.
pub(super) fn judged(source: &mut Source) -> Result<State, Error> {
    let (report, state) = source.judge()?;
    if report.is_backup {
        return Ok(state);
    }
    Err(refused(format!(
        "{0} is a data folder and not a backup. Make a backup of it: leasehold backup TARGET --data {0}",
        source.data.display()
    )))
}

/// The journal is copied first: whatever is folded and trimmed meanwhile is then in the copy of the tables.
fn copy(source: &Source, target: &Unfinished) -> Result<(Connection, Connection), Error> {
    let copy = |name: &str, db: &Connection, database| {
        let (from, to) = (source.data.join(name), target.part(name)?);
        let copy = copy_one(db, &from, &to)?;
        schema::bring_forward(&from, &copy, database)?;
        Ok::<_, Error>(copy)
    };
    let journal = copy(JOURNAL, &source.journal, Database::Journal)?;
    let tables = copy(TABLES, &source.tables, Database::Tables)?;
    Ok((journal, tables))
}

fn copy_one(source: &Connection, from: &Path, to: &Path) -> Result<Connection, Error> {
    let mut copy = schema::unsynced(to)?;
    let why = |error| trouble(to, error);
    // All in one step, so that it is one moment of the source however much is written meanwhile.
    Backup::new(source, &mut copy)
        .and_then(|backup| backup.run_to_completion(i32::MAX, Duration::from_millis(1), None))
        .map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => why(error),
            _ => trouble(from, error),
        })?;
    // It has no write-ahead log as long as nobody uses it, so that it is one file.
    let mode: String =
        copy.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0)).map_err(why)?;
    if mode != "delete" {
        return Err(refused(format!("{}: its journal mode stays {mode}", to.display())));
    }
    copy.pragma_update(None, "journal_mode", "MEMORY").map_err(why)?;
    Ok(copy)
}

pub(super) fn complete(
    unfinished: Unfinished,
    journal: Connection,
    tables: Connection,
    target: &Path,
) -> Result<Copied, Error> {
    for db in [journal, tables] {
        db.close().map_err(|(_, error)| trouble(target, error))?;
    }
    unfinished.complete(&NAMES)?;
    let size = |path: PathBuf| path.metadata().map_or(0, |file| file.len());
    Ok(Copied { n_bytes: size(journal_path(target)) + size(tables_path(target)) })
}
