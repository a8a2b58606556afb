//! Backups of a running server, on a schedule or on request.
//!
//! They are stored in one configured directory, which no request can choose. The oldest backups are deleted.

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

use leasehold_dialects::backup::TakesBackups;
pub use leasehold_dialects::backup::{Error, Taken};
use leasehold_store::{self as store, sqlite};

/// Prefix of the names of backups. The time of the backup follows.
const PREFIX: &str = "leasehold-";
/// Maximum pause before a failed backup is retried.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Settings of backups.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory for backups. Each server needs a separate one.
    pub dir: PathBuf,
    /// The interval between backups; `None` takes them only on request.
    pub every: Option<Duration>,
    /// The number of backups to keep.
    pub n_keep: usize,
}

impl Options {
    /// Returns an error if the directory cannot be used. Creates nothing.
    pub(crate) fn check(&self) -> Result<(), String> {
        probe::folder(&self.dir)
    }
}

/// Takes the backups of one server.
pub struct Backups {
    data: PathBuf,
    options: Options,
    clock: Arc<dyn Clock>,
    /// The file system and inode of the directory, recorded at startup or when the directory first became usable.
    seen: OnceLock<(u64, u64)>,
    /// Locked while a backup is taken.
    turn: Mutex<()>,
    latest: Mutex<Latest>,
    n_failures: AtomicU64,
}

/// The age of the latest backup at a known time.
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
        // Without a backup, the age counts from the start of the server.
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
        // If the directory is unusable, each backup reports the reason.
        let _ = this.check_dir();
        this
    }

    /// The number of failed backups.
    pub(crate) fn n_failures(&self) -> u64 {
        self.n_failures.load(Relaxed)
    }

    /// Returns the age of the latest backup. Without one, returns how long this server has been running.
    pub fn age(&self) -> Duration {
        let latest = lock(&self.latest);
        latest.age + latest.at.elapsed()
    }

    /// Takes a backup and deletes the oldest ones. Blocks for as long as the disk needs.
    pub fn take(&self) -> Result<Taken, Error> {
        let _turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Error::Running),
        };
        let name = name(self.clock.wall_ms());
        let copied = self
            .check_dir()
            .and_then(|()| sqlite::backup_below(&self.data, &self.options.dir.join(&name)));
        let n_bytes = copied.map_err(|error| self.failed(error))?.n_bytes;
        *lock(&self.latest) = Latest { age: Duration::ZERO, at: Instant::now() };
        tracing::info!(name, n_bytes, "took a backup");
        if let Err(error) = self.prune() {
            tracing::warn!(%error, "cannot remove an old backup");
        }
        Ok(Taken { name, n_bytes })
    }

    /// Checks that the directory still exists and is still the same one. After its file system is unmounted, the empty
    /// mount point is left, and it is on another disk.
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

    /// Takes backups on schedule. Never returns.
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

    /// Waits until no backup is in progress.
    pub(crate) fn finish(&self) {
        drop(lock(&self.turn));
    }

    /// Deletes the oldest backups, and remains of interrupted ones.
    fn prune(&self) -> io::Result<()> {
        let (mut complete, interrupted): (Vec<_>, Vec<_>) =
            list(&self.options.dir)?.into_iter().partition(|path| sqlite::is_complete(path));
        complete.sort();
        let n_old = complete.len().saturating_sub(self.options.n_keep);
        complete[..n_old].iter().chain(&interrupted).try_for_each(fs::remove_dir_all)
    }
}

impl TakesBackups for Backups {
    fn take(&self) -> Result<Taken, Error> {
        Self::take(self)
    }

    fn age(&self) -> Duration {
        Self::age(self)
    }

    fn n_failures(&self) -> u64 {
        Self::n_failures(self)
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

/// Returns the file system and inode of a directory; `None` if it is not a directory.
fn identity(dir: &Path) -> io::Result<Option<(u64, u64)>> {
    if !dir.metadata()?.is_dir() {
        return Ok(None);
    }
    // Opening the directory triggers an automount.
    let found = fs::File::open(dir)?.metadata()?;
    Ok(Some((found.dev(), found.ino())))
}

/// Returns the paths of all backups in a directory, including incomplete ones.
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

/// Returns the age of the newest backup in a directory; `None` if it contains no backup.
pub fn newest(dir: &Path, wall_ms: i64) -> Option<Duration> {
    age_of_newest(list(dir).ok()?.into_iter(), wall_ms)
}

/// Returns the age of the newest backup below a directory, including backups that were copied there under other names.
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

/// Returns the name of a backup taken at this time. Names sort by time: `leasehold-20240115T103000.000Z`.
fn name(wall_ms: i64) -> String {
    let at = calendar::to_millis(wall_ms).replace(['-', ':'], "");
    format!("{PREFIX}{at}")
}

/// Returns the time in the name of a complete or incomplete backup; `None` if it is not such a name.
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
