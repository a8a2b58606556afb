//! Watches the free space of the disk the store is on. Below a minimum the engine refuses acquires; when a write that
//! must not fail finds the disk full, a piece of the reserve is released and the write is repeated.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_base::sync::{lock, whole};
use rusqlite::config::DbConfig;
use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
use rusqlite::{Connection, ErrorCode};

use super::{JOURNAL, beside, refused};
use crate::folder::{self, Reserve};
use crate::{DiskSpace, Error, Health};

/// Space that a start needs before it can release more itself: the indexes of three logs, and a few pages.
const START_BYTES: u64 = 256 << 10;
/// The size of a released piece: enough for many records, but small, because another program might take the rest of it.
const PIECE: u64 = 1 << 20;
/// Space for a write-ahead log. SQLite starts it from its beginning again after 4 MiB, or a little later while it is
/// read or a fold is written to it. Its blocks are allocated at the start, so that no other program can take them.
const LOG_BYTES: u64 = 6 << 20;
/// Acquires are granted again once this fraction above the minimum is free, so that the state does not flap.
const MARGIN: u64 = 16;

/// How the disk is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Bytes set aside for renewals, releases and expiries on a full disk; 0: none.
    pub reserve: u64,
    /// While fewer bytes are free, acquires are refused; 0: never.
    pub free_min: u64,
    /// How often the free space is checked.
    pub look_every: Duration,
}

impl Default for Space {
    fn default() -> Self {
        Self { reserve: 32 << 20, free_min: 64 << 20, look_every: Duration::from_secs(1) }
    }
}

impl Space {
    /// Creates a configuration in which no space is reserved and acquires are never refused.
    pub fn unwatched() -> Self {
        Self { reserve: 0, free_min: 0, ..Self::default() }
    }

    /// How many bytes must be free for acquires: the minimum, and what the tables grow by when the journal is folded.
    fn enough(&self, n_unfolded: u64, was_low: bool) -> u64 {
        let margin = if was_low { self.free_min / MARGIN } else { 0 };
        match self.free_min {
            0 => 0,
            free_min => free_min.saturating_add(margin).saturating_add(n_unfolded),
        }
    }

    /// Decides from the free space and the size of the reserve.
    fn judge(&self, free: u64, reserve: u64, enough: u64) -> SpaceVerdict {
        let missing = self.reserve.saturating_sub(reserve);
        SpaceVerdict {
            is_low: free < enough || missing > 0,
            can_grow: missing > 0 && free >= enough.saturating_add(missing),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SpaceVerdict {
    is_low: bool,
    /// There is space for the rest of the reserve.
    can_grow: bool,
}

/// The disk of a data directory.
pub(super) struct Disk {
    data: PathBuf,
    space: Space,
    health: Arc<Health>,
    state: Mutex<DiskState>,
}

struct DiskState {
    reserve: Reserve,
    is_low: bool,
    /// Why the reserve cannot be made although there is space.
    unreservable: Option<String>,
}

impl Disk {
    /// Takes over the reserve of an earlier process. Needs no disk space.
    pub(super) fn open(data: &Path, space: Space, health: Arc<Health>) -> Result<Self, Error> {
        let reserve = Reserve::find(data)?;
        let state = Mutex::new(DiskState { reserve, is_low: false, unreservable: None });
        Ok(Self { data: data.into(), space, health, state })
    }

    /// Releases space for a start on a full disk, as far as the reserve goes.
    pub(super) fn prepare(&self) {
        if self.free().is_some_and(|free| free < START_BYTES) {
            self.release_bytes(START_BYTES);
        }
    }

    /// Writes a database's log into the database. On a full disk the log keeps its blocks, and the reserve provides the
    /// space by which the database grows.
    pub(super) fn checkpoint(&self, db: &Connection) -> rusqlite::Result<()> {
        let mode = if self.is_scarce() { "RESTART" } else { "TRUNCATE" };
        let checkpoint = format!("PRAGMA wal_checkpoint({mode})");
        loop {
            match db.query_row(&checkpoint, [], |_| Ok(())) {
                Err(error) if may_be_full(&error) && self.release() => {}
                result => return result,
            }
        }
    }

    /// Returns whether there is so little space that the server must keep all its blocks.
    pub(super) fn is_scarce(&self) -> bool {
        let reserve = lock(&self.state).reserve.n_bytes();
        let free = self.free().unwrap_or(u64::MAX);
        self.space.judge(free, reserve, self.space.free_min).is_low
    }

    /// Returns the size of the whole reserve.
    pub(super) fn reserve_wanted(&self) -> u64 {
        self.space.reserve
    }

    /// Returns whether a database can grow by this much, and disk space is still not low afterwards.
    pub(super) fn has_space_for(&self, n_bytes: u64) -> bool {
        let reserve = lock(&self.state).reserve.n_bytes();
        let enough = self.space.enough(self.health.n_bytes(), true).saturating_add(n_bytes);
        !self.space.judge(self.free().unwrap_or(0), reserve, enough).is_low
    }

    /// Returns whether writes that can be omitted must be omitted.
    pub(super) fn is_full(&self) -> bool {
        self.health.disk().is_some_and(|disk| disk.is_tapped())
            || self.has_reserve() && self.free().is_some_and(|free| free < PIECE)
    }

    /// Repeats a step of a start that found the disk full, because another program might take the space that was
    /// released for it.
    pub(super) fn start<T>(&self, step: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        loop {
            match step() {
                Err(error) if folder::is_no_room(&error) && self.release_half(START_BYTES) => {}
                result => return result,
            }
        }
    }

    /// Allocates all blocks of a database's log, from the reserve if the disk is full.
    pub(super) fn claim(&self, database: &Path) {
        let log = beside(database, "-wal");
        while let Err(error) = folder::preallocate(&log, LOG_BYTES) {
            if !folder::is_no_space(&error) || !self.release_bytes(LOG_BYTES) {
                tracing::debug!(log = %log.display(), %error, "cannot allocate blocks in advance");
                return;
            }
        }
    }

    /// Whether space is set aside at all.
    pub(super) fn has_reserve(&self) -> bool {
        self.reserve_wanted() > 0
    }

    /// Releases a piece of the reserve for a write that found the disk full; `false` if the reserve is used up.
    pub(super) fn release(&self) -> bool {
        self.release_bytes(PIECE)
    }

    /// Releases a piece of the reserve for a fold. A fold can wait, so half of the reserve is kept for the journal and
    /// for the next start.
    pub(super) fn release_for_fold(&self) -> bool {
        self.release_half(PIECE)
    }

    /// Releases this much unless half of the reserve is used.
    fn release_half(&self, n_bytes: u64) -> bool {
        let is_left = lock(&self.state).reserve.n_bytes() > self.space.reserve / 2;
        is_left && self.release_bytes(n_bytes)
    }

    fn release_bytes(&self, n_bytes: u64) -> bool {
        let mut state = lock(&self.state);
        let is_first = state.reserve.n_bytes() >= self.space.reserve;
        let path = self.data.display();
        match state.reserve.shrink(n_bytes) {
            Ok(false) => return false,
            Ok(true) if is_first => tracing::warn!(
                %path,
                reserve = state.reserve.n_bytes(),
                "the disk is full: the server uses its reserve (disk-reserve) for renewals, releases and expiries"
            ),
            Ok(true) => {}
            Err(error) => {
                tracing::error!(%path, %error, "cannot release the disk reserve");
                return false;
            }
        }
        let free = self.free().unwrap_or(0);
        self.conclude(&mut state, free);
        true
    }

    /// Sets the reserve aside if there is space for it, and decides whether acquires are refused.
    pub(super) fn look(&self) {
        let Some(mut free) = self.free() else { return };
        let mut state = lock(&self.state);
        let reserve = state.reserve.n_bytes();
        if reserve > self.space.reserve {
            self.give_up_surplus(&mut state);
        } else if self.space.judge(free, reserve, self.enough(&state)).can_grow {
            self.set_aside(&mut state);
            free = self.free().unwrap_or(free);
        }
        self.conclude(&mut state, free);
    }

    fn give_up_surplus(&self, state: &mut DiskState) {
        let shrunk = match self.space.reserve {
            0 => state.reserve.remove(),
            wanted => state.reserve.shrink_to(wanted).map(drop),
        };
        if let Err(error) = shrunk {
            tracing::warn!(path = %self.data.display(), %error, "cannot shrink the disk reserve");
        }
    }

    fn set_aside(&self, state: &mut DiskState) {
        let Err(error) = state.reserve.grow(self.space.reserve) else {
            state.unreservable = None;
            return;
        };
        if folder::is_no_space(&error) {
            return;
        }
        // Logged once: the cause, such as a file size limit, usually lasts.
        let why = error.to_string();
        if state.unreservable.as_ref() != Some(&why) {
            let path = self.data.display();
            tracing::warn!(%path, %why, "cannot reserve disk space (disk-reserve)");
            state.unreservable = Some(why);
        }
    }

    /// Publishes the free space, and whether acquires are refused from now on.
    fn conclude(&self, state: &mut DiskState, free: u64) {
        let Space { reserve: wanted, free_min, .. } = self.space;
        let reserve = state.reserve.n_bytes();
        let wanted = if state.unreservable.is_some() { reserve } else { wanted };
        let space = Space { reserve: wanted, ..self.space };
        let needed = self.enough(state);
        let is_low = space.judge(free, reserve, needed).is_low;
        let path = self.data.display();
        match (state.is_low, is_low) {
            (false, true) => tracing::error!(
                %path,
                free,
                free_min,
                needed,
                reserve,
                "disk space is low: acquires are refused; renewals, releases and expiries continue. Free some space \
                 on this file system (disk-free-min, disk-reserve)"
            ),
            (true, false) => {
                tracing::info!(%path, free, reserve, "disk space is sufficient: acquires are granted again");
            }
            _ => {}
        }
        state.is_low = is_low;
        let needed = self.enough(state);
        let found = DiskSpace { free, needed, reserve, reserve_wanted: wanted, is_low };
        self.health.found_disk(found);
    }

    fn enough(&self, state: &DiskState) -> u64 {
        self.space.enough(self.health.n_bytes(), state.is_low)
    }

    fn free(&self) -> Option<u64> {
        folder::free(&self.data).ok()
    }

    /// The error with which the server stops when disk and reserve are used up.
    pub(super) fn exhausted(&self, error: &rusqlite::Error) -> Error {
        let path = self.data.join(JOURNAL);
        let reserve = match self.space.reserve {
            0 => "no disk space is reserved (disk-reserve)",
            _ => "the reserve (disk-reserve) is used up",
        };
        Error::Unknown(format!("{}. {reserve}", folder::no_room(&path, error)))
    }
}

/// Did a write fail because the disk is full, or might it have? SQLite has a code for a full disk, but does not use it
/// for quotas or for the index of a log.
pub(super) fn may_be_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map_or(0, |error| error.extended_code);
    is_full(error) || [SQLITE_IOERR_WRITE, SQLITE_IOERR_SHMSIZE].contains(&code)
}

/// Did a write fail because the disk is full?
pub(super) fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Rolls back the transaction of a failed write, if it is still open.
pub(super) fn roll_back(db: &Connection) -> rusqlite::Result<()> {
    if db.is_autocommit() { Ok(()) } else { db.execute_batch("ROLLBACK") }
}

/// Keeps the log and its blocks when this connection is closed.
pub(super) fn keep_log(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map(drop)
}

/// The thread that checks the disk. Dropping this ends the thread.
pub(super) struct DiskWatch {
    thread: Option<JoinHandle<()>>,
    shared: Arc<WatchEnd>,
}

#[derive(Default)]
struct WatchEnd {
    is_over: Mutex<bool>,
    wake: Condvar,
}

impl DiskWatch {
    /// Checks the disk once before it returns, and then regularly.
    pub(super) fn start(disk: Arc<Disk>) -> Result<Self, Error> {
        disk.look();
        let shared = Arc::new(WatchEnd::default());
        let ending = shared.clone();
        let work = move || {
            loop {
                let is_over = lock(&ending.is_over);
                let every = disk.space.look_every;
                let waited = ending.wake.wait_timeout_while(is_over, every, |is_over| !*is_over);
                if *whole(waited).0 {
                    return;
                }
                disk.look();
            }
        };
        let thread = std::thread::Builder::new().name("disk".into()).spawn(work);
        Ok(Self { thread: Some(thread.map_err(refused)?), shared })
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        *lock(&self.shared.is_over) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn judge(free: u64, reserve: u64, was_low: bool) -> (bool, bool) {
        let space = Space::default();
        let verdict = space.judge(free * MIB, reserve * MIB, space.enough(0, was_low));
        (verdict.is_low, verdict.can_grow)
    }

    #[test]
    fn acquires_are_refused_below_the_minimum_or_without_the_whole_reserve() {
        assert_eq!(judge(64, 32, false), (false, false));
        assert_eq!(judge(63, 32, false), (true, false));
        assert_eq!(judge(1000, 31, false), (true, true), "until the rest is set aside");
        assert_eq!(judge(95, 0, false), (true, false), "the minimum stays free");
        assert_eq!(judge(96, 0, false), (true, true));
    }

    #[test]
    fn acquires_are_granted_again_only_with_a_margin() {
        assert_eq!(judge(67, 32, true), (true, false));
        assert_eq!(judge(68, 32, true), (false, false));
        assert_eq!((judge(99, 0, true), judge(100, 0, true)), ((true, false), (true, true)));
        let unwatched = Space::unwatched();
        let unwatched = unwatched.judge(0, 0, unwatched.enough(9 * MIB, true));
        assert_eq!(unwatched, SpaceVerdict { is_low: false, can_grow: false });
    }

    #[test]
    fn a_journal_that_is_not_folded_yet_needs_free_space_too() {
        let space = Space::default();
        assert_eq!(space.enough(155 * MIB, false), (64 + 155) * MIB);
        assert!(space.judge(218 * MIB, 32 * MIB, space.enough(155 * MIB, false)).is_low);
    }

    #[test]
    fn a_fold_leaves_half_of_the_reserve_to_the_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let space = Space { reserve: 4 * MIB, free_min: 1, ..Space::default() };
        let disk = Disk::open(folder.path(), space, Arc::default()).expect("a disk");
        disk.look();
        assert!(disk.release_for_fold() && disk.release_for_fold());
        assert!(!disk.release_for_fold(), "the rest is for the journal");
        assert!(disk.release() && disk.release() && !disk.release());
    }

    #[test]
    fn a_reserve_is_made_used_and_made_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let health = Arc::new(Health::default());
        let space = Space { reserve: 3 * MIB, free_min: 1, ..Space::default() };
        let open = |space| Disk::open(folder.path(), space, health.clone()).expect("a disk");
        let disk = open(space);
        disk.look();
        let found = health.disk().expect("looked at");
        assert_eq!((found.reserve, found.is_low), (3 * MIB, false));
        assert!(disk.release());
        let found = health.disk().expect("looked at");
        assert!(found.is_tapped() && health.is_short(), "{found:?}");
        let why = health.trouble().expect("low");
        assert!(why.contains("2097152 of 3145728 bytes left in the reserve"), "{why}");
        assert!(disk.release() && disk.release());
        assert!(!disk.release(), "it is used up");
        let error = rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL),
            None,
        );
        assert!(may_be_full(&error));
        let why = disk.exhausted(&error).to_string();
        assert!(why.contains(JOURNAL) && why.contains("Free some space"), "{why}");
        disk.look();
        assert!(!health.is_short() && health.trouble().is_none());
        drop(disk);
        open(Space { reserve: MIB, ..space }).look();
        assert_eq!(health.disk().expect("looked at").reserve, MIB, "a smaller setting");
        open(Space { reserve: 0, ..space }).look();
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
