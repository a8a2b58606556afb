//! Stores in a node's own data directory how far the journal went at least. With this, the node notices if the
//! store is ever rolled back to an earlier state.

use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_base::clock::{BootId, Clock};
use leasehold_base::pace;
use leasehold_core::mutant;
use serde::{Deserialize, Serialize};

use super::value::{Id, hex, unhex};
use crate::{Error, Hash, Place};

/// The name of the file.
const FILE: &str = crate::folder::MEMORY;
/// The name of the file that distinguishes two nodes with the same name.
const INSTANCE: &str = "instance";
/// The minimum time between two writes of the file.
const EVERY: Duration = Duration::from_secs(1);

/// The memory of one node.
pub(super) struct Memory {
    folder: PathBuf,
    noted: Option<Noted>,
    written_at: Option<Duration>,
}

/// The contents of the file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Noted {
    /// The id of the store.
    pub(super) store: String,
    pub(super) generation: u64,
    /// How often the store had been restored when this generation started.
    #[serde(default)]
    pub(super) n_restores: u64,
    /// The last record that was known to be durable.
    seq: u64,
    hash: String,
    /// The boot of this machine in which that record was received, and the boottime at that moment, in nanoseconds.
    boot: String,
    received: u64,
}

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "store {} up to record {}", self.store, self.seq)
    }
}

impl Noted {
    pub(super) fn place(&self) -> Place {
        Place { seq: self.seq, hash: Hash(unhex(&self.hash).unwrap_or_default()) }
    }

    /// Returns whether the generation of the store is earlier than this one, which means that it was rolled back. A
    /// restore increases the counter. A store that moved away and back continues after the remembered record.
    pub(super) fn is_later_than(&self, id: &Id) -> bool {
        if self.generation == id.generation || mutant!(EarlierGenerationAccepted) {
            return false;
        }
        self.n_restores > id.n_restores || self.n_restores == id.n_restores && self.seq > id.start
    }

    /// Returns when this record was received, if it is the remembered one and was received in this boot.
    pub(super) fn received(&self, place: Place, boot: BootId) -> Option<u64> {
        (self.place() == place && self.boot == hex(&boot)).then_some(self.received)
    }
}

impl Memory {
    /// Reads the file. An unreadable file is an error, because without it a rollback would not be noticed.
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let wrong = |error: &dyn std::fmt::Display| {
            Error::Refused(format!(
                "{}: {error}. This file records how far this server has read the journal. If it is lost, delete it \
                 and start with --lead-without-memory, or while another server leads",
                path.display()
            ))
        };
        let noted = match fs::read(&path) {
            Ok(bytes) => Some(serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(wrong(&error)),
        };
        Ok(Self { folder: folder.into(), noted, written_at: None })
    }

    /// Returns another memory of the same node.
    pub(super) fn again(&self) -> Self {
        Self { folder: self.folder.clone(), noted: self.noted.clone(), written_at: None }
    }

    pub(super) fn noted(&self) -> Option<&Noted> {
        self.noted.as_ref()
    }

    /// Notes that this record of this store is durable, and when it was received. Not every call writes the file.
    pub(super) fn note(&mut self, id: &Id, place: Place, received: (BootId, u64)) {
        let noted = Noted {
            store: id.store.clone(),
            generation: id.generation,
            n_restores: id.n_restores,
            seq: place.seq,
            hash: hex(&place.hash.0),
            boot: hex(&received.0),
            received: received.1,
        };
        self.keep(noted);
    }

    fn keep(&mut self, noted: Noted) {
        if self.noted.as_ref() != Some(&noted) {
            self.noted = Some(noted);
            self.write_if_due();
        }
    }

    /// Notes a record that this node wrote itself. Its time of receipt does not matter.
    pub(super) fn note_own(&mut self, place: Place) {
        if let Some(known) = &self.noted {
            let (seq, hash) = (place.seq, hex(&place.hash.0));
            let noted =
                Noted { seq, hash, boot: hex(&BootId::default()), received: 0, ..known.clone() };
            self.keep(noted);
        }
    }

    fn write_if_due(&mut self) {
        if self.written_at.is_none_or(|at| pace::now().saturating_sub(at) >= EVERY) {
            self.flush();
        }
    }

    /// Writes the file immediately.
    pub(super) fn flush(&mut self) {
        if self.noted.is_none() {
            return;
        }
        self.written_at = Some(pace::now());
        if let Err(error) = self.write() {
            tracing::error!(%error, folder = %self.folder.display(), "cannot record how far this server has read the \
                journal");
        }
    }

    fn write(&self) -> std::io::Result<()> {
        let (path, unfinished) = (self.folder.join(FILE), self.folder.join("node.json.new"));
        let mut file = fs::File::create(&unfinished)?;
        file.write_all(&serde_json::to_vec(&self.noted)?)?;
        file.sync_all()?;
        fs::rename(unfinished, path)
    }
}

/// Returns the random instance id of this data directory, which is drawn on the first call. It distinguishes two nodes
/// with the same name.
pub(super) fn instance(folder: &Path) -> Result<String, Error> {
    let path = folder.join(INSTANCE);
    let wrong = |why: &dyn std::fmt::Display| Error::Refused(format!("{}: {why}", path.display()));
    match fs::read_to_string(&path) {
        Ok(text) if unhex(text.trim()).is_some() => return Ok(text.trim().into()),
        Ok(_) => return Err(wrong(&"has an invalid value; delete it")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(wrong(&error)),
    }
    let instance = hex(&leasehold_base::random::bytes::<16>());
    let unfinished = folder.join("instance.new");
    let written = fs::write(&unfinished, format!("{instance}\n"));
    written.and_then(|()| fs::rename(&unfinished, &path)).map_err(|error| wrong(&error))?;
    Ok(instance)
}

/// Returns the current boot and boottime.
pub(super) fn receipt(clock: &dyn Clock) -> (BootId, u64) {
    (clock.boot_id(), clock.boottime())
}
