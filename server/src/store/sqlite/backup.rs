//! Copies of a store, also of one in use.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::dir_lock::DirLock;
use super::{journal_path, refused, schema, tables_path};
use crate::store::Error;

/// Copies the store in `data`, whether or not a server uses it, into `target`, a new or empty folder.
///
/// The journal is copied first: whatever is folded and trimmed meanwhile is then in the copy of the tables.
pub fn backup(data: &Path, target: &Path) -> Result<(), Error> {
    check_source(data)?;
    check_empty(target)?;
    copy(&journal_path(data), &journal_path(target))?;
    copy(&tables_path(data), &tables_path(target))?;
    let journal = schema::open_journal(target)?;
    let tables = schema::open_tables(target, &journal)?;
    schema::set(&tables, "is_backup", 1).map_err(refused)?;
    for db in [&journal, &tables] {
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(refused)?;
    }
    sync_folder(target)
}

/// Puts a backup into `data`, a new or empty folder. The first start from it ends whatever the backup says
/// is held, and hands out nothing that could have been handed out since.
pub fn restore(backup: &Path, data: &Path) -> Result<(), Error> {
    check_source(backup)?;
    check_empty(data)?;
    let dir_lock = DirLock::take(data)?;
    copy(&journal_path(backup), &journal_path(data))?;
    copy(&tables_path(backup), &tables_path(data))?;
    let journal = schema::open_journal(data)?;
    let tables = schema::open_tables(data, &journal)?;
    if schema::get::<i64>(&tables, "is_backup")?.is_none() {
        return Err(refused(format!("{} is no backup", backup.display())));
    }
    drop(dir_lock);
    sync_folder(data)
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let why = |error: rusqlite::Error| refused(format!("{}: {error}", from.display()));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).map_err(why)?;
    source.busy_timeout(Duration::from_secs(10)).map_err(why)?;
    let mut copy = Connection::open(to).map_err(why)?;
    copy.pragma_update(None, "synchronous", "FULL").map_err(why)?;
    // All in one step, so that it is one moment of the source however much is written meanwhile.
    let backup = Backup::new(&source, &mut copy).map_err(why)?;
    backup.run_to_completion(i32::MAX, Duration::from_millis(1), None).map_err(why)
}

fn check_source(data: &Path) -> Result<(), Error> {
    for path in [journal_path(data), tables_path(data)] {
        if !path.is_file() {
            return Err(refused(format!("{} is not there", path.display())));
        }
    }
    Ok(())
}

fn check_empty(folder: &Path) -> Result<(), Error> {
    let why = |error: std::io::Error| refused(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(why)?;
    if std::fs::read_dir(folder).map_err(why)?.next().is_some() {
        return Err(refused(format!("{} is not empty", folder.display())));
    }
    Ok(())
}

fn sync_folder(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(refused)
}
