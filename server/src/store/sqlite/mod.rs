//! The embedded store: two SQLite files in one folder.
//!
//! `journal.db` takes one row per batch, and that row is what makes an answer true. `tables.db` is what the
//! rows add up to, in tables anybody can open with the sqlite3 shell; a thread of its own folds the journal
//! into it, so that no commit waits for it. Both carry one store id.

mod backup;
mod cell;
mod check;
mod dir_lock;
mod fold;
mod journal;
mod load;
mod rows;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Change, Limits};
use rusqlite::{Connection, ErrorCode, params};

pub use backup::{backup, restore};
pub use check::{Report, verify};

use super::{Chain, Error, JournalSize, Kind, Loaded, Permit, Store};
use crate::clock::Moment;
use dir_lock::DirLock;
use fold::FoldThread;

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
    /// Nobody else may use the folder as long as this lives.
    _dir_lock: DirLock,
}

impl SqliteStore {
    /// Opens or makes the store in a folder, which must not be in use.
    pub fn open(options: Options) -> Result<Self, Error> {
        let dir_lock = DirLock::take(&options.data)?;
        let journal = schema::open_journal(&options.data)?;
        drop(schema::open_tables(&options.data, &journal)?);
        Ok(Self {
            options,
            journal,
            chain: Chain::default(),
            epoch: 0,
            trimmed_through: 0,
            n_bytes_written: 0,
            fold: None,
            progress: Arc::default(),
            _dir_lock: dir_lock,
        })
    }

    fn insert(&mut self, seq: u64, bytes: &[u8]) -> rusqlite::Result<()> {
        let sql = "INSERT INTO journal (seq, record) VALUES (?1, ?2)";
        self.journal.prepare_cached(sql)?.execute(params![seq as i64, bytes])?;
        self.trim()?;
        self.journal.prepare_cached("COMMIT")?.execute([])?;
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
}

impl Store for SqliteStore {
    fn load(&mut self, limits: Limits, hash_seed: u128) -> Result<Loaded, Error> {
        let mut tables = schema::open_tables(&self.options.data, &self.journal)?;
        let state = load::load(&self.journal, &mut tables, limits, hash_seed)?;
        self.epoch = state.loaded.epoch;
        self.trimmed_through = state.trimmed_through;
        self.progress.start(state.folded.seq, state.chain.place().seq);
        let fold = FoldThread::start(&self.options, tables, state.folded, self.progress.clone());
        self.fold = Some(fold.map_err(refused)?);
        self.chain = state.chain;
        Ok(state.loaded)
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        match self.journal.prepare_cached("BEGIN IMMEDIATE").and_then(|mut sql| sql.execute([])) {
            Ok(_) => Ok(Permit::granted(self.epoch)),
            Err(error) if is_busy(&error) => Err(Error::Busy),
            Err(error) => Err(unknown(error)),
        }
    }

    fn append(
        &mut self,
        permit: Permit,
        kind: Kind,
        moment: Moment,
        changes: &[Change],
    ) -> Result<(), Error> {
        let bytes = self.chain.encode(permit.epoch(), kind, NODE, moment, changes);
        self.insert(self.chain.place().seq + 1, &bytes).map_err(unknown)?;
        self.chain.wrote(permit.epoch(), &bytes);
        self.n_bytes_written += bytes.len() as u64;
        self.progress.appended(self.chain.place().seq);
        Ok(())
    }

    /// Nobody else can have written: the folder is ours.
    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        self.journal
            .prepare_cached("ROLLBACK")
            .and_then(|mut sql| sql.execute([]))
            .map_err(unknown)?;
        Ok(())
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
        self.fold.take().map_or(Ok(()), FoldThread::finish)
    }

    fn journal(&self) -> JournalSize {
        JournalSize {
            n_records: self.chain.place().seq - self.trimmed_through,
            n_bytes_written: self.n_bytes_written,
        }
    }
}

fn journal_path(data: &Path) -> PathBuf {
    data.join("journal.db")
}

fn tables_path(data: &Path) -> PathBuf {
    data.join("tables.db")
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
