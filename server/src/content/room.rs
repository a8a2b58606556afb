//! How much room files may take: all together no more than a quota, and never the last of the disk, which belongs to
//! whoever keeps the locks.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::Error;
use crate::sync::{lock, whole};

/// Of a disk this much is left free unless a setting says otherwise, or a twentieth of it if that is more.
const FREE_MIN: u64 = 256 << 20;
const FREE_PART: u64 = 20;

/// What files may take up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    /// Bytes of all files together, those that are being written included.
    pub(crate) bytes_max: u64,
    /// Bytes of the disk that uploads leave free; `None`: as much as is sensible for the disk.
    pub(crate) free_min: Option<u64>,
}

/// What is known of a disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) total: u64,
    pub(crate) free: u64,
}

type Probe = Box<dyn Fn() -> io::Result<Space> + Send + Sync>;

/// Counts what files take up. Shared by all that are being written.
pub(crate) struct Room {
    quota: Quota,
    probe: Probe,
    used: Mutex<Used>,
    counted: Condvar,
}

#[derive(Default)]
struct Used {
    n_bytes: u64,
    /// What was there at the start is in it.
    is_counted: bool,
}

impl Room {
    /// Nothing is counted yet; `probe` looks at the disk.
    pub(crate) fn new(
        quota: Quota,
        probe: impl Fn() -> io::Result<Space> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (used, counted) = (Mutex::default(), Condvar::new());
        Arc::new(Self { quota, probe: Box::new(probe), used, counted })
    }

    /// What was there at the start takes up this much.
    pub(crate) fn counted(&self, n_bytes: u64) {
        let mut used = self.used();
        used.n_bytes += n_bytes;
        used.is_counted = true;
        self.counted.notify_all();
    }

    /// What all files take up, as far as they are counted.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.used().n_bytes
    }

    /// Takes room for `n_bytes` more, or says why there is none.
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

    /// Waits until what was there at the start is counted: before that nothing may come or go.
    pub(crate) fn wait(&self) {
        drop(self.wait_used());
    }

    fn wait_used(&self) -> MutexGuard<'_, Used> {
        let used = self.counted.wait_while(self.used(), |used| !used.is_counted);
        whole(used)
    }

    /// Says why there would be no room for `n_bytes` more, without taking it.
    pub(crate) fn check(&self, n_bytes: u64) -> Result<(), Error> {
        self.take(n_bytes)?;
        self.give_back(n_bytes);
        Ok(())
    }

    /// Something that took up this much is gone.
    pub(crate) fn give_back(&self, n_bytes: u64) {
        let mut used = self.used();
        // Whoever changed files behind the server's back made the count wrong, not us.
        used.n_bytes = used.n_bytes.saturating_sub(n_bytes);
    }

    /// Would the disk still have what must be left of it?
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

/// Room that was taken for bytes that are no file yet. Dropped, it is given back.
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

    /// The bytes are a file now, in place of one that took up `n_bytes_before`.
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
        assert_eq!(room.n_bytes(), 60, "what came to nothing is given back");
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
