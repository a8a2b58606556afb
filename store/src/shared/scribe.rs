//! Takes snapshots while this server leads, so that the journal does not grow indefinitely. A separate thread does
//! this, so it delays no request. Each snapshot is made from the previous snapshot and the records since, in the same
//! way as a start reads them. So each snapshot proves that the previous one is readable. If that fails because entries
//! are missing, the leader still has the state in memory, and the next snapshot is made from that.

use std::sync::Arc;
use std::time::Duration;

use leasehold_base::pace;
use leasehold_core::{Limits, Machine, mutant};

use super::aide::{Aide, Shared, Waited};
use super::backend::{Backend, Records};
use super::census;
use super::follower::{Follower, Volume};
use super::guard::Tenure;
use super::image;
use super::snapshot::{self, CHUNK_BYTES, Manifest, Origin};
use super::value;
use crate::{Error, Health};

/// The minimum time between a failed snapshot and the next attempt.
const PAUSE: Duration = Duration::from_secs(5);
/// After this many failures in a row, the next snapshot is made from memory instead of from the store.
const FAILURES_MAX: u32 = 3;
/// How long to wait for the next record, after which the state in memory is known to be durable.
const STATE_WITHIN: Duration = Duration::from_secs(10);

/// When a snapshot is taken, and how fast it is written.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots {
    /// A snapshot is due when the journal since the last one has this many bytes, and at least as many as that
    /// snapshot.
    pub bytes_min: u64,
    /// A snapshot is also due when the journal since the last one has this many records.
    pub records_max: u64,
    /// The maximum speed at which a snapshot is written, so that it does not delay appends for long.
    pub bytes_per_second: u64,
    /// How long a new leader waits before its first snapshot, because it has more urgent work then.
    pub first_after: Duration,
    /// How often the entries of the store are counted, to notice missing ones.
    pub check_every: Duration,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            bytes_min: 64 << 20,
            bytes_per_second: 4_000_000,
            first_after: Duration::from_secs(10),
            ..Self::every(200_000)
        }
    }
}

impl Snapshots {
    /// Takes a snapshot after this many records, regardless of their size, and writes it as fast as possible.
    pub const fn every(records_max: u64) -> Self {
        Self {
            bytes_min: u64::MAX,
            records_max,
            bytes_per_second: u64::MAX,
            first_after: Duration::ZERO,
            check_every: Duration::from_secs(60),
        }
    }
}

/// The parameters of the thread that takes snapshots.
pub(super) struct Desk {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) tenure: Tenure,
    pub(super) limits: Limits,
    pub(super) when: Snapshots,
    pub(super) health: Arc<Health>,
}

/// The thread that takes snapshots. Dropping this value ends it.
pub(super) struct Scribe {
    aide: Aide<State>,
    when: Snapshots,
}

#[derive(Default)]
pub(super) struct State {
    /// The last durable record.
    seq: u64,
    /// Records up to this one are in a snapshot.
    through: u64,
    /// Bytes of records since the last snapshot.
    n_bytes: u64,
    /// Bytes of the last snapshot.
    n_bytes_before: u64,
    /// Whether the state in memory is requested, because entries are missing in the store.
    is_torn: bool,
    /// The state from memory, if it has arrived: its last record, and its bytes.
    image: Option<(Origin, Vec<u8>)>,
}

/// The source of a snapshot.
enum SnapshotSource {
    /// The previous snapshot, and the records up to at least this one.
    Store(u64),
    /// The state that the leader has in memory.
    Memory,
}

impl Scribe {
    /// Starts the thread. The journal goes up to `seq`, and `read` is the part of it that was read before.
    pub(super) fn start(desk: Desk, seq: u64, read: Volume) -> Result<Self, Error> {
        let (state, when) = (State { seq, ..State::default() }, desk.when);
        let aide = Aide::start("snapshots", state, move |shared| {
            pace::yield_to_others();
            desk.work(shared, read);
        })?;
        Ok(Self { aide, when })
    }

    /// Notes that a record of this size is durable.
    pub(super) fn appended(&self, seq: u64, n_bytes: usize) {
        let mut state = self.aide.state();
        state.seq = seq;
        state.n_bytes += n_bytes as u64;
        let is_due = state.due(self.when).is_some();
        drop(state);
        if is_due {
            self.aide.ring();
        }
    }

    /// Returns the last record that is in a snapshot. It and all earlier ones can be trimmed.
    pub(super) fn through(&self) -> u64 {
        self.aide.state().through
    }

    /// Returns whether the state in memory is requested, because entries are missing in the store.
    pub(super) fn is_torn(&self) -> bool {
        let state = self.aide.state();
        state.is_torn && state.image.is_none()
    }

    /// Delivers the state as of this record, which is durable.
    pub(super) fn mend(&self, origin: Origin, machine: &Machine) {
        self.aide.state().image = Some((origin, image::encode(machine)));
        self.aide.ring();
    }

    /// Ends the thread.
    pub(super) fn leave(&mut self) {
        self.aide.leave();
    }
}

impl State {
    /// Returns up to which record a snapshot is to be taken, if one is due, and how many bytes of records it will newly
    /// contain.
    fn due(&self, when: Snapshots) -> Option<(u64, u64)> {
        let is_long = self.n_bytes >= when.bytes_min.max(self.n_bytes_before);
        let are_many = self.seq.saturating_sub(self.through) >= when.records_max;
        (is_long || are_many).then_some((self.seq, self.n_bytes))
    }

    fn done(&mut self, manifest: &Manifest, n_bytes_known: u64) {
        self.n_bytes = self.n_bytes.saturating_sub(n_bytes_known);
        self.n_bytes_before = manifest.n_bytes;
        self.through = manifest.through.seq;
    }
}

impl Desk {
    fn work(&self, shared: &Shared<State>, read: Volume) {
        // Records in the existing snapshot can be trimmed immediately: the previous leader might not have done that.
        let mut known = snapshot::find(&*self.backend).ok().and_then(|found| found.0);
        if let Some(manifest) = &known {
            self.done(shared, manifest, 0);
        }
        {
            let mut state = shared.state();
            state.n_bytes += read.bytes_of(state.seq.saturating_sub(state.through));
        }
        let mut n_failures = 0;
        if shared.rest(self.when.first_after) {
            return;
        }
        while let Some((source, n_bytes_known)) = self.next(shared, known.as_ref(), n_failures) {
            match self.take(shared, source) {
                Ok(manifest) => {
                    n_failures = 0;
                    self.done(shared, &manifest, n_bytes_known);
                    let Manifest { n_bytes, through, .. } = &manifest;
                    tracing::info!(n_bytes, seq = through.seq, "took a snapshot");
                    known = Some(manifest);
                }
                Err(why) => {
                    n_failures += 1;
                    tracing::warn!(%why, "cannot take a snapshot");
                    if shared.rest(PAUSE) {
                        return;
                    }
                }
            }
        }
    }

    /// Waits until the next snapshot is due. Returns its source, and how many bytes of records it will newly contain.
    /// Returns `None` if the thread is to end.
    fn next(
        &self,
        shared: &Shared<State>,
        known: Option<&Manifest>,
        n_failures: u32,
    ) -> Option<(SnapshotSource, u64)> {
        loop {
            match shared.wait(self.when.check_every, |state| state.due(self.when)) {
                Waited::Over => return None,
                Waited::Found((_, n_bytes)) if n_failures >= FAILURES_MAX => {
                    return Some((SnapshotSource::Memory, n_bytes));
                }
                Waited::Found((seq, n_bytes)) => {
                    return Some((SnapshotSource::Store(seq), n_bytes));
                }
                Waited::InVain => {}
            }
            // The snapshot might not have existed at the start, or might have been unreadable.
            let Ok((found, _)) = snapshot::find(&*self.backend) else { continue };
            let known = known.or(found.as_ref());
            if let Ok(Some(what)) = census::missing(&*self.backend, known) {
                let system = self.backend.system();
                tracing::error!(%what, "store data is missing from {system}; rewriting it from memory");
                return Some((SnapshotSource::Memory, shared.state().n_bytes));
            }
        }
    }

    fn done(&self, shared: &Shared<State>, manifest: &Manifest, n_bytes_known: u64) {
        shared.state().done(manifest, n_bytes_known);
        self.health.pulse().snapshot(manifest.wall_ms);
    }

    fn take(&self, shared: &Shared<State>, source: SnapshotSource) -> Result<Manifest, String> {
        let Self { backend, limits, .. } = self;
        let (before, before_at) = snapshot::find(&**backend)?;
        let (origin, bytes) = match source {
            SnapshotSource::Store(seq) => self.read(before.as_ref(), seq)?,
            SnapshotSource::Memory => Self::remembered(shared)?,
        };
        let manifest = Manifest::new(&origin, &bytes, before.map(|before| before.name));
        if mutant!(TrimBeforeManifest) {
            shared.state().through = origin.place.seq;
        }
        self.write(shared, &manifest, &bytes)?;
        // Reads the snapshot back, to make sure that it is readable and has the same state.
        let read = manifest.read_back(&**backend)?;
        drop(image::decode(&read, limits.clone(), 0)?);
        let at = self.commit(&manifest, before_at)?;
        snapshot::clean_up(&**backend, &self.tenure, &manifest, at);
        Ok(manifest)
    }

    /// Reads a state from the store that contains at least the records up to this one.
    fn read(&self, before: Option<&Manifest>, seq: u64) -> Result<(Origin, Vec<u8>), String> {
        let Self { backend, limits, .. } = self;
        // The time of receipt does not matter here.
        let received = Default::default();
        let mut follower = Follower::begin(&**backend, before, limits.clone(), received)?;
        while follower.place().seq < seq {
            let next = follower.place().seq + 1;
            let found = backend.records(next).map_err(|failure| failure.to_string())?;
            if found == Records::default() {
                return Err(format!("journal record {next} is missing"));
            }
            follower.absorb(&found, 0).map_err(|broken| broken.to_string())?;
        }
        let origin = follower.origin().ok_or("there is nothing to take a snapshot of")?;
        Ok((origin, image::encode(&follower.machine)))
    }

    /// Returns the state in memory as of the next record.
    fn remembered(shared: &Shared<State>) -> Result<(Origin, Vec<u8>), String> {
        shared.state().is_torn = true;
        let waited = shared.wait(STATE_WITHIN, |state| state.image.take());
        let mut state = shared.state();
        (state.is_torn, state.image) = (false, None);
        match waited {
            Waited::Found(image) => Ok(image),
            Waited::InVain => Err("nothing was written for too long".into()),
            Waited::Over => Err("the server stops".into()),
        }
    }

    fn write(
        &self,
        shared: &Shared<State>,
        manifest: &Manifest,
        bytes: &[u8],
    ) -> Result<(), String> {
        let pause = CHUNK_BYTES as f64 / self.when.bytes_per_second.max(1) as f64;
        for (n, chunk) in (0..).zip(bytes.chunks(CHUNK_BYTES)) {
            manifest.put(&*self.backend, &self.tenure, (n, chunk))?;
            if shared.rest(Duration::from_secs_f64(pause)) {
                return Err("the server stops".into());
            }
        }
        Ok(())
    }

    /// Puts the manifest if the one it replaces is still current. Returns the version of the store.
    fn commit(&self, manifest: &Manifest, before_at: i64) -> Result<i64, String> {
        let value = value::encode(manifest);
        let put = self.backend.put_manifest(&self.tenure, &value, before_at);
        let put = put.map_err(|failure| failure.to_string())?;
        put.ok_or_else(|| "leadership was lost, or another process took a snapshot".into())
    }
}
