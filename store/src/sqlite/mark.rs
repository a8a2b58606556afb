//! The mark: a file with the position of the last acknowledged record, written after each commit and before any
//! response.
//!
//! SQLite treats a log with a damaged end as a shorter log. The mark reveals the missing records. It is exact after a
//! crash of the process. It is synced only from time to time, so after a power failure it can be a second old, but it
//! is never ahead of the durable journal. Two slots in two blocks are written alternately, so that one of them is
//! always intact.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_base::sync::{lock, whole};
use leasehold_core::{Machine, Row};

use super::refused;
use crate::codec::{Damaged, Reader};
use crate::{Error, Hash, Place};

pub(super) const MARK: &str = "mark";

const MAGIC: [u8; 8] = *b"LEASMRK1";
const SLOTS: u64 = 2;
/// The distance between the slots, so that one broken block does not damage both.
const BLOCK_BYTES: u64 = 4096;
const SLOT_BYTES: usize = 8 + 16 + 8 + 8 + Hash::BYTES + 3 * 8 + 4;
/// The interval between syncs, and so the maximum age of the mark after a power failure.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The contents of the mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Marked {
    /// The store that the mark belongs to.
    pub(super) store_id: [u8; 16],
    /// See [`crate::Loaded::generation`].
    pub(super) generation: u64,
    /// The last acknowledged record.
    pub(super) place: Place,
    /// The lowest unused numbers at the last start, for a recovery that finds nothing but the mark.
    pub(super) unused: Unused,
}

/// The lowest numbers that were not issued yet at some time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Unused {
    /// A token above those of every unknown namespace.
    pub(super) floor: u64,
    pub(super) lease: u64,
    pub(super) session: u64,
}

impl Unused {
    pub(super) fn of(machine: &Machine) -> Self {
        match machine.export_meta() {
            Row::Meta { next_lease, next_session, floor, .. } => {
                Self { floor: floor.get(), lease: next_lease.0, session: next_session.0 }
            }
            _ => Self::default(),
        }
    }
}

/// The state of the file.
#[derive(Clone, Copy)]
pub(super) enum Found {
    Missing,
    Damaged,
    Sound(Marked),
}

/// Reads the mark of a data directory.
pub(super) fn find(data: &Path) -> Result<Found, Error> {
    let path = data.join(MARK);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        file => file.map_err(|error| trouble(&path, &error))?,
    };
    let mut bytes = vec![0; (SLOTS * BLOCK_BYTES) as usize];
    let n = read_all(&file, &mut bytes).map_err(|error| trouble(&path, &error))?;
    let slots = (0..SLOTS as usize).filter_map(|slot| {
        let begin = slot * BLOCK_BYTES as usize;
        let bytes = bytes[..n].get(begin..begin + SLOT_BYTES)?;
        decode(bytes).ok()
    });
    Ok(slots.max_by_key(|marked| marked.place.seq).map_or(Found::Damaged, Found::Sound))
}

fn read_all(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut n = 0;
    while n < bytes.len() {
        match file.read_at(&mut bytes[n..], n as u64)? {
            0 => break,
            more => n += more,
        }
    }
    Ok(n)
}

fn encode(marked: &Marked) -> Slot {
    let Unused { floor, lease, session } = marked.unused;
    let mut slot = Slot([0; SLOT_BYTES]);
    slot.0[..8].copy_from_slice(&MAGIC);
    slot.0[8..24].copy_from_slice(&marked.store_id);
    slot.0[24..32].copy_from_slice(&marked.generation.to_le_bytes());
    slot.0[56..64].copy_from_slice(&floor.to_le_bytes());
    slot.0[64..72].copy_from_slice(&lease.to_le_bytes());
    slot.0[72..80].copy_from_slice(&session.to_le_bytes());
    slot.say(marked.place);
    slot
}

/// The bytes of a slot. Each record changes only a few of them.
struct Slot([u8; SLOT_BYTES]);

impl Slot {
    fn say(&mut self, place: Place) {
        self.0[32..40].copy_from_slice(&place.seq.to_le_bytes());
        self.0[40..56].copy_from_slice(&place.hash.0);
        let checksum = crc32fast::hash(&self.0[..SLOT_BYTES - 4]);
        self.0[SLOT_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn decode(bytes: &[u8]) -> Result<Marked, Damaged> {
    let mut r = Reader(bytes);
    let content = r.take(SLOT_BYTES - 4)?;
    if crc32fast::hash(content).to_le_bytes() != r.fixed::<4>()? {
        return Err(Damaged("its checksum is wrong"));
    }
    let mut r = Reader(content);
    if r.fixed()? != MAGIC {
        return Err(Damaged("it is not a mark file"));
    }
    let store_id = r.fixed()?;
    let mut number = || r.fixed().map(u64::from_le_bytes);
    let (generation, seq) = (number()?, number()?);
    let hash = Hash(r.fixed()?);
    let mut number = || r.fixed().map(u64::from_le_bytes);
    let unused = Unused { floor: number()?, lease: number()?, session: number()? };
    Ok(Marked { store_id, generation, place: Place { seq, hash }, unused })
}

/// The mark of a store in use.
pub(super) struct Mark {
    slot: Slot,
    shared: Arc<SharedMark>,
    thread: Option<JoinHandle<()>>,
}

struct SharedMark {
    path: PathBuf,
    file: File,
    is_unsynced: AtomicBool,
    has_failed: AtomicBool,
    is_over: Mutex<bool>,
    wake: Condvar,
}

impl Mark {
    /// Creates the file or takes it over. Its contents are durable when this returns.
    pub(super) fn start(data: &Path, marked: Marked) -> Result<Self, Error> {
        let path = data.join(MARK);
        let why = |error: io::Error| trouble(&path, &error);
        let file = write_new(&path, &marked).map_err(why)?;
        File::open(data).and_then(|folder| folder.sync_all()).map_err(why)?;
        let shared = Arc::new(SharedMark {
            path,
            file,
            is_unsynced: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_over: Mutex::default(),
            wake: Condvar::new(),
        });
        let thread = std::thread::Builder::new().name("mark".into()).spawn({
            let shared = shared.clone();
            move || shared.run()
        });
        Ok(Self { slot: encode(&marked), shared, thread: Some(thread.map_err(refused)?) })
    }

    /// Writes the position of a durable record, which can be acknowledged afterwards.
    pub(super) fn write(&mut self, place: Place) -> io::Result<()> {
        self.slot.say(place);
        let offset = place.seq % SLOTS * BLOCK_BYTES;
        self.shared.file.write_all_at(&self.slot.0, offset)?;
        if self.shared.has_failed.load(Acquire) {
            return Err(io::Error::other("cannot sync it"));
        }
        self.shared.is_unsynced.store(true, Release);
        Ok(())
    }

    /// Returns the error for a record that cannot be acknowledged.
    pub(super) fn unwritten(&self, error: &io::Error) -> Error {
        Error::Unknown(format!("{}: {error}", self.shared.path.display()))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        *lock(&self.shared.is_over) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl SharedMark {
    /// Syncs the mark from time to time, and at the end.
    fn run(&self) {
        loop {
            let is_over = lock(&self.is_over);
            let waited = self.wake.wait_timeout_while(is_over, SYNC_INTERVAL, |is_over| !*is_over);
            let is_over = *whole(waited).0;
            if self.is_unsynced.swap(false, AcqRel)
                && let Err(error) = self.file.sync_data()
            {
                tracing::error!(%error, "cannot sync the mark file");
                self.has_failed.store(true, Release);
            }
            if is_over {
                return;
            }
        }
    }
}

/// Writes both slots with the same contents, and allocates both blocks on the disk.
fn write_new(path: &Path, marked: &Marked) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file =
        options.create(true).truncate(false).read(true).write(true).mode(0o600).open(path)?;
    let slot = encode(marked);
    for n in 0..SLOTS {
        let mut block = vec![0; BLOCK_BYTES as usize];
        block[..SLOT_BYTES].copy_from_slice(&slot.0);
        // The slots are synced one after the other, so that a crash leaves one intact.
        file.write_all_at(&block, n * BLOCK_BYTES)?;
        file.sync_all()?;
    }
    Ok(file)
}

fn trouble(path: &Path, error: &io::Error) -> Error {
    refused(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(seq: u64) -> Marked {
        Marked {
            store_id: [3; 16],
            generation: 7,
            place: Place { seq, hash: Hash([seq as u8; 16]) },
            unused: Unused { floor: 1, lease: 2, session: 3 },
        }
    }

    fn seq(data: &Path) -> Option<u64> {
        match find(data).expect("readable") {
            Found::Sound(found) => {
                assert_eq!(found, marked(found.place.seq));
                Some(found.place.seq)
            }
            Found::Missing | Found::Damaged => None,
        }
    }

    #[test]
    fn the_newest_slot_counts_and_a_damaged_one_leaves_the_other() {
        let data = tempfile::tempdir().expect("a folder");
        assert!(matches!(find(data.path()), Ok(Found::Missing)));
        let mut mark = Mark::start(data.path(), marked(5)).expect("a mark");
        for n in 6..=9 {
            mark.write(marked(n).place).expect("written");
            assert_eq!(seq(data.path()), Some(n));
        }
        drop(mark);
        let path = data.path().join(MARK);
        let whole = std::fs::read(&path).expect("a file");
        assert_eq!(whole.len() as u64, SLOTS * BLOCK_BYTES);
        for bit in 0..SLOT_BYTES * 8 {
            let flipped = |begin: usize| {
                let mut bytes = whole.clone();
                bytes[begin + bit / 8] ^= 1 << (bit % 8);
                std::fs::write(&path, bytes).expect("written");
                seq(data.path())
            };
            assert_eq!(flipped(0), Some(9), "bit {bit} of the older");
            assert_eq!(flipped(BLOCK_BYTES as usize), Some(8), "bit {bit} of the newer");
        }
        for (n, expected) in [(0, None), (80, None), (BLOCK_BYTES as usize, Some(8))] {
            std::fs::write(&path, &whole[..n]).expect("written");
            assert_eq!(seq(data.path()), expected, "cut to {n} bytes");
        }
    }
}
