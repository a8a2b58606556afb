//! The embedded store: two SQLite files in one folder.
//!
//! `journal.db` takes one row per batch, and that row is what makes an answer true. `tables.db` is what the
//! rows add up to, in tables anybody can open with the sqlite3 shell; a thread of its own folds the journal
//! into it, so that no commit waits for it. Both carry one store id.

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

pub use backup::{Copied, backup, restore};
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

/// Journal rows deleted with each commit: few, because deleting many at once holds up whoever waits.
const TRIMMED_PER_COMMIT: u64 = 8;
/// A batch of half this size still takes no longer than a few small ones.
const RECORD_BYTES_MAX: usize = 16 << 20;
/// There is only one node, which needs no name.
const NODE: &str = "";

/// How to keep a store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder.
    pub data: PathBuf,
    /// How often the journal is folded into the tables.
    pub fold_interval: Duration,
    /// How much of what happened is kept.
    pub history: history::Bounds,
    /// How much disk space is set aside, and how much must be free.
    pub space: Space,
}

/// The embedded store.
pub struct SqliteStore {
    options: Options,
    journal: Connection,
    /// Up to the last record appended.
    chain: Chain,
    epoch: u64,
    /// Journal rows up to here are gone.
    trimmed_through: u64,
    n_bytes_written: u64,
    fold: Option<FoldThread>,
    progress: Arc<fold::Progress>,
    health: Arc<Health>,
    disk: Arc<Disk>,
    /// `None` before the load.
    disk_watch: Option<DiskWatch>,
    /// The clock by which old history is deleted while nothing happens; `None` to delete only when events are written.
    clock: Option<Arc<dyn Clock>>,
    /// The journal's files, which must stay what their paths lead to.
    files: Vec<Identity>,
    /// `None` before the load.
    mark: Option<Mark>,
    /// Nobody else may use the folder as long as this lives. The last to go: see there.
    _dir_lock: DirLock,
}

impl SqliteStore {
    /// Opens or makes the store in a folder, which must not be in use. One that has moved elsewhere is not opened.
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
        let journal = schema::open_journal(data)?;
        drop(schema::open_tables(data, &journal)?);
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

    /// These files are still what their paths lead to, and the fold has met nothing else.
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
            self.trimmed_through = trimmed_through;
            let begun = self.journal.execute_batch("BEGIN IMMEDIATE");
            match begun.and_then(|()| self.insert(seq, bytes)) {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
        Err(unknown(error))
    }

    /// The same for the mark: some file systems need a new block even to overwrite one.
    fn write_mark(&mut self) -> Result<(), Error> {
        let Some(mark) = &mut self.mark else { return Ok(()) };
        while let Err(error) = mark.write(self.chain.place()) {
            if !folder::is_no_space(&error) || !self.disk.release() {
                return Err(mark.unwritten(&error));
            }
        }
        Ok(())
    }

    /// Deletes what is durably in the tables, a little with each commit.
    fn trim(&mut self) -> rusqlite::Result<()> {
        let target = self.progress.folded_through().min(self.trimmed_through + TRIMMED_PER_COMMIT);
        if target > self.trimmed_through {
            let sql = "DELETE FROM journal WHERE seq <= ?1";
            self.journal.prepare_cached(sql)?.execute([target as i64])?;
            self.trimmed_through = target;
        }
        Ok(())
    }

    /// Opens the history of this store, and makes known what it tells of the records that are folded.
    fn open_history(&self, loaded: &mut Loaded, folded: Place) -> Result<history::Writer, Error> {
        let store = schema::get::<String>(&self.journal, "store_id")?.unwrap_or_default();
        let store = format!("{store}-{:x}", loaded.generation);
        let writer = history::Writer::open(&self.options.data, &store, self.options.history)?;
        let known = History::of(&self.options.data).latest(load::TOLD_MAX);
        let known = known.unwrap_or_else(|why| {
            tracing::warn!(%why, "what happened before the last fold cannot be read");
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
        let mut tables = schema::open_tables(&self.options.data, &self.journal)?;
        let (data, disk) = (self.options.data.as_path(), &*self.disk);
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
        let fold = FoldThread::start(&self.options, self.clock.clone(), folded, shared)?;
        self.fold = Some(fold);
        self.disk_watch = Some(DiskWatch::start(self.disk.clone())?);
        if self.disk.has_reserve() {
            NAMES.iter().for_each(|name| self.disk.claim(&self.options.data.join(name)));
        }
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
        self.n_bytes_written += bytes.len() as u64;
        self.health.appended(bytes.len());
        self.progress.appended(self.chain.place().seq);
        // What was written may be in a file nobody will ever open again. To look once, before anybody is answered, is
        // enough: what goes into such a file does no harm, and each look takes two microseconds.
        self.check(self.files.iter())
    }

    /// Nobody else can have written: the folder is ours, as long as its database is what our path leads to.
    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        self.journal
            .prepare_cached("ROLLBACK")
            .and_then(|mut sql| sql.execute([]))
            .map_err(unknown)?;
        self.check(self.files.iter().take(1))
    }

    /// Whatever is not known here only a restart can tell, so there is never anything to settle.
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
/// The order in which files get their names: a folder with a journal has everything else.
const NAMES: [&str; 2] = [TABLES, JOURNAL];

/// Makes a store nothing has happened in.
fn make(data: &Path) -> Result<(), Error> {
    let unfinished = Unfinished::begin(data, Making::Store)?;
    schema::create(
        leasehold_base::random::bytes(),
        &unfinished.part(JOURNAL)?,
        &unfinished.part(TABLES)?,
    )?;
    unfinished.complete(&NAMES)
}

/// Whether there is a store; half of one is an error. An empty file is what some earlier version left of its first
/// start.
fn is_there(data: &Path) -> Result<bool, Error> {
    let [journal, tables] = [journal_path(data), tables_path(data)]
        .map(|path| (path.metadata().is_ok_and(|file| file.len() > 0), path));
    match (journal, tables) {
        ((true, _), (true, _)) => Ok(true),
        ((false, journal), (false, _)) if data.join(MARK).exists() => {
            Err(refused(format!("{} is missing or empty beside mark", journal.display())))
        }
        ((false, _), (false, _)) => Ok(false),
        ((false, missing), (true, other)) | ((true, other), (false, missing)) => {
            let [missing, other] = [missing, other].map(|path| path.display().to_string());
            Err(refused(format!("{missing} is missing or empty beside {other}")))
        }
    }
}

/// A database and its write-ahead log, both open.
fn files_of(database: &Path) -> Result<Vec<Identity>, Error> {
    [database.to_owned(), beside(database, "-wal")]
        .into_iter()
        .map(|path| Identity::of(&path).map_err(|error| folder::trouble(&path, &error)))
        .collect()
}

/// A file SQLite keeps beside a database.
fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

/// Whether a folder is a store or a backup to which nothing is missing, as far as its names tell.
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

/// The same for a database that is open: whoever reads the refusal learns which file it is about.
fn trouble_in(db: &Connection) -> impl Fn(rusqlite::Error) -> Error + '_ {
    |error| match db.path() {
        Some(path) => trouble(Path::new(path), error),
        // Not UTF-8, so that SQLite cannot tell it to us.
        None => refused(error),
    }
}

/// What went wrong with this database, and what to do where we know it.
pub(super) fn trouble(path: &Path, error: rusqlite::Error) -> Error {
    Error::Refused(match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => folder::no_room(path, &error),
        // Where SQLite wants room for something else than the database, it does not say so.
        Some(ErrorCode::SystemIoFailure) if folder::is_full(path) => folder::no_room(path, &error),
        _ => format!("{}: {error}", path.display()),
    })
}
