//! Folding: applies the journal's changes to the tables.
//!
//! A chunk of records is folded in one transaction that also stores the position, so an interrupted fold is simply
//! repeated. The core itself computes each chunk: the affected rows are imported into a small machine, the changes are
//! applied, and the result is written back. A lease that starts and ends within one chunk is never written to the
//! tables.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use leasehold_base::clock::Clock;
use leasehold_base::complaint::Complaint;
use leasehold_base::sync::{lock, whole};
use leasehold_core::{Change, Incoherent, Limits, Machine, Row};
use rusqlite::{Connection, OpenFlags};

use super::digest::Digest;
use super::disk::{Disk, keep_log, may_be_full};
use super::touched::Touched;
use super::{Options, files_of, journal, journal_path, load, refused, room, rows, tables_path};
use crate::folder::Identity;
use crate::{Chain, Error, Health, Place, Record, history};

/// Large enough that most leases start and end within one chunk, small enough that no transaction takes long.
const CHANGES_PER_CHUNK: usize = 2000;
/// Maximum changes per chunk while disk space is low. Each change can touch a page of the tables, and the log of the
/// tables has space for only this many in addition to its usual size.
const CHANGES_PER_CHUNK_IF_LOW: usize = 400;
/// While disk space is low, the journal is folded at least this often, so that it stays short.
const HURRY: Duration = Duration::from_millis(250);
/// How often the thread checks between two folds whether disk space is low.
const LOW_CHECKED_EVERY: Duration = Duration::from_secs(1);
/// A pause between two chunks, so that commits can proceed.
const PAUSE: Duration = Duration::from_millis(2);

/// How far the journal has been appended and folded.
#[derive(Default)]
pub(super) struct Progress {
    folded_through: AtomicU64,
    appended_through: AtomicU64,
    /// An error message, if the files are not the ones that their paths lead to any more.
    lost: OnceLock<String>,
    ending: Mutex<Option<Ending>>,
    wake: Condvar,
}

/// How the thread ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// After a last fold.
    Folded,
    Now,
}

impl Progress {
    pub(super) fn start(&self, folded_through: u64, appended_through: u64) {
        self.folded_through.store(folded_through, Release);
        self.appended_through.store(appended_through, Release);
    }

    pub(super) fn folded_through(&self) -> u64 {
        self.folded_through.load(Acquire)
    }

    pub(super) fn appended(&self, seq: u64) {
        self.appended_through.fetch_max(seq, AcqRel);
    }

    pub(super) fn lost(&self) -> Option<String> {
        self.lost.get().cloned()
    }

    /// Waits for the next round, or until the thread is to end.
    fn wait(&self, interval: Duration) -> Option<Ending> {
        let ending = lock(&self.ending);
        let waited = self.wake.wait_timeout_while(ending, interval, |ending| ending.is_none());
        *whole(waited).0
    }

    fn is_to_end_now(&self) -> bool {
        *lock(&self.ending) == Some(Ending::Now)
    }

    fn end(&self, ending: Ending) {
        *lock(&self.ending) = Some(ending);
        self.wake.notify_all();
    }
}

/// The fold thread. Dropping this value waits for its end, because the files it has open must be closed by then.
pub(super) struct FoldThread {
    thread: Option<JoinHandle<Result<(), Error>>>,
    progress: Arc<Progress>,
}

impl FoldThread {
    pub(super) fn start(
        options: &Options,
        clock: Option<Arc<dyn Clock>>,
        folded: Folded,
        shared: Shared,
    ) -> Result<Self, Error> {
        let mut files = files_of(&journal_path(&options.data))?;
        files.extend(files_of(&tables_path(&options.data))?);
        let Shared { progress, health, disk } = shared;
        let work = Work {
            journal: journal_path(&options.data),
            tables: tables_path(&options.data),
            files,
            folded,
            interval: options.fold_interval,
            clock,
            progress: progress.clone(),
            health,
            disk,
            complaint: Complaint::default(),
            history_complaint: Complaint::default(),
        };
        let thread = std::thread::Builder::new().name("fold".into()).spawn(|| work.run());
        Ok(Self { thread: Some(thread.map_err(refused)?), progress })
    }

    /// Folds the rest of the journal and ends the thread.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.join(Ending::Folded)
    }

    fn join(&mut self, ending: Ending) -> Result<(), Error> {
        self.progress.end(ending);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(refused("the fold thread panicked")))
    }
}

impl Drop for FoldThread {
    fn drop(&mut self) {
        // No last fold was requested. The journal keeps the records that were not folded.
        let _ = self.join(Ending::Now);
    }
}

/// The state that the thread shares with the store.
pub(super) struct Shared {
    pub(super) progress: Arc<Progress>,
    pub(super) health: Arc<Health>,
    pub(super) disk: Arc<Disk>,
}

struct Work {
    journal: PathBuf,
    tables: PathBuf,
    /// The files of both databases.
    files: Vec<Identity>,
    folded: Folded,
    interval: Duration,
    /// The clock by which old history is deleted while nothing happens.
    clock: Option<Arc<dyn Clock>>,
    progress: Arc<Progress>,
    health: Arc<Health>,
    disk: Arc<Disk>,
    /// Limits the log lines about failed folds.
    complaint: Complaint,
    history_complaint: Complaint,
}

/// The targets of the fold.
pub(super) struct Folded {
    pub(super) tables: Connection,
    pub(super) history: history::Writer,
    /// The last folded record.
    pub(super) place: Place,
}

impl Work {
    fn run(mut self) -> Result<(), Error> {
        // Folding can wait, but commits cannot, so this thread has a low priority.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
        loop {
            let ending = self.wait();
            if ending == Some(Ending::Now) {
                return Ok(());
            }
            let result = self.fold_all(ending.is_some());
            self.health.fold_ended(result.as_ref().copied());
            match result {
                result if ending.is_some() => {
                    if self.disk.has_reserve() && self.disk.is_scarce() {
                        keep_log(&self.folded.tables).map_err(refused)?;
                    }
                    return result;
                }
                Err(error) => self.complaint.make(|n_before| {
                    tracing::error!(%error, n_before, "fold failed; the journal is kept");
                }),
                Ok(()) => self.forget_history(),
            }
        }
    }

    /// Waits for the next fold.
    fn wait(&self) -> Option<Ending> {
        let begun = Instant::now();
        loop {
            let is_low = self.health.disk().is_some_and(|disk| disk.is_low);
            let interval = if is_low { self.interval.min(HURRY) } else { self.interval };
            let left = interval.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return self.progress.wait(left);
            }
            if let Some(ending) = self.progress.wait(left.min(LOW_CHECKED_EVERY)) {
                return Some(ending);
            }
        }
    }

    /// Deletes old history. A failure does not stop the fold, like a failure to write history.
    fn forget_history(&mut self) {
        let Some(clock) = &self.clock else { return };
        if let Err(error) = self.folded.history.forget(clock.wall_ms()) {
            self.history_complaint.make(|n_before| {
                tracing::error!(%error, n_before, "cannot delete old history");
            });
        }
    }

    fn fold_all(&mut self, is_last: bool) -> Result<(), Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let journal = Connection::open_with_flags(&self.journal, flags).map_err(refused)?;
        let target = self.progress.appended_through.load(Acquire);
        while self.progress.folded_through() < target && !self.progress.is_to_end_now() {
            let is_low = self.disk.is_scarce();
            let n_changes_max = if is_low { CHANGES_PER_CHUNK_IF_LOW } else { CHANGES_PER_CHUNK };
            let chunk = read_chunk(&journal, self.folded.place, target, n_changes_max)?;
            self.check_files()?;
            let n_folded = self.fold(&chunk)?;
            self.check_files()?;
            let Some((place, _)) = chunk[..n_folded].last() else { break };
            let n_bytes = journal::n_bytes(&journal, self.folded.place.seq, place.seq)?;
            self.folded.place = *place;
            self.progress.folded_through.store(place.seq, Release);
            self.health.folded(n_bytes);
            self.keep_room();
            if !is_last {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Folds a chunk, from the reserve if the disk is full. If there is too little space for it, folds a part of it.
    /// Returns the number of folded records.
    fn fold(&mut self, chunk: &Chunk) -> Result<usize, Error> {
        let mut part = &chunk[..];
        loop {
            // History must not use up the reserve.
            self.folded.history.pause(self.disk.is_full());
            let error = match fold(&mut self.folded.tables, Some(&mut self.folded.history), part) {
                Ok(()) => return Ok(part.len()),
                Err(Failure::Other(error)) => return Err(error),
                Err(Failure::Sqlite(error)) => error,
            };
            if !may_be_full(&error) {
                return Err(super::trouble(&self.tables, error));
            }
            // If this succeeds, the log is written from its beginning again and needs no space.
            let _ = room::put_in_file(&self.folded.tables);
            if part.len() > CHANGES_PER_CHUNK_IF_LOW {
                part = &part[..part.len() / 2];
            } else if !self.disk.release_for_fold() {
                return Err(super::trouble(&self.tables, error));
            }
        }
    }

    /// Keeps free pages in the tables, so that the next folds need no disk space.
    fn keep_room(&self) {
        let tables = &self.folded.tables;
        room::keep_in_tables(tables, &self.disk);
        while self.disk.has_reserve() && room::is_beyond_file(tables) {
            match room::put_in_file(tables) {
                Err(error) if may_be_full(&error) && self.disk.release_for_fold() => {}
                _ => return,
            }
        }
    }

    /// Checks that the files are still the ones that their paths lead to. Only then are the records read ours and the
    /// tables found again, so that the journal may be trimmed.
    fn check_files(&self) -> Result<(), Error> {
        let Some(file) = self.files.iter().find(|file| !file.is_there()) else { return Ok(()) };
        let why = self.progress.lost.get_or_init(|| file.lost());
        Err(refused(why))
    }
}

type Chunk = Vec<(Place, Record)>;

fn read_chunk(
    journal: &Connection,
    after: Place,
    target: u64,
    n_changes_max: usize,
) -> Result<Chunk, Error> {
    let (mut chunk, mut n_changes) = (Vec::new(), 0);
    journal::read(journal, Chain::after(after), |place, record| {
        n_changes += record.changes.len() + 1;
        chunk.push((place, record));
        let is_enough = place.seq >= target || n_changes >= n_changes_max;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(chunk)
}

/// Why a chunk was not folded.
pub(super) enum Failure {
    /// A read or a write of the tables failed.
    Sqlite(rusqlite::Error),
    Other(Error),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Applies these records to the tables, after writing their history.
pub(super) fn fold(
    tables: &mut Connection,
    history: Option<&mut history::Writer>,
    chunk: &[(Place, Record)],
) -> Result<(), Failure> {
    let Some((folded, last)) = chunk.last() else { return Ok(()) };
    let changes = || chunk.iter().flat_map(|(_, record)| &record.changes);
    if changes().any(|change| matches!(change, Change::Restored { .. })) {
        return fold_whole(tables, history, chunk);
    }
    let (meta, digest) = (load::meta(tables)?, Digest::get(tables)?);
    let tx = tables.transaction()?;
    let before = Touched::read(&tx, changes())?;
    let mut block = history.as_ref().map(|history| history.begin());
    let machine = absorb(meta, before.rows.clone(), chunk, block.as_mut()).map_err(refused)?;
    add_history(history, block, *folded);
    write_back(&tx, digest, before, &machine.export(), *folded, last)?;
    Ok(tx.commit()?)
}

/// Folds a change that affects all rows.
fn fold_whole(
    tables: &mut Connection,
    history: Option<&mut history::Writer>,
    chunk: &[(Place, Record)],
) -> Result<(), Failure> {
    let Some((folded, last)) = chunk.last() else { return Ok(()) };
    let mut all = Vec::new();
    rows::for_each(tables, |row| {
        all.push(row);
        Ok::<_, rusqlite::Error>(())
    })?;
    let mut block = history.as_ref().map(|history| history.begin());
    let machine = absorb(load::meta(tables)?, all, chunk, block.as_mut()).map_err(refused)?;
    add_history(history, block, *folded);
    Ok(load::rewrite(tables, &machine, *folded, Some(last.moment), |_| Ok(()))?)
}

fn absorb(
    meta: Row,
    rows: Vec<Row>,
    chunk: &[(Place, Record)],
    mut history: Option<&mut history::Block>,
) -> Result<Machine, Incoherent> {
    let rows = std::iter::once(meta).chain(rows);
    let mut machine = Machine::import(Limits::default(), 0, rows)?;
    let mut facts = Vec::new();
    for (place, record) in chunk {
        machine.absorb_and_tell(record.moment.lock_time, &record.changes, &mut facts)?;
        for event in load::events(place.seq, record, facts.drain(..)) {
            if let Some(block) = &mut history {
                block.add(&event);
            }
        }
    }
    Ok(machine)
}

/// Adds a block to the history. If that fails, the history has a gap, and folding continues.
fn add_history(
    history: Option<&mut history::Writer>,
    block: Option<history::Block>,
    folded: Place,
) {
    let Some((history, block)) = history.zip(block) else { return };
    if let Err(error) = history.add_or_miss(block, folded.seq) {
        tracing::error!(%error, through = folded.seq, "cannot write history");
    }
}

fn write_back(
    tx: &Connection,
    digest: Digest,
    before: Touched,
    after: &[Row],
    folded: Place,
    last: &Record,
) -> rusqlite::Result<()> {
    let mut digest = digest;
    before.rows.iter().for_each(|row| digest.remove(row));
    let mut gone = before;
    for row in after {
        digest.add(row);
        match row {
            Row::Lock(record) => drop(gone.locks.remove(&record.lock)),
            Row::Session(record) => drop(gone.sessions.remove(&record.number)),
            Row::Lease(record) => {
                if gone.leases.remove(&record.number) {
                    rows::delete_requests(tx, record.number)?;
                }
            }
            Row::Namespace { name, .. } => drop(gone.namespaces.remove(name)),
            Row::Meta { .. } => {}
        }
        rows::put(tx, row)?;
    }
    gone.namespaces.iter().try_for_each(|name| rows::delete_namespace(tx, name))?;
    gone.locks.iter().try_for_each(|key| rows::delete_token(tx, key))?;
    gone.sessions.iter().try_for_each(|number| rows::delete_session(tx, *number))?;
    gone.leases.iter().try_for_each(|number| rows::delete_lease(tx, *number))?;
    digest.put(tx)?;
    load::put_meta(tx, &after[0], folded, Some(last.moment))
}
