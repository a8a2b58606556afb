//! Changes `auth.toml` and `keys.toml`: one process at a time, and each file atomically.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// The default name of the key file, if the auth file does not name one.
pub(crate) const KEYS: &str = "keys.toml";

/// The auth file and the first of its key files. The lock prevents changes by other processes while this value exists.
pub(crate) struct Files {
    pub(crate) auth: PathBuf,
    pub(crate) keys: PathBuf,
    _lock: Option<File>,
}

impl Files {
    /// Waits until no other process changes the files.
    pub(crate) fn lock(auth: &Path) -> Result<Self, String> {
        let path = lock_file(auth);
        let mut options = OpenOptions::new();
        let lock = options.create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(|error| wrong(&path, &error))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| wrong(&path, &error.into()))?;
        Ok(Self { _lock: Some(lock), ..Self::open(auth)? })
    }

    /// Opens the files for reading, without the lock: each file is replaced as a whole, so it can be read at any time.
    pub(crate) fn open(auth: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(auth).map_err(|error| wrong(auth, &error))?;
        let table: toml::Table =
            text.parse().map_err(|error| format!("{}: {error}", auth.display()))?;
        let named =
            table.get("key-files").and_then(|files| files.get(0)).and_then(|name| name.as_str());
        let Some(named) = named else {
            return Err(format!("{}: names no key file: key-files = [\"{KEYS}\"]", auth.display()));
        };
        let keys = folder(auth).join(named);
        Ok(Self { auth: auth.into(), keys, _lock: None })
    }

    pub(crate) fn keys_text(&self) -> Result<String, String> {
        read(&self.keys)
    }

    pub(crate) fn auth_text(&self) -> Result<String, String> {
        read(&self.auth)
    }
}

/// Returns a separate lock file, which is never replaced: a lock on a replaced file would only protect the old file.
fn lock_file(auth: &Path) -> PathBuf {
    let mut name = auth.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    auth.with_file_name(name)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| wrong(path, &error))
}

/// Replaces the content of the file atomically and durably. Only its owner can read it.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let why = |error: std::io::Error| wrong(path, &error);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let unfinished = path.with_file_name(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)
        .map_err(why)?;
    file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(why)?;
    file.write_all(text.as_bytes()).map_err(why)?;
    file.sync_all().map_err(why)?;
    fs::rename(&unfinished, path).map_err(why)?;
    File::open(folder(path)).and_then(|folder| folder.sync_all()).map_err(why)
}

pub(crate) fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn wrong(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
