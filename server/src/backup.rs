//! Backups of a server at work: on a schedule, or because somebody asks for one.
//!
//! They all go below one folder, which no request can choose. The oldest are removed.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use leasehold_base::calendar;
use leasehold_base::clock::Clock;
use leasehold_base::probe;
use leasehold_base::sync::lock;

use leasehold_auth::governed;
use leasehold_store::{self as store, sqlite};

/// How the name of a backup begins. What comes then is when it was taken.
const PREFIX: &str = "leasehold-";
/// A backup that failed is tried again after this time at most.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Where backups go and how many.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder they go to. Each server needs one of its own.
    pub dir: PathBuf,
    /// How often one is taken; `None`: only when somebody asks.
    pub every: Option<Duration>,
    /// How many are kept.
    pub n_keep: usize,
}

impl Options {
    /// Says why no backup could be put into the folder. Nothing is made.
    pub(crate) fn check(&self) -> Result<(), String> {
        probe::folder(&self.dir)
    }
}

/// A backup that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its name in the folder of backups.
    pub name: String,
    /// How large it is.
    pub n_bytes: u64,
}

/// A backup is asked for by somebody.
pub(crate) struct TakeBackup;

governed! {
    TakeBackup: |_asked, caller| caller.check_admin();
}

/// Why there is none.
#[derive(Debug)]
pub enum Error {
    /// Another one is being taken.
    Running,
    /// It could not be made.
    Failed(store::Error),
}

/// The backups of one server.
pub struct Backups {
    data: PathBuf,
    options: Options,
    clock: Arc<dyn Clock>,
    /// The folder as it was at the start, or when it first could be used: its file system and its number there.
    seen: OnceLock<(u64, u64)>,
    /// Taken by whoever takes one.
    turn: Mutex<()>,
    latest: Mutex<Latest>,
    n_failures: AtomicU64,
}

/// How old the latest one was at some moment.
struct Latest {
    age: Duration,
    at: Instant,
}

impl Backups {
    /// Finds the backups of earlier servers. Only this creates the folder: if the folder vanishes later, it was
    /// unmounted or deleted, and a new folder in its place would only look like a backup.
    pub fn new(data: PathBuf, options: Options, clock: Arc<dyn Clock>) -> Self {
        let dir = options.dir.display();
        match ensure(&options.dir) {
            Ok(true) => tracing::warn!(
                %dir,
                "created the missing backup directory; if a file system belongs there, mount it and restart"
            ),
            Ok(false) => {}
            Err(error) => tracing::error!(%dir, %error, "cannot use the backup directory"),
        }
        // While there is none, its age is that of the server.
        let age = newest(&options.dir, clock.wall_ms()).unwrap_or_default();
        let latest = Mutex::new(Latest { age, at: Instant::now() });
        let n_failures = AtomicU64::new(0);
        let this = Self {
            data,
            options,
            clock,
            seen: OnceLock::new(),
            turn: Mutex::default(),
            latest,
            n_failures,
        };
        // If it cannot be used, every backup says why.
        let _ = this.check_dir();
        this
    }

    /// The number of failed backups.
    pub(crate) fn n_failures(&self) -> u64 {
        self.n_failures.load(Relaxed)
    }

    /// How old the latest one is; if there is none, for how long there could have been.
    pub fn age(&self) -> Duration {
        let latest = lock(&self.latest);
        latest.age + latest.at.elapsed()
    }

    /// Takes one, and removes those that are too many. Takes as long as the disk does.
    pub fn take(&self) -> Result<Taken, Error> {
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Error::Running),
        };
        let name = name(self.clock.wall_ms());
        let copied = self
            .check_dir()
            .and_then(|()| sqlite::backup(&self.data, &self.options.dir.join(&name)));
        let n_bytes = copied.map_err(|error| self.failed(error))?.n_bytes;
        *lock(&self.latest) = Latest { age: Duration::ZERO, at: Instant::now() };
        tracing::info!(name, n_bytes, "took a backup");
        if let Err(error) = self.prune() {
            tracing::warn!(%error, "cannot remove an old backup");
        }
        Ok(Taken { name, n_bytes })
    }

    /// Checks that the folder still exists, and that it is still the same: where a file system is unmounted, the folder
    /// it was mounted on is left, and is on another disk.
    fn check_dir(&self) -> Result<(), store::Error> {
        let dir = self.options.dir.display();
        let refused = |why: String| Err(store::Error::Refused(why));
        match identity(&self.options.dir) {
            Ok(Some(found)) if *self.seen.get_or_init(|| found) == found => Ok(()),
            Ok(Some(_)) => refused(format!(
                "the backup directory {dir} was replaced or its file system was unmounted since the server started; \
                 mount it again, or restart the server if this is intended (backup-dir)"
            )),
            Ok(None) => refused(format!("{dir} is a file, not a directory")),
            Err(error) => refused(format!(
                "the backup directory {dir} is missing: {error}; mount or create it (backup-dir)"
            )),
        }
    }

    fn failed(&self, error: store::Error) -> Error {
        self.n_failures.fetch_add(1, Relaxed);
        Error::Failed(error)
    }

    /// Takes one whenever it is time, for ever.
    pub(crate) async fn keep_up(self: Arc<Self>, every: Duration) {
        let mut wait = every.saturating_sub(self.age());
        loop {
            tokio::time::sleep(wait).await;
            let this = self.clone();
            wait = match tokio::task::spawn_blocking(move || this.take()).await {
                Ok(Ok(_)) => every,
                Ok(Err(Error::Running)) | Err(_) => every.min(RETRY_MAX),
                Ok(Err(Error::Failed(error))) => {
                    tracing::error!(%error, "backup failed");
                    every.min(RETRY_MAX)
                }
            };
        }
    }

    /// Returns when none is being taken.
    pub(crate) fn finish(&self) {
        drop(lock(&self.turn));
    }

    /// Removes what is too old, and what was interrupted.
    fn prune(&self) -> io::Result<()> {
        let (mut complete, interrupted): (Vec<_>, Vec<_>) =
            list(&self.options.dir)?.into_iter().partition(|path| sqlite::is_complete(path));
        complete.sort();
        let n_old = complete.len().saturating_sub(self.options.n_keep);
        complete[..n_old].iter().chain(&interrupted).try_for_each(fs::remove_dir_all)
    }
}

/// Creates the folder if it is missing. Returns whether it did.
fn ensure(dir: &Path) -> io::Result<bool> {
    if dir.is_dir() {
        return Ok(false);
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    Ok(true)
}

/// The file system of a folder and its number there; `None` if it is not a folder.
fn identity(dir: &Path) -> io::Result<Option<(u64, u64)>> {
    if !dir.metadata()?.is_dir() {
        return Ok(None);
    }
    // Opening it has the system mount what is mounted on demand.
    let found = fs::File::open(dir)?.metadata()?;
    Ok(Some((found.dev(), found.ino())))
}

/// Everything of ours in a folder.
fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_str().is_some_and(|name| taken_at(name).is_some());
        if is_ours && entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// How old the newest backup in a folder is; `None`: there is none.
pub fn newest(dir: &Path, wall_ms: i64) -> Option<Duration> {
    age_of_newest(list(dir).ok()?.into_iter(), wall_ms)
}

/// The same of every backup below a folder, also of those that were put there by hand under other names.
pub fn newest_of_any(dir: &Path, wall_ms: i64) -> Option<Duration> {
    let all = fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    age_of_newest(all, wall_ms)
}

fn age_of_newest(all: impl Iterator<Item = PathBuf>, wall_ms: i64) -> Option<Duration> {
    let complete = all.filter(|path| sqlite::is_complete(path));
    let newest = complete.filter_map(|path| path.metadata().ok()?.modified().ok()).max()?;
    let since_epoch = newest.duration_since(std::time::UNIX_EPOCH).ok()?;
    let age_ms = wall_ms.saturating_sub(i64::try_from(since_epoch.as_millis()).ok()?);
    Some(Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)))
}

/// Names are in the order in which they were taken: `leasehold-20240115T103000.000Z`.
fn name(wall_ms: i64) -> String {
    let at = calendar::to_millis(wall_ms).replace(['-', ':'], "");
    format!("{PREFIX}{at}")
}

/// The time in a name of ours, also of one that is not complete.
fn taken_at(name: &str) -> Option<&str> {
    let at = name.strip_prefix(PREFIX)?;
    let at = at.strip_suffix(".incomplete").unwrap_or(at);
    let is_like = |c: char| c.is_ascii_digit() || matches!(c, 'T' | '.' | 'Z');
    (at.len() == "20240115T103000.000Z".len() && at.chars().all(is_like)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_base::clock::FakeClock;

    #[test]
    fn another_folder_in_place_of_the_one_at_the_start_gets_no_backup() {
        let folder = tempfile::tempdir().expect("a folder");
        let [dir, aside] = ["backups", "aside"].map(|name| folder.path().join(name));
        let options = Options { dir: dir.clone(), every: None, n_keep: 1 };
        let data = folder.path().join("data");
        let backups = Backups::new(data, options, Arc::new(FakeClock::default()));
        let refused = || match backups.take() {
            Err(Error::Failed(error)) => error.to_string(),
            other => panic!("there is nothing to back up: {other:?}"),
        };
        assert!(!refused().contains("the backup directory"), "{}", refused());
        fs::rename(&dir, &aside).expect("moved");
        assert!(refused().contains("is missing"), "{}", refused());
        fs::create_dir(&dir).expect("made");
        assert!(
            refused().contains("was replaced or its file system was unmounted"),
            "{}",
            refused()
        );
        assert_eq!(fs::read_dir(&dir).expect("a folder").count(), 0);
        fs::remove_dir(&dir).expect("empty");
        fs::rename(&aside, &dir).expect("moved back");
        assert!(!refused().contains("the backup directory"), "{}", refused());
    }

    #[test]
    fn names_tell_when_and_nothing_else_is_taken_for_one() {
        let at = name(1_705_314_600_123);
        assert_eq!(at, "leasehold-20240115T103000.123Z");
        assert!(name(1_705_314_600_124) > at);
        assert!(taken_at(&at).is_some());
        assert!(taken_at("leasehold-20240115T103000.123Z.incomplete").is_some());
        for other in ["leasehold-data", "monday", "leasehold-", "leasehold-20240115T103000.123Y"] {
            assert!(taken_at(other).is_none(), "{other}");
        }
    }
}
