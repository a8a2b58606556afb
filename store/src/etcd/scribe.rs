//! Takes snapshots while somebody leads, so that the journal does not grow for ever: a thread of its own, which holds
//! nobody up. Each snapshot is made from the one before and the records since, as a start would do it: so each proves
//! that the one before can be read. If it cannot, because something is missing in etcd, whoever leads still has it
//! all in memory: then the next snapshot is made from that.

use std::sync::Arc;
use std::time::Duration;

use leasehold_base::pace;
use leasehold_core::{Limits, Machine, mutant};
use leasehold_etcd::{Op, RangeRequest, When};

use super::aide::{Aide, Shared, Waited};
use super::census;
use super::cluster::Cluster;
use super::follower::{Follower, Volume};
use super::guard::{Tenure, put_once};
use super::image;
use super::keys::Keys;
use super::snapshot::{self, CHUNK_BYTES, Manifest, Origin};
use super::value;
use crate::{Error, Health};

/// After a snapshot that failed, the next is not tried before this.
const PAUSE: Duration = Duration::from_secs(5);
/// After so many in a row that failed, what is in etcd is not relied on any more.
const FAILURES_MAX: u32 = 3;
/// How long the next record may be in coming, from which on the state is known.
const STATE_WITHIN: Duration = Duration::from_secs(10);

/// When a snapshot is taken, and how fast it is written.
#[derive(Clone, Copy, Debug)]
pub struct Snapshots {
    /// When the journal since the last one has so many bytes, and at least as many as that one.
    pub bytes_min: u64,
    /// Or when it has so many records.
    pub records_max: u64,
    /// So fast, so that nobody who appends waits long.
    pub bytes_per_second: u64,
    /// Whoever has just come to lead has more urgent things to do for so long.
    pub first_after: Duration,
    /// How often it is counted whether everything is there.
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
    /// After so many records, however long they are, and as fast as possible.
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

/// What it takes to take one.
pub(super) struct Desk {
    pub(super) cluster: Arc<dyn Cluster>,
    pub(super) keys: Keys,
    pub(super) tenure: Tenure,
    pub(super) limits: Limits,
    pub(super) when: Snapshots,
    pub(super) health: Arc<Health>,
}

/// The thread that takes them. It ends with this.
pub(super) struct Scribe {
    aide: Aide<State>,
    when: Snapshots,
}

#[derive(Default)]
pub(super) struct State {
    /// The last record that is durable.
    seq: u64,
    /// Records up to this one are in a snapshot.
    through: u64,
    /// Bytes of records since the last snapshot.
    n_bytes: u64,
    /// Bytes of the last snapshot.
    n_bytes_before: u64,
    /// The state is to come from memory.
    is_torn: bool,
    /// It has come: as of which record, and its bytes.
    image: Option<(Origin, Vec<u8>)>,
}

/// What a snapshot is made from.
enum Source {
    /// The one before, and the records up to this one at least.
    Etcd(u64),
    /// What whoever leads has in memory.
    Memory,
}

impl Scribe {
    /// The journal goes as far as `seq`. So much of it was read before.
    pub(super) fn start(desk: Desk, seq: u64, read: Volume) -> Result<Self, Error> {
        let (state, when) = (State { seq, ..State::default() }, desk.when);
        let aide = Aide::start("snapshots", state, move |shared| {
            pace::yield_to_others();
            desk.work(shared, read);
        })?;
        Ok(Self { aide, when })
    }

    /// A record of so many bytes is durable.
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

    /// Records up to this one are in a snapshot, and may go.
    pub(super) fn through(&self) -> u64 {
        self.aide.state().through
    }

    /// Is something missing in etcd, so that the state is wanted?
    pub(super) fn is_torn(&self) -> bool {
        let state = self.aide.state();
        state.is_torn && state.image.is_none()
    }

    /// This is the state as of this record, which is durable.
    pub(super) fn mend(&self, origin: Origin, machine: &Machine) {
        self.aide.state().image = Some((origin, image::encode(machine)));
        self.aide.ring();
    }

    /// No more snapshots.
    pub(super) fn leave(&mut self) {
        self.aide.leave();
    }
}

impl State {
    /// Up to which record a snapshot is to be taken, if one is due, and how many bytes will be in it that are in none.
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
        // What is there already may be trimmed: the one before us may not have come to it.
        let mut known = snapshot::find(&*self.cluster, &self.keys).ok().and_then(|found| found.0);
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
                    tracing::info!(n_bytes, seq = through.seq, "a snapshot was taken");
                    known = Some(manifest);
                }
                Err(why) => {
                    n_failures += 1;
                    tracing::warn!(%why, "no snapshot could be taken");
                    if shared.rest(PAUSE) {
                        return;
                    }
                }
            }
        }
    }

    /// What the next snapshot is made from, and how many bytes will be in it that are in none; `None`: it is over.
    fn next(
        &self,
        shared: &Shared<State>,
        known: Option<&Manifest>,
        n_failures: u32,
    ) -> Option<(Source, u64)> {
        loop {
            match shared.wait(self.when.check_every, |state| state.due(self.when)) {
                Waited::Over => return None,
                Waited::Found((_, n_bytes)) if n_failures >= FAILURES_MAX => {
                    return Some((Source::Memory, n_bytes));
                }
                Waited::Found((seq, n_bytes)) => return Some((Source::Etcd(seq), n_bytes)),
                Waited::InVain => {}
            }
            // It may not have been there at the beginning, or could not be read.
            let Ok((found, _)) = snapshot::find(&*self.cluster, &self.keys) else { continue };
            let known = known.or(found.as_ref());
            if let Ok(Some(what)) = census::missing(&*self.cluster, &self.keys, known) {
                tracing::error!(%what, "etcd has lost some of the store: it is put back from memory");
                return Some((Source::Memory, shared.state().n_bytes));
            }
        }
    }

    fn done(&self, shared: &Shared<State>, manifest: &Manifest, n_bytes_known: u64) {
        shared.state().done(manifest, n_bytes_known);
        self.health.pulse().snapshot(manifest.wall_ms);
    }

    /// Takes a snapshot.
    fn take(&self, shared: &Shared<State>, source: Source) -> Result<Manifest, String> {
        let Self { cluster, keys, limits, .. } = self;
        let (before, before_at) = snapshot::find(&**cluster, keys)?;
        let (origin, bytes) = match source {
            Source::Etcd(seq) => self.read(before.as_ref(), seq)?,
            Source::Memory => Self::remembered(shared)?,
        };
        let manifest = Manifest::new(&origin, &bytes, before.map(|before| before.name));
        if mutant!(TrimBeforeManifest) {
            shared.state().through = origin.place.seq;
        }
        self.write(shared, &manifest, &bytes)?;
        // Whatever was written can be read, and is the same state.
        let read = manifest.read_back(&**cluster, keys)?;
        drop(image::decode(&read, limits.clone(), 0)?);
        let at = self.commit(&manifest, before_at)?;
        if mutant!(TrimOfHead) {
            let (first, end) = (keys.slot(0), keys.slot(manifest.through.seq + 1));
            let _ = cluster.txn(self.tenure.txn(keys).then(Op::DeleteRange(first, end)).request());
        }
        snapshot::clean_up(&**cluster, keys, &self.tenure, &manifest, at);
        Ok(manifest)
    }

    /// A state that has at least the records up to this one, as it is in etcd.
    fn read(&self, before: Option<&Manifest>, seq: u64) -> Result<(Origin, Vec<u8>), String> {
        let Self { cluster, keys, limits, .. } = self;
        // What time it is does not matter here.
        let received = Default::default();
        let mut follower = Follower::begin(&**cluster, keys, before, limits.clone(), received)?;
        while follower.place().seq < seq {
            let (key, range_end) = keys.slots_from(follower.place().seq + 1);
            let request = RangeRequest { key, range_end, limit: 32, ..RangeRequest::default() };
            let found = cluster.range(request).map_err(|error| error.to_string())?;
            if found.kvs.is_empty() {
                return Err(format!("journal record {} is missing", follower.place().seq + 1));
            }
            follower.absorb(keys, &found.kvs, 0).map_err(|broken| broken.to_string())?;
        }
        let origin = follower.origin().ok_or("there is nothing to take a snapshot of")?;
        Ok((origin, image::encode(&follower.machine)))
    }

    /// The state as it is in memory after the next record.
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
            manifest.put(&*self.cluster, &self.keys, &self.tenure, (n, chunk))?;
            if shared.rest(Duration::from_secs_f64(pause)) {
                return Err("the server stops".into());
            }
        }
        Ok(())
    }

    /// Puts the manifest, if the one it follows is still there; in which revision.
    fn commit(&self, manifest: &Manifest, before_at: i64) -> Result<i64, String> {
        let (key, value) = (self.keys.manifest(), value::encode(manifest));
        let txn = self.tenure.txn(&self.keys).when(key.clone(), When::PutAt(before_at));
        let txn = txn.then(Op::Put(key.clone(), value.clone(), 0));
        let put =
            put_once(&*self.cluster, txn, (key, &value)).map_err(|error| error.to_string())?;
        put.ok_or_else(|| "the seat is lost, or somebody else has taken a snapshot".into())
    }
}
