//! Opens the files of a store for reading, without changing them.
//!
//! Opening a database after a crash completes the interrupted work, and so destroys evidence. Such files are copied,
//! and the copies are opened. Files without remains of a crash are opened as immutable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::check::{self, Report};
use super::load::State;
use super::mark::{self, Found};
use super::schema::{self, Database};
use super::{JOURNAL, TABLES, beside, journal_path, refused, tables_path, trouble};
use crate::Error;
use crate::folder::{self, Hold};

/// How long to wait for a server that is writing.
const PATIENCE: Duration = Duration::from_secs(10);
/// Characters with a special meaning in a file URI.
const MEANING: AsciiSet = CONTROLS.add(b'%').add(b'?').add(b'#');

/// Both databases of a store, open.
pub(super) struct Source {
    pub(super) journal: Connection,
    pub(super) tables: Connection,
    mark: Found,
    /// The original path of the data directory, for messages.
    pub(super) data: PathBuf,
    /// The copies, if there are any. They are removed after the connections are closed.
    _copy: Option<TempDir>,
    hold: Option<Hold>,
}

impl Source {
    /// Opens a store that no server uses.
    pub(super) fn at_rest(data: &Path) -> Result<Self, Error> {
        match hold(data)? {
            Some(hold) => Self::held(data, hold),
            None => Err(folder::in_use(data)),
        }
    }

    /// Opens a store, even if a server uses it.
    pub(super) fn open(data: &Path) -> Result<Self, Error> {
        match hold(data)? {
            Some(hold) => Self::held(data, hold),
            None => Self::in_use(data),
        }
    }

    /// Returns whether a server might be changing the store.
    pub(super) fn is_in_use(&self) -> bool {
        self.hold.is_none()
    }

    fn held(data: &Path, hold: Hold) -> Result<Self, Error> {
        let databases = [journal_path(data), tables_path(data)];
        if !databases.iter().any(|path| has_rest(path)) {
            let [journal, tables] = databases.each_ref().map(|path| open_unchanging(path));
            let (journal, tables) = (journal?, tables?);
            let [at, of] = &databases;
            if schema::is_current(at, &journal)? && schema::is_current(of, &tables)? {
                return Self::new(data, journal, tables, None, Some(hold));
            }
        }
        let copy = copy(data)?;
        let [journal, tables] = [Database::Journal, Database::Tables]
            .map(|database| open_copy(data, copy.path(), database));
        Self::new(data, journal?, tables?, Some(copy), Some(hold))
    }

    fn in_use(data: &Path) -> Result<Self, Error> {
        let [journal, tables] = [journal_path(data), tables_path(data)].map(|path| {
            let why = |error| trouble(&path, error);
            let db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY);
            let db = db.map_err(why)?;
            // If the server ends in the meantime, this connection is the last one, and leaves the cleanup to the next
            // start.
            db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(why)?;
            db.busy_timeout(PATIENCE).map_err(why)?;
            Ok(db)
        });
        Self::new(data, journal?, tables?, None, None)
    }

    fn new(
        data: &Path,
        journal: Connection,
        tables: Connection,
        copy: Option<TempDir>,
        hold: Option<Hold>,
    ) -> Result<Self, Error> {
        schema::check_same(&data.join(TABLES), &journal, &tables)?;
        let mark = mark::find(data)?;
        Ok(Self { journal, tables, mark, data: data.into(), _copy: copy, hold })
    }

    /// Checks the store in the same way as a start.
    pub(super) fn judge(&mut self) -> Result<(Report, State), Error> {
        check::judge(&self.journal, &mut self.tables, self.mark)
    }
}

/// Locks a store for reading. Returns `None` if a server uses it.
fn hold(data: &Path) -> Result<Option<Hold>, Error> {
    folder::check(data)?;
    for path in [journal_path(data), tables_path(data)] {
        if !path.is_file() {
            let (path, data) = (path.display(), data.display());
            return Err(refused(format!(
                "{path} is missing: {data} is neither a store nor a backup"
            )));
        }
    }
    Hold::to_read(data, &journal_path(data))
}

/// Returns whether a crash left data that is not in the database yet.
fn has_rest(database: &Path) -> bool {
    ["-wal", "-journal"]
        .iter()
        .any(|suffix| beside(database, suffix).metadata().is_ok_and(|file| file.len() > 0))
}

/// Copies all files of a store except those that SQLite recreates.
fn copy(data: &Path) -> Result<TempDir, Error> {
    let why = |error: io::Error| {
        refused(format!(
            "{} was not closed cleanly, so the command reads a copy in {} (TMPDIR): {error}",
            data.display(),
            std::env::temp_dir().display()
        ))
    };
    let copy = TempDir::with_prefix("leasehold-").map_err(why)?;
    for entry in fs::read_dir(data).map_err(|error| folder::trouble(data, &error))? {
        let name = entry.map_err(why)?.file_name();
        let is_wanted = |name: &str| folder::is_store_file(name) && !name.ends_with("-shm");
        if name.to_str().is_some_and(is_wanted) {
            fs::copy(data.join(&name), copy.path().join(&name)).map_err(why)?;
        }
    }
    Ok(copy)
}

/// Opens a copy, and migrates its layout like a start.
fn open_copy(data: &Path, copy: &Path, database: Database) -> Result<Connection, Error> {
    let name = match database {
        Database::Journal => JOURNAL,
        Database::Tables => TABLES,
    };
    let path = data.join(name);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(copy.join(name), flags);
    let db = db.map_err(|error| trouble(&path, error))?;
    schema::bring_forward(&path, &db, database)?;
    Ok(db)
}

/// Opens a database that does not change while it is open.
pub(super) fn open_unchanging(path: &Path) -> Result<Connection, Error> {
    let absolute = std::path::absolute(path).map_err(refused)?;
    let absolute = absolute
        .to_str()
        .ok_or_else(|| refused(format!("{}: the path is not UTF-8", path.display())))?;
    let address = format!("file:{}?immutable=1", utf8_percent_encode(absolute, &MEANING));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(address, flags).map_err(|error| trouble(path, error))
}
