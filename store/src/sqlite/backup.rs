//! Copies of a store, even of one in use.

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
use crate::folder::{Making, Unfinished, make_parent};

/// The result of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copied {
    /// The size of the copy in bytes.
    pub n_bytes: u64,
}

/// Copies the store in `data`, even if a server uses it, to the new or empty directory `target`. The copy is checked
/// before it counts as a backup.
pub fn backup(data: &Path, target: &Path) -> Result<Copied, Error> {
    copy_to(data, target, make_parent)
}

/// Like [`backup`], but fails if the parent directory of `target` is missing.
pub fn backup_below(data: &Path, target: &Path) -> Result<Copied, Error> {
    copy_to(data, target, |_| Ok(()))
}

fn copy_to(
    data: &Path,
    target: &Path,
    prepare: fn(&Path) -> Result<(), Error>,
) -> Result<Copied, Error> {
    let mut source = Source::open(data)?;
    // A store in use changes all the time, so its copy is checked instead. Any other store is checked before the copy,
    // because the copy has no mark that would reveal missing records.
    let is_in_use = source.is_in_use();
    if !is_in_use {
        source.judge()?;
    }
    prepare(target)?;
    let unfinished = Unfinished::begin(target, Making::Backup)?;
    let (journal, mut tables) = copy(&source, &unfinished)?;
    drop(source);
    schema::set(&tables, "is_backup", 1).map_err(|error| trouble(&tables_path(target), error))?;
    if is_in_use {
        check::judge(&journal, &mut tables, Found::Missing)?;
    }
    complete(unfinished, journal, tables, target)
}

/// Checks a backup and copies it to the new or empty directory `data`. The first start from it ends all leases in the
/// backup, and issues no token or number that might have been issued since.
pub fn restore(backup: &Path, data: &Path) -> Result<Copied, Error> {
    let mut source = Source::at_rest(backup)?;
    judged(&mut source)?;
    let unfinished = Unfinished::begin(data, Making::Restore)?;
    let (journal, tables) = copy(&source, &unfinished)?;
    // The restored store is a new one, even if the original has moved elsewhere.
    schema::unset(&journal, transfer::CLOSED).map_err(|error| trouble(data, error))?;
    complete(unfinished, journal, tables, data)
}

/// Checks a backup and returns its state. Fails if it is not a backup.
pub(super) fn judged(source: &mut Source) -> Result<State, Error> {
    let (report, state) = source.judge()?;
    if report.is_backup {
        return Ok(state);
    }
    Err(refused(format!(
        "{0} is a data directory, not a backup; to back it up, run leasehold backup TARGET --data {0}",
        source.data.display()
    )))
}

/// Copies the journal first. Records that are folded and trimmed in the meantime are then in the copy of the tables.
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
    // Copies everything in one step, so that the copy shows one moment of the source, however much is written in the
    // meantime.
    Backup::new(source, &mut copy)
        .and_then(|backup| backup.run_to_completion(i32::MAX, Duration::from_millis(1), None))
        .map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => why(error),
            _ => trouble(from, error),
        })?;
    // Without a write-ahead log, the copy is a single file.
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
