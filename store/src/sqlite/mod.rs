//! The embedded store: two SQLite files in one folder.
//!
//! `journal.db` receives one row per batch, and a response is sent only after that row is durable. `tables.db` contains
//! the resulting state, in tables that operators can open with the sqlite3 shell. A separate thread folds the journal
//! into the tables, so that no commit waits for that. Both files contain the same store id.

mod backup;
mod cell;
mod check;
mod digest;
mod disk;
mod fold;
mod journal;
mod load;
mod mark;
mod pages;
mod recover;
mod room;
mod rows;
mod schema;
mod source;
mod touched;
mod transfer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::Clock;
use leasehold_core::Limits;
use rusqlite::{Connection, ErrorCode, params};

pub use backup::{Copied, backup, backup_below, restore};
pub use check::{Report, examine, verify};
pub use disk::Space;
pub use recover::{Recovered, recover};
pub use transfer::{Arrival, Departure, read_backup, reopen};

use super::folder::{self, DirLock, Identity, LockFile, Making, Unfinished};
use super::history::{self, History};
use super::{Chain, Draft, Error, Health, JournalSize, Loaded, Permit, Place, Store};
use disk::{Disk, DiskWatch};
use fold::{FoldThread, Folded};
use mark::{MARK, Mark};

/// Journal rows deleted with each commit. The number is small, because deleting many rows at once delays responses.
const TRIMMED_PER_COMMIT: u64 = 8;
/// The free pages of the journal are counted whenever this many bytes were appended.
const ROOM_CHECKED_EVERY: u64 = 256 << 10;
/// The maximum size of a record. A batch of half this size takes no longer than a few small ones.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// The node name in records. An embedded store has only one node, which needs no name.
const NODE: &str = "";

/// The settings of an embedded store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// How often the journal is folded into the tables.
    pub fold_interval: Duration,
    /// How much history is kept.
    pub history: history::Bounds,
    /// How much disk space is set aside, and how much must be free.
    pub space: Space,
}

/// The embedded store.
pub struct SqliteStore {
    options: Options,
    journal: Connection,
    /// The chain up to the last appended record.
    chain: Chain,
    epoch: u64,
    /// Journal rows up to this one are deleted.
    trimmed_through: u64,
    n_bytes_written: u64,
    fold: Option<FoldThread>,
    progress: Arc<fold::Progress>,
    health: Arc<Health>,
    disk: Arc<Disk>,
    /// `None` before [`Store::load`].
    disk_watch: Option<DiskWatch>,
    /// The clock by which old history is deleted while nothing happens; `None` to delete only when events are written.
    clock: Option<Arc<dyn Clock>>,
    /// The journal's files, which must stay the ones that their paths lead to.
    files: Vec<Identity>,
    /// `None` before [`Store::load`].
    mark: Option<Mark>,
    /// Keeps other processes out of the data directory. This field is dropped last, after the database is closed: see
    /// [`DirLock`].
    _dir_lock: DirLock,
}

impl SqliteStore {
    /// Opens or creates the store in a data directory, which must not be in use. Fails if the store has moved
    /// elsewhere.
    pub fn open(options: Options) -> Result<Self, Error> {
        let store = Self::open_even_closed(options)?;
        transfer::check_open(&store.options.data, &store.journal)?;
        Ok(store)
    }

    fn open_even_closed(options: Options) -> Result<Self, Error> {
        let data = std::path::absolute(&options.data).map_err(refused)?;
        let options = Options { data, ..options };
        let data = &options.data;
        folder::make_private(data)?;
        let lock_file = LockFile::take(data)?;
        let health = Arc::<Health>::default();
        let disk = Arc::new(Disk::open(data, options.space, health.clone())?);
        disk.prepare();
        folder::admit(data)?;
        if !is_there(data)? {
            folder::check_own(data)?;
            make(data)?;
        }
        let dir_lock = lock_file.lock(&journal_path(data))?;
        let journal = disk.start(|| {
            let journal = schema::open_journal(data)?;
            schema::open_tables(data, &journal).map(|_| journal)
        })?;
        Ok(Self {
            options,
            journal,
            chain: Chain::default(),
            epoch: 0,
            trimmed_through: 0,
            n_bytes_written: 0,
            fold: None,
            progress: Arc::default(),
            health,
            disk,
            disk_watch: None,
            clock: None,
            files: Vec::new(),
            mark: None,
            _dir_lock: dir_lock,
        })
    }

    /// Deletes old history by this clock, even while nothing happens.
    pub fn forgetting_by(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Checks that these files are still the ones that their paths lead to, and that the fold has found the same.
    fn check<'a>(&self, mut files: impl Iterator<Item = &'a Identity>) -> Result<(), Error> {
        let lost = files.find(|file| !file.is_there()).map(Identity::lost);
        lost.or_else(|| self.progress.lost()).map_or(Ok(()), |why| Err(Error::Refused(why)))
    }

    fn insert(&mut self, seq: u64, bytes: &[u8]) -> rusqlite::Result<()> {
        let sql = "INSERT INTO journal (seq, record) VALUES (?1, ?2)";
        self.journal.prepare_cached(sql)?.execute(params![seq as i64, bytes])?;
        self.trim()?;
        self.journal.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Repeats a failed insert of a record, with more space if the disk might be full. A record that is not completely
    /// written is not durable, and the next attempt overwrites it.
    fn insert_again(
        &mut self,
        seq: u64,
        bytes: &[u8],
        trimmed_through: u64,
        mut error: rusqlite::Error,
    ) -> Result<(), Error> {
        while disk::may_be_full(&error) {
            if !self.disk.release() {
                return Err(if disk::is_full(&error) {
                    self.disk.exhausted(&error)
                } else {
                    unknown(error)
                });
            }
            disk::roll_back(&self.journal).map_err(unknown)?;
            // If this succeeds, the log is written from its beginning again and needs no space.
            let _ = room::put_in_file(&self.journal);
            self.trimmed_through = trimmed_through;
            let begun = self.journal.execute_batch("BEGIN IMMEDIATE");
            match begun.and_then(|()| self.insert(seq, bytes)) {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
        Err(unknown(error))
    }

    /// Writes the mark, with space from the reserve if the disk is full: some file systems need a new block even to
    /// overwrite one.
    fn write_mark(&mut self) -> Result<(), Error> {
        let Some(mark) = &mut self.mark else { return Ok(()) };
        while let Err(error) = mark.write(self.chain.place()) {
            if !folder::is_no_space(&error) || !self.disk.release() {
                return Err(mark.unwritten(&error));
            }
        }
        Ok(())
    }

    /// Checks from time to time whether the journal still has enough free pages.
    fn keep_room(&mut self, n_bytes: u64) {
        let before = self.n_bytes_written / ROOM_CHECKED_EVERY;
        self.n_bytes_written += n_bytes;
        if self.n_bytes_written / ROOM_CHECKED_EVERY > before {
            room::keep_in_journal(&self.journal, &self.disk);
        }
    }

    /// Deletes records that are durably in the tables, a few with each commit.
    fn trim(&mut self) -> rusqlite::Result<()> {
        let target = self.progress.folded_through().min(self.trimmed_through + TRIMMED_PER_COMMIT);
        if target > self.trimmed_through {
            let sql = "DELETE FROM journal WHERE seq <= ?1";
            self.journal.prepare_cached(sql)?.execute([target as i64])?;
            self.trimmed_through = target;
        }
        Ok(())
    }

    /// Opens the history of this store, and adds its events of the folded records to `loaded`.
    fn open_history(&self, loaded: &mut Loaded, folded: Place) -> Result<history::Writer, Error> {
        let store = schema::get::<String>(&self.journal, "store_id")?.unwrap_or_default();
        let store = format!("{store}-{:x}", loaded.generation);
        let open = || history::Writer::open(&self.options.data, &store, self.options.history);
        let writer = self.disk.start(open)?;
        let known = History::of(&self.options.data).latest(load::TOLD_MAX);
        let known = known.unwrap_or_else(|why| {
            tracing::warn!(%why, "cannot read history from before the last fold");
            Vec::new()
        });
        let mut told = known;
        told.retain(|event| event.id.seq <= folded.seq);
        told.append(&mut loaded.told);
        loaded.told = told;
        Ok(writer)
    }
}

impl Store for SqliteStore {
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error> {
        let (data, disk) = (self.options.data.as_path(), &*self.disk);
        let mut tables = disk.start(|| schema::open_tables(data, &self.journal))?;
        let (state, mark) =
            load::load(&self.journal, &mut tables, (data, disk), limits, hash_seed)?;
        self.mark = Some(mark);
        self.epoch = state.loaded.epoch;
        self.trimmed_through = state.trimmed_through;
        let (place, seq) = (state.folded, state.chain.place().seq);
        self.progress.start(place.seq, seq);
        self.files = files_of(&journal_path(&self.options.data))?;
        self.health.start(journal::n_bytes(&self.journal, place.seq, seq)?);
        let mut loaded = state.loaded;
        let history = self.open_history(&mut loaded, place)?;
        let folded = Folded { tables, history, place };
        let shared = fold::Shared {
            progress: self.progress.clone(),
            health: self.health.clone(),
            disk: self.disk.clone(),
        };
        self.disk_watch = Some(DiskWatch::start(self.disk.clone())?);
        if self.disk.has_reserve() {
            NAMES.iter().for_each(|name| self.disk.claim(&self.options.data.join(name)));
            room::keep_in_journal(&self.journal, &self.disk);
            room::keep_in_tables(&folded.tables, &self.disk);
        }
        let fold = FoldThread::start(&self.options, self.clock.clone(), folded, shared)?;
        self.fold = Some(fold);
        self.chain = state.chain;
        Ok(loaded)
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        match self.journal.prepare_cached("BEGIN IMMEDIATE").and_then(|mut sql| sql.execute([])) {
            Ok(_) => Ok(Permit::granted(self.epoch)),
            Err(error) if is_busy(&error) => Err(Error::Busy),
            Err(error) => Err(unknown(error)),
        }
    }

    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), Error> {
        let bytes = self.chain.encode(permit.epoch(), NODE, draft);
        let (seq, trimmed_through) = (self.chain.place().seq + 1, self.trimmed_through);
        if let Err(error) = self.insert(seq, &bytes) {
            self.insert_again(seq, &bytes, trimmed_through, error)?;
        }
        self.chain.wrote(permit.epoch(), &bytes);
        self.write_mark()?;
        self.keep_room(bytes.len() as u64);
        self.health.appended(bytes.len());
        self.progress.appended(self.chain.place().seq);
        // The record might have been written to a file that was deleted or replaced. One check before the responses is
        // enough: data in such a file does no harm, and each check takes two microseconds.
        self.check(self.files.iter())
    }

    /// Succeeds while the path leads to the open database. The data directory is locked, so no other process can have
    /// written to it.
    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        self.journal
            .prepare_cached("ROLLBACK")
            .and_then(|mut sql| sql.execute([]))
            .map_err(unknown)?;
        self.check(self.files.iter().take(1))
    }

    /// Does nothing: this store never returns [`Error::Unsettled`], because only a restart can determine an unknown
    /// outcome.
    fn settle(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn record_bytes_max(&self) -> usize {
        RECORD_BYTES_MAX
    }

    fn is_near(&self) -> bool {
        true
    }

    fn finish(&mut self) -> Result<(), Error> {
        let folded = self.fold.take().map_or(Ok(()), FoldThread::finish);
        drop(self.disk_watch.take());
        if self.disk.has_reserve() && self.disk.is_scarce() {
            disk::keep_log(&self.journal).map_err(refused)?;
        }
        folded
    }

    fn journal(&self) -> JournalSize {
        JournalSize {
            seq: self.chain.place().seq,
            folded_through: self.progress.folded_through(),
            n_records: self.chain.place().seq - self.trimmed_through,
            n_bytes_written: self.n_bytes_written,
        }
    }

    fn health(&self) -> Arc<Health> {
        self.health.clone()
    }
}

const JOURNAL: &str = "journal.db";
const TABLES: &str = "tables.db";
/// The order in which the files receive their names. So a directory with a journal is complete.
const NAMES: [&str; 2] = [TABLES, JOURNAL];

/// Creates an empty store.
fn make(data: &Path) -> Result<(), Error> {
    let unfinished = Unfinished::begin(data, Making::Store)?;
    schema::create(
        leasehold_base::random::bytes(),
        &unfinished.part(JOURNAL)?,
        &unfinished.part(TABLES)?,
    )?;
    unfinished.complete(&NAMES)
}

/// Returns whether there is a store. Fails if only part of it is there. An empty file counts as missing, because an
/// earlier version might have left it at its first start.
fn is_there(data: &Path) -> Result<bool, Error> {
    let [journal, tables] = [journal_path(data), tables_path(data)]
        .map(|path| (path.metadata().is_ok_and(|file| file.len() > 0), path));
    match (journal, tables) {
        ((true, _), (true, _)) => Ok(true),
        ((false, journal), (false, _)) if data.join(MARK).exists() => {
            Err(refused(format!("{} is missing or empty; mark is present", journal.display())))
        }
        ((false, _), (false, _)) => Ok(false),
        ((false, missing), (true, other)) | ((true, other), (false, missing)) => {
            let [missing, other] = [missing, other].map(|path| path.display().to_string());
            Err(refused(format!("{missing} is missing or empty; {other} is present")))
        }
    }
}

/// Returns the identities of a database and its write-ahead log, which are both open.
fn files_of(database: &Path) -> Result<Vec<Identity>, Error> {
    [database.to_owned(), beside(database, "-wal")]
        .into_iter()
        .map(|path| Identity::of(&path).map_err(|error| folder::trouble(&path, &error)))
        .collect()
}

/// Returns the path of a file that accompanies a database.
fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Returns whether a directory contains a complete store or backup, judging by the file names.
pub fn is_complete(data: &Path) -> bool {
    folder::check(data).is_ok() && is_there(data).unwrap_or(false)
}

fn journal_path(data: &Path) -> PathBuf {
    data.join(JOURNAL)
}

fn tables_path(data: &Path) -> PathBuf {
    data.join(TABLES)
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn unknown(error: rusqlite::Error) -> Error {
    Error::Unknown(error.to_string())
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::Refused(error.to_string())
}

/// Returns the error for a failed operation on an open database. It contains the path of the file.
fn trouble_in(db: &Connection) -> impl Fn(rusqlite::Error) -> Error + '_ {
    |error| match db.path() {
        Some(path) => trouble(Path::new(path), error),
        // The path is not UTF-8, so SQLite cannot return it.
        None => refused(error),
    }
}

/// Returns the error for a failed operation on a database, with advice if the disk is full.
pub(super) fn trouble(path: &Path, error: rusqlite::Error) -> Error {
    Error::Refused(match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => folder::no_room(path, &error),
        // If SQLite needs space for other files than the database, its error does not mention a lack of space.
        Some(ErrorCode::SystemIoFailure) if folder::is_full(path) => folder::no_room(path, &error),
        _ => format!("{}: {error}", path.display()),
    })
}
