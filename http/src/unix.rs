//! Unix sockets: created with the configured file mode, and removed at the end.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_base::probe;
use tokio::net::{UnixListener, UnixStream};

/// A process that neither accepts nor refuses a connection within this time counts as alive.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A Unix socket listener. Its file is removed when this is dropped.
pub(super) struct UnixSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// The device and inode of the socket file, to recognize it.
    file: (u64, u64),
}

impl UnixSocket {
    /// Listens at `path`. Replaces the socket of a server that no longer runs, but no other file.
    pub(super) async fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        if Self::check(path).await? {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        let file = identity(path)?;
        Ok(Self { listener, path: path.into(), file })
    }

    /// Returns whether `path` is a socket that a stopped server has left behind. Fails if the path cannot be used.
    pub(super) async fn check(path: &Path) -> io::Result<bool> {
        let is_left = is_stale(path).await?;
        probe::beside(path).map(|()| is_left)
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Another server might have taken over the path.
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let facts = fs::symlink_metadata(path)?;
    Ok((facts.dev(), facts.ino()))
}

async fn is_stale(path: &Path) -> io::Result<bool> {
    let facts = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        facts => facts?,
    };
    if !facts.file_type().is_socket() {
        let why = "a file that is not a socket exists there; it was not changed";
        return Err(io::Error::new(ErrorKind::AlreadyExists, why));
    }
    let in_use = || io::Error::new(ErrorKind::AddrInUse, "another server uses this socket");
    match tokio::time::timeout(ANSWER_WITHIN, UnixStream::connect(path)).await {
        Err(_) | Ok(Ok(_)) => Err(in_use()),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => Ok(true),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Ok(false),
        Ok(Err(error)) if error.kind() == ErrorKind::WouldBlock => Err(in_use()),
        Ok(Err(error)) => Err(error),
    }
}
