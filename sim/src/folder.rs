//! The data directory of a simulated node.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A data directory that is deleted when this value is dropped. It is kept in memory if possible, because it is written
/// often.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> Self {
        static N: AtomicU64 = AtomicU64::new(0);
        let shm = Path::new("/dev/shm");
        let temp = if shm.is_dir() { shm.into() } else { std::env::temp_dir() };
        let (pid, n) = (std::process::id(), N.fetch_add(1, Relaxed));
        let folder = Self { path: temp.join(format!("leasehold-sim-{pid}-{n}")) };
        folder.wipe();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a copy of the directory, as on a cloned machine.
    pub(crate) fn copied(&self) -> Self {
        let copy = Self::new();
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let to = copy.path.join(entry.file_name());
            std::fs::copy(entry.path(), to).expect("a copy");
        }
        copy
    }

    /// Returns how far the journal goes according to the node's memory.
    pub(crate) fn remembers(&self) -> Option<u64> {
        let text = std::fs::read(self.path.join("node.json")).ok()?;
        let noted: serde_json::Value = serde_json::from_slice(&text).ok()?;
        noted["seq"].as_u64()
    }

    /// Deletes the contents.
    pub(crate) fn wipe(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
        std::fs::create_dir_all(&self.path).expect("a folder");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
