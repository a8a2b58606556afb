//! Limits the disk space that files use: together at most a quota, and never the last free part of the disk, which the
//! lock data needs.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use leasehold_base::sync::{lock, whole};

use super::Error;

/// Without a setting, the larger of this size and a twentieth of the disk stays free.
const FREE_MIN: u64 = 256 << 20;
const FREE_PART: u64 = 20;

/// Limits for the disk space that files use.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    /// Maximum size of all files, including uploads in progress.
    pub bytes_max: u64,
    /// Bytes of disk space that must stay free; `None` to derive the number from the size of the disk.
    pub free_min: Option<u64>,
}

/// The total and free bytes of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) total: u64,
    pub(crate) free: u64,
}

type Probe = Box<dyn Fn() -> io::Result<Space> + Send + Sync>;

/// Counts the disk space that files use. All uploads share one counter.
pub(crate) struct Room {
    quota: Quota,
    probe: Probe,
    used: Mutex<Used>,
    counted: Condvar,
}

#[derive(Default)]
struct Used {
    n_bytes: u64,
    /// `true` once the files that existed at startup are counted.
    is_counted: bool,
}

impl Room {
    /// Creates a counter. `probe` returns the space of the disk. The counter is unusable until [`Room::counted`] is
    /// called.
    pub(crate) fn new(
        quota: Quota,
        probe: impl Fn() -> io::Result<Space> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (used, counted) = (Mutex::default(), Condvar::new());
        Arc::new(Self { quota, probe: Box::new(probe), used, counted })
    }

    /// Adds the size of the files that existed at startup and wakes the waiting operations.
    pub(crate) fn counted(&self, n_bytes: u64) {
        let mut used = self.used();
        used.n_bytes += n_bytes;
        used.is_counted = true;
        self.counted.notify_all();
    }

    /// Returns the size of all files, as far as they are counted.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.used().n_bytes
    }

    /// Reserves `n_bytes`. Fails if the quota or the free disk space is too small.
    pub(crate) fn take(&self, n_bytes: u64) -> Result<(), Error> {
        self.check_disk(n_bytes)?;
        let mut used = self.wait_used();
        let allowed = self.quota.bytes_max;
        if used.n_bytes.saturating_add(n_bytes) > allowed {
            return Err(Error::OverQuota { used: used.n_bytes, allowed });
        }
        used.n_bytes += n_bytes;
        Ok(())
    }

    /// Waits until the files that existed at startup are counted. Until then no file can be added or removed.
    pub(crate) fn wait(&self) {
        drop(self.wait_used());
    }

    fn wait_used(&self) -> MutexGuard<'_, Used> {
        let used = self.counted.wait_while(self.used(), |used| !used.is_counted);
        whole(used)
    }

    /// Fails if `n_bytes` could not be reserved. Reserves nothing.
    pub(crate) fn check(&self, n_bytes: u64) -> Result<(), Error> {
        self.take(n_bytes)?;
        self.give_back(n_bytes);
        Ok(())
    }

    /// Releases `n_bytes` after a file was removed or a reservation ended.
    pub(crate) fn give_back(&self, n_bytes: u64) {
        let mut used = self.used();
        // If another process changed files, the count can be too low; it must not underflow.
        used.n_bytes = used.n_bytes.saturating_sub(n_bytes);
    }

    /// Checks that the disk keeps enough free space after `n_bytes` more.
    fn check_disk(&self, n_bytes: u64) -> Result<(), Error> {
        let Space { total, free } = (self.probe)()?;
        let min = self.quota.free_min.unwrap_or_else(|| FREE_MIN.max(total / FREE_PART));
        if free < n_bytes.saturating_add(min) {
            return Err(Error::DiskLow { free, min });
        }
        Ok(())
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        lock(&self.used)
    }
}

/// Disk space that is reserved for a draft. When it is dropped, the reservation ends.
pub(crate) struct Taken {
    room: Arc<Room>,
    n_bytes: u64,
}

impl Taken {
    pub(crate) fn none(room: Arc<Room>) -> Self {
        Self { room, n_bytes: 0 }
    }

    pub(crate) fn more(&mut self, n_bytes: u64) -> Result<(), Error> {
        self.room.take(n_bytes)?;
        self.n_bytes += n_bytes;
        Ok(())
    }

    /// Keeps the reserved bytes for good, because the draft is a file now. `n_bytes_before` is the size of the file it
    /// replaced.
    pub(crate) fn keep(&mut self, n_bytes_before: u64) {
        self.n_bytes = 0;
        self.room.give_back(n_bytes_before);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.give_back(self.n_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;

    fn room(bytes_max: u64, free_min: Option<u64>, total: u64, free: &Arc<AtomicU64>) -> Arc<Room> {
        let free = free.clone();
        let probe = move || Ok(Space { total, free: free.load(Relaxed) });
        let room = Room::new(Quota { bytes_max, free_min }, probe);
        room.counted(0);
        room
    }

    #[test]
    fn files_together_take_no_more_than_the_quota() {
        let free = Arc::new(AtomicU64::new(1 << 40));
        let room = room(100, Some(0), 1 << 40, &free);
        let mut one = Taken::none(room.clone());
        one.more(60).expect("room");
        let mut other = Taken::none(room.clone());
        let refused = other.more(41).expect_err("no room");
        assert!(matches!(refused, Error::OverQuota { used: 60, allowed: 100 }), "{refused:?}");
        other.more(40).expect("just enough");
        drop(other);
        assert_eq!(room.n_bytes(), 60, "a failed reservation is released");
        one.keep(0);
        drop(one);
        assert_eq!(room.n_bytes(), 60, "what became a file is not");
        let mut next = Taken::none(room.clone());
        next.more(10).expect("room");
        next.keep(60);
        drop(next);
        assert_eq!(room.n_bytes(), 10, "a file took the place of another");
    }

    #[test]
    fn the_last_of_the_disk_is_left_free() {
        let gib = 1 << 30;
        for (total, free_min, min) in [
            (1 << 30, None, 256 << 20),
            (100 * gib, None, 5 * gib),
            (100 * gib, Some(7), 7),
            (100 * gib, Some(0), 0),
        ] {
            let free = Arc::new(AtomicU64::new(min + 10));
            let room = room(u64::MAX, free_min, total, &free);
            room.take(10).expect("as much as may be taken");
            free.store(min + 9, Relaxed);
            let refused = room.take(10).expect_err("one byte too much");
            assert!(matches!(refused, Error::DiskLow { min: m, .. } if m == min), "{refused:?}");
        }
    }
}
