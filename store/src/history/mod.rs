//! The history: the events of the journal, kept for queries after the journal's records are deleted.
//!
//! No decision depends on history: no lock is granted or refused because of it. So a damaged file is moved aside and
//! replaced by a new one, and the server starts anyway. An intact file is never moved aside: if the disk is full or
//! another process has locked the file, the server refuses to start. The fold writes one block for each chunk of
//! records, before the chunk counts as folded. A chunk that is folded again adds no event twice.

mod block;
mod chronicle;
mod filter;
mod query;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, params};

pub(super) use block::Block;
pub use chronicle::Chronicle;
pub use query::{Page, Query};

use super::{Error, sqlite};
use crate::event::{Event, EventId};

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS blocks (
        last_seq INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, first_ms INTEGER NOT NULL,
        last_ms INTEGER NOT NULL, filter BLOB NOT NULL, events BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS gaps (first_seq INTEGER PRIMARY KEY, last_seq INTEGER NOT NULL);";

/// How long to wait for another process that has locked the file.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many events are kept. The oldest events over either limit are deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// How long events are kept.
    pub age_max: Duration,
    /// Maximum size of the events, in bytes.
    pub bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { age_max: Duration::from_secs(30 * 24 * 3600), bytes_max: 256 << 20 }
    }
}

/// The file that events are added to. There is one writer, used by the fold.
pub(crate) struct Writer {
    db: Connection,
    bounds: Bounds,
    n_bytes: u64,
    last_seq: u64,
    /// Whether writing is paused. In that time, events become a gap.
    is_paused: bool,
    /// The records of the latest gap, until a block is written after it.
    missed: Option<(u64, u64)>,
}

/// Returns the path of the history in a data directory.
pub fn path(data: &Path) -> PathBuf {
    data.join("history.db")
}

impl Writer {
    /// Opens or creates the history of the store with this id and generation.
    pub(crate) fn open(data: &Path, store: &str, bounds: Bounds) -> Result<Self, Error> {
        let path = path(data);
        match Self::try_open(&path, store, bounds, PATIENCE) {
            Ok(writer) => Ok(writer),
            Err(Unusable::Damaged(why)) => {
                let aside = move_aside(&path, "damaged")?;
                tracing::warn!(%why, aside = %aside.display(), "moved the damaged history aside and started a new one");
                Self::try_open(&path, store, bounds, PATIENCE).map_err(|why| why.refusal(&path))
            }
            Err(Unusable::Earlier) => {
                let aside = move_aside(&path, "earlier")?;
                let aside = aside.display();
                tracing::info!(%aside, "moved the pre-restore history aside");
                Self::try_open(&path, store, bounds, PATIENCE).map_err(|why| why.refusal(&path))
            }
            Err(other) => Err(other.refusal(&path)),
        }
    }

    fn try_open(
        path: &Path,
        store: &str,
        bounds: Bounds,
        patience: Duration,
    ) -> Result<Self, Unusable> {
        let db = Connection::open(path)?;
        db.busy_timeout(patience)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.execute_batch(SCHEMA)?;
        let sql = "INSERT OR IGNORE INTO meta (key, value) VALUES ('store', ?1)";
        db.execute(sql, [store])?;
        let sql = "SELECT value FROM meta WHERE key = 'store'";
        let theirs: String = db.query_row(sql, [], |row| row.get(0))?;
        if theirs != store {
            // Checkpoints the log, so that the history is moved aside as one file.
            db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            return Err(Unusable::Earlier);
        }
        let sql = "SELECT coalesce(sum(length(filter) + length(events)), 0), coalesce(max(last_seq), 0) FROM blocks";
        let (n_bytes, last_seq): (i64, i64) =
            db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (n_bytes, last_seq) = (n_bytes as u64, last_seq as u64);
        Ok(Self { db, bounds, n_bytes, last_seq, is_paused: false, missed: None })
    }

    /// Returns a block for the next events. It omits events that are in the file already.
    pub(crate) fn begin(&self) -> Block {
        Block::after(self.last_seq)
    }

    /// Pauses or resumes writing.
    pub(crate) fn pause(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Adds the events of the records up to `through`.
    pub(crate) fn add(&mut self, block: Block, through: u64) -> rusqlite::Result<()> {
        if let Some([(first_seq, first_ms), (last_seq, last_ms)]) = block.span {
            let block::Packed { bytes, filter } = block.pack();
            let tx = self.db.unchecked_transaction()?;
            self.missed.map_or(Ok(()), |gap| put_gap(&tx, gap))?;
            let sql = "INSERT INTO blocks (last_seq, first_seq, first_ms, last_ms, filter, events)
                       VALUES (?1,?2,?3,?4,?5,?6)";
            let (first_seq, last_seq) = (first_seq as i64, last_seq as i64);
            let row = params![last_seq, first_seq, first_ms, last_ms, filter, bytes];
            tx.prepare_cached(sql)?.execute(row)?;
            let n_bytes = self.n_bytes + (bytes.len() + filter.len()) as u64;
            let n_bytes = forget(&tx, self.bounds, n_bytes, last_ms)?;
            tx.commit()?;
            self.n_bytes = n_bytes;
            self.missed = None;
        }
        self.last_seq = self.last_seq.max(through);
        Ok(())
    }

    /// Adds the events too, but if the block cannot be written, records a gap, so that history does not look complete.
    pub(crate) fn add_or_miss(&mut self, block: Block, through: u64) -> rusqlite::Result<()> {
        let span = block.span;
        let added = if self.is_paused { Ok(()) } else { self.add(block, through) };
        if self.is_paused || added.is_err() {
            if let Some([(first, _), (last, _)]) = span {
                self.miss(first, last);
            }
            self.last_seq = self.last_seq.max(through);
        }
        added
    }

    /// Records a gap for these records. If the gap cannot be written now, it is written with the next block.
    fn miss(&mut self, first: u64, last: u64) {
        let gap = (self.missed.map_or(first, |(first, _)| first), last);
        self.missed = Some(gap);
        if let Err(error) = put_gap(&self.db, gap) {
            tracing::debug!(%error, "cannot write a gap of the history");
        }
    }

    /// Deletes blocks that are too old at this time of the wall clock, even if nothing has happened since.
    pub(crate) fn forget(&mut self, now_ms: i64) -> rusqlite::Result<()> {
        let tx = self.db.unchecked_transaction()?;
        let n_bytes = forget(&tx, self.bounds, self.n_bytes, now_ms)?;
        tx.commit()?;
        self.n_bytes = n_bytes;
        Ok(())
    }
}

fn put_gap(db: &Connection, (first, last): (u64, u64)) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO gaps (first_seq, last_seq) VALUES (?1, ?2)";
    db.prepare_cached(sql)?.execute(params![first as i64, last as i64]).map(drop)
}

/// Deletes the oldest blocks until the rest is within bounds, at most 64 in one call. Returns the bytes left.
fn forget(db: &Connection, bounds: Bounds, mut n_bytes: u64, now_ms: i64) -> rusqlite::Result<u64> {
    let age_ms = i64::try_from(bounds.age_max.as_millis()).unwrap_or(i64::MAX);
    let sql = "SELECT last_seq, last_ms, length(filter) + length(events) FROM blocks
               ORDER BY last_seq LIMIT 64";
    let mut statement = db.prepare_cached(sql)?;
    let mut oldest = statement.query([])?;
    while let Some(row) = oldest.next()? {
        let (seq, last_ms, size): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if n_bytes <= bounds.bytes_max && now_ms.saturating_sub(last_ms) <= age_ms {
            break;
        }
        db.prepare_cached("DELETE FROM blocks WHERE last_seq = ?1")?.execute([seq])?;
        n_bytes = n_bytes.saturating_sub(size as u64);
    }
    Ok(n_bytes)
}

/// Reads the history. Each query opens the file again, so that queries do not wait for each other.
#[derive(Clone, Debug)]
pub struct History {
    path: PathBuf,
}

impl History {
    /// Returns the history in a data directory.
    pub fn of(data: &Path) -> Self {
        Self { path: path(data) }
    }

    /// Returns the newest matching events that are older than `before`, newest first. Reads the disk.
    pub fn find(
        &self,
        query: &Query,
        before: Option<EventId>,
        n_max: usize,
    ) -> Result<Page, String> {
        self.find_visible(query, |_| true, before, n_max)
    }

    /// Searches the history for a reader who can see only some of the events.
    pub fn find_visible(
        &self,
        query: &Query,
        is_visible: impl Fn(&Event) -> bool,
        before: Option<EventId>,
        n_max: usize,
    ) -> Result<Page, String> {
        if !self.path.exists() {
            return Ok(Page::default());
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&self.path, flags).map_err(|e| e.to_string())?;
        db.busy_timeout(PATIENCE).map_err(|e| e.to_string())?;
        query::find(&db, query, is_visible, before, n_max)
    }

    /// Returns the latest events after the last gap, oldest first.
    pub fn latest(&self, n_max: usize) -> Result<Vec<Event>, String> {
        let Page { mut events, gaps, .. } = self.find(&Query::default(), None, n_max)?;
        let missed = gaps.iter().map(|(_, last)| *last).max();
        events.retain(|event| missed.is_none_or(|missed| event.id.seq > missed));
        events.reverse();
        Ok(events)
    }
}

/// Moves the file aside. Returns its new path.
fn move_aside(path: &Path, word: &str) -> Result<PathBuf, Error> {
    try_move_aside(path, word).map_err(|error| super::folder::trouble(path, &error))
}

fn try_move_aside(path: &Path, word: &str) -> std::io::Result<PathBuf> {
    let aside = (1..).map(|n| path.with_extension(format!("db.{word}-{n}"))).find(|p| !p.exists());
    let aside = aside.unwrap_or_else(|| path.with_extension(format!("db.{word}")));
    std::fs::rename(path, &aside)?;
    for suffix in ["-wal", "-shm"] {
        let mut beside = path.as_os_str().to_owned();
        beside.push(suffix);
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

/// Why a history file cannot be used.
#[derive(Debug)]
enum Unusable {
    /// The file is not a valid history, and retrying will not change that.
    Damaged(String),
    /// The file belongs to another store, or to another generation: the store was restored from a backup since.
    Earlier,
    /// Another process has locked the file.
    Busy(rusqlite::Error),
    /// The file might be intact: there is no space or no permission, or the disk fails.
    Trouble(rusqlite::Error),
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // If the tables or values are not ours, the error has the code "unknown" or no code.
            None
            | Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt | ErrorCode::Unknown) => {
                Self::Damaged(error.to_string())
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(error),
            Some(_) => Self::Trouble(error),
        }
    }
}

impl Unusable {
    fn refusal(self, path: &Path) -> Error {
        match self {
            Self::Damaged(why) => Error::Refused(format!("{}: {why}", path.display())),
            Self::Earlier => {
                let path = path.display();
                Error::Refused(format!("{path}: this is the history of another store"))
            }
            Self::Busy(error) => Error::Refused(format!(
                "{}: {error}. Another process has locked this file for more than {} s; stop that process, then start \
                 again",
                path.display(),
                PATIENCE.as_secs()
            )),
            Self::Trouble(error) => sqlite::trouble(path, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, store: &str) -> Result<Writer, Unusable> {
        Writer::try_open(path, store, Bounds::default(), Duration::ZERO)
    }

    #[test]
    fn the_whole_pre_restore_history_is_moved_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = path(folder.path());
        let before = open(&path, "before").expect("made");
        before.db.execute("INSERT INTO meta (key, value) VALUES ('a', 'b')", []).expect("noted");
        // The history is still open, as that of a running server.
        let after = Writer::open(folder.path(), "after", Bounds::default()).expect("made");
        assert_eq!(after.last_seq, 0);
        let aside = folder.path().join("history.db.earlier-1");
        let aside = Connection::open(aside).expect("it is there");
        let sql = "SELECT count(*) FROM meta WHERE value IN ('b', 'before')";
        let n: i64 = aside.query_row(sql, [], |row| row.get(0)).expect("it is whole");
        assert_eq!(n, 2);
    }

    #[test]
    fn what_is_not_written_while_paused_is_a_gap_and_nothing_before_it_counts_as_the_latest() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = History::of(folder.path());
        let seqs = || -> Vec<_> {
            history.latest(100).expect("read").iter().map(|event| event.id.seq).collect()
        };
        let mut writer = open(&path(folder.path()), "ours").expect("made");
        let mut add = |seq: u64, is_paused: bool| {
            let mut block = writer.begin();
            block.add(&chronicle::event(seq));
            writer.pause(is_paused);
            writer.add_or_miss(block, seq).expect("added, or missed");
        };
        add(1, false);
        assert_eq!(seqs(), [1]);
        add(2, true);
        add(4, true);
        assert_eq!(seqs(), [0; 0]);
        add(5, false);
        add(6, false);
        assert_eq!(seqs(), [5, 6]);
        let page = history.find(&Query::default(), None, 100).expect("read");
        assert_eq!((page.events.len(), page.gaps), (3, vec![(2, 4)]));
    }

    #[test]
    fn only_what_is_damaged_counts_as_damaged() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = path(folder.path());
        drop(open(&path, "ours").expect("made"));
        assert!(matches!(open(&path, "theirs"), Err(Unusable::Earlier)));

        let other = Connection::open(&path).expect("opened");
        other.execute_batch("BEGIN IMMEDIATE").expect("locked");
        let busy = open(&path, "ours").err().expect("locked");
        assert!(matches!(busy, Unusable::Busy(_)), "{busy:?}");
        let Error::Refused(why) = busy.refusal(&path) else { panic!("refused") };
        assert!(why.contains("Another process"), "{why}");
        drop(other);
        open(&path, "ours").expect("sound");

        for code in [rusqlite::ffi::SQLITE_FULL, rusqlite::ffi::SQLITE_IOERR] {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            assert!(matches!(Unusable::from(error), Unusable::Trouble(_)), "{code}");
        }
        for code in [rusqlite::ffi::SQLITE_NOTADB, rusqlite::ffi::SQLITE_CORRUPT] {
            let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            assert!(matches!(Unusable::from(error), Unusable::Damaged(_)), "{code}");
        }
    }
}
