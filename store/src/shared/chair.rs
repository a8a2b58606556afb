//! Holds the leader's entry while a whole store is moved or restored, without leading.

use std::cell::Cell;
use std::time::{Duration, Instant};

use leasehold_core::mutant;

use super::backend::{Backend, BackendFailure, Contents, Entry, Lease, Replaced};
use super::campaign::campaign;
use super::guard::Tenure;
use super::image;
use super::snapshot::{self, CHUNK_BYTES, Manifest, Origin};
use super::value::{self, Id, LeaderValue};
use crate::{Error, Whole};

/// The TTL of the leader's entry, in seconds, in case this process dies.
const TTL: i64 = 30;
const KEEP_EVERY: Duration = Duration::from_secs(5);

/// The leader's entry. It is deleted when this value is dropped.
pub(super) struct Chair<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) tenure: Tenure,
    lease: Lease,
    kept_at: Cell<Instant>,
}

impl<'a> Chair<'a> {
    /// Takes the leadership, unless a server leads or one of the entries `vetoes` exists.
    pub(super) fn take(
        backend: &'a dyn Backend,
        what_for: &str,
        vetoes: &[Entry<'_>],
    ) -> Result<Self, Error> {
        let leader = LeaderValue::new(&format!("leasehold {what_for}"), "");
        let taken = if mutant!(RestoreWithoutSeat) {
            Some((Tenure { number: 0, value: Vec::new() }, Lease { id: 0, ttl: TTL }))
        } else {
            campaign(backend, TTL, &leader, vetoes).map_err(BackendFailure::refused)?
        };
        let (tenure, lease) = taken.ok_or_else(|| occupied(backend))?;
        Ok(Self { backend, tenure, lease, kept_at: Cell::new(Instant::now()) })
    }

    /// Writes a state as the chunks of a snapshot. No manifest refers to them yet.
    pub(super) fn write(&self, whole: &Whole) -> Result<Manifest, Error> {
        let bytes = image::encode(&whole.machine);
        let manifest = Manifest::new(&origin(whole), &bytes, None);
        for piece in (0..).zip(bytes.chunks(CHUNK_BYTES)) {
            self.keep()?;
            let put = manifest.put(self.backend, &self.tenure, piece);
            put.map_err(Error::Refused)?;
        }
        // Reads the chunks back, to make sure that they are readable.
        manifest.read_back(self.backend).map_err(Error::Refused)?;
        Ok(manifest)
    }

    /// Puts a store in place in one step: its id, its snapshot and its head. Deletes any earlier records. Returns
    /// `None` if we do not lead any more, or the store is not as expected.
    pub(super) fn put(
        &self,
        replaces: Replaced<'_>,
        id: &Id,
        manifest: Manifest,
        whole: &Whole,
    ) -> Result<Option<()>, Error> {
        let manifest = manifest.through(&origin(whole));
        let (id, encoded) = (value::encode(id), value::encode(&manifest));
        let contents = Contents { id: &id, manifest: &encoded, head: whole.place, replaces };
        let put = self.backend.replace(&self.tenure, &contents);
        let put = put.map_err(|error| {
            Error::Unknown(format!(
                "{error}; the operation might have taken effect: check, and repeat it if not"
            ))
        })?;
        let Some(at) = put else { return Ok(None) };
        snapshot::clean_up(self.backend, &self.tenure, &manifest, at);
        Ok(Some(()))
    }

    /// Renews the lease during a long operation.
    fn keep(&self) -> Result<(), Error> {
        if self.kept_at.get().elapsed() < KEEP_EVERY {
            return Ok(());
        }
        self.kept_at.set(Instant::now());
        self.backend.keep(self.lease).map_err(BackendFailure::refused)
    }
}

impl Drop for Chair<'_> {
    fn drop(&mut self) {
        // If this fails, the lease expires on its own.
        let _ = self.backend.revoke(self.lease);
    }
}

/// Returns the position in the journal that a state belongs to.
fn origin(whole: &Whole) -> Origin {
    let Whole { place, epoch, last, .. } = whole;
    Origin { place: *place, epoch: *epoch, node: "".into(), moment: last.unwrap_or_default() }
}

/// Returns the error that explains why the leadership cannot be taken.
fn occupied(backend: &dyn Backend) -> Error {
    let prefix = backend.location();
    let Ok(found) = backend.entries() else {
        let system = backend.system();
        return Error::Refused(format!("cannot become leader; {system} reports no cause"));
    };
    if found.leader.as_ref().is_some_and(|leader| !leader.is_kept) {
        let key = backend.name_of(Entry::Leader);
        return Error::Refused(format!(
            "the leader key {key} is stale: no server renews it, and no server can lead while it exists; leasehold \
             cluster step-down deletes it"
        ));
    }
    let leader = found
        .leader
        .as_ref()
        .and_then(|leader| serde_json::from_slice::<LeaderValue>(&leader.value).ok());
    Error::Refused(match leader {
        Some(leader) => format!(
            "{} leads the store under {prefix}; first stop all its servers, or run leasehold cluster pause and \
             leasehold cluster step-down",
            leader.node
        ),
        None if found.rewound.is_some() => format!(
            "the store under {prefix} was rolled back to an earlier state (key rewound); run `leasehold restore \
             --store` first"
        ),
        None if found.closed.is_some() => {
            format!("the store under {prefix} has moved elsewhere (key closed)")
        }
        None => format!("another process led the store under {prefix} for a moment; try again"),
    })
}
