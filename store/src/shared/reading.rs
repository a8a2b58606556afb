//! Reads a whole store: its snapshot, and every record up to its head.

use std::fmt::Display;
use std::time::Duration;

use leasehold_base::clock::Clock;
use leasehold_base::pace;
use leasehold_core::Limits;

use super::backend::{Backend, BackendFailure};
use super::follower::Follower;
use super::init;
use super::look::DatedLook;
use super::memory::{Noted, receipt};
use super::snapshot;
use super::value::Id;
use crate::{Broken, Error, Place, Told, Witness};

/// The maximum number of times in a row that records may be trimmed while they are being read.
const GAPS_MAX: u32 = 5;
/// How long the store may be unavailable.
const SILENT_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// The parameters of a read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) clock: &'a dyn Clock,
    pub(super) limits: &'a Limits,
    /// The node that reads. Empty: no particular node.
    pub(super) node: &'a str,
    /// Receives the state after each read, in tests.
    pub(super) witness: Option<&'a Witness>,
}

/// The result of reading the whole store.
pub(super) struct Read {
    pub(super) follower: Follower,
    /// `told` contains the events of every record after this one.
    pub(super) told_after: u64,
    pub(super) told: Vec<Told>,
    /// The last read, which showed the end of the journal.
    pub(super) look: DatedLook,
}

/// Why the store could not be read completely.
pub(super) enum Unread {
    Failed(Error),
    /// The store was read, but is broken.
    Broken(Broken),
}

impl From<Broken> for Unread {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Reading<'a> {
    /// Returns the parameters of a read by no particular node.
    pub(super) fn without_server(
        backend: &'a dyn Backend,
        clock: &'a dyn Clock,
        limits: &'a Limits,
    ) -> Self {
        Self { backend, clock, limits, node: "", witness: None }
    }

    /// Reads the records from `from` on, as many as fit, and the leader.
    pub(super) fn look(&self, from: u64) -> Result<DatedLook, BackendFailure> {
        DatedLook::take(self.backend, self.clock, from)
    }

    /// Applies the records of one read.
    pub(super) fn take_in(
        &self,
        follower: &mut Follower,
        look: &DatedLook,
    ) -> Result<Vec<Told>, Broken> {
        let told = follower.absorb(&look.records, look.received)?;
        if let Some(witness) = self.witness.filter(|_| !told.is_empty()) {
            witness.see(follower.place().seq, &follower.machine);
        }
        Ok(told)
    }

    /// Reads the id of the store, decoded and as bytes.
    pub(super) fn id(&self) -> Result<(Id, Vec<u8>), Error> {
        self.id_of(None)
    }

    /// Reads the id of the store, for a node that remembers `noted` of it.
    pub(super) fn id_of(&self, noted: Option<&Noted>) -> Result<(Id, Vec<u8>), Error> {
        let found = self.patiently(|| init::find(self.backend))?;
        let missing = || match noted {
            Some(noted) => init::lost(self.backend, noted),
            None => init::missing(self.backend),
        };
        let (id, bytes) = found.ok_or_else(missing)?;
        init::check_format(self.backend, &id)?;
        Ok((id, bytes))
    }

    /// Reads everything. The record `acknowledged` was known to be durable before.
    pub(super) fn all(&self, acknowledged: Option<Place>) -> Result<Read, Unread> {
        let begin = || Ok::<_, Error>(self.patiently(|| self.begin())?.expecting(acknowledged));
        let mut follower = begin()?;
        let (mut told_after, mut told) = (follower.place().seq, Vec::new());
        let mut n_gaps = 0;
        let look = loop {
            let look = self.patiently(|| self.look(follower.place().seq + 1))?;
            if look.is_gap(follower.place()) && n_gaps < GAPS_MAX {
                // The missing records are in a newer snapshot by now.
                n_gaps += 1;
                follower = begin()?;
                (told_after, told) = (follower.place().seq, Vec::new());
                continue;
            }
            let head = look.place(self.backend)?;
            told.extend(self.take_in(&mut follower, &look)?);
            if head == follower.place() {
                break look;
            }
            if look.is_without_records() {
                return Err(cut_off(follower.place(), head).into());
            }
        };
        follower.chain.end()?;
        Ok(Read { follower, told_after, told, look })
    }

    /// Starts with the state of the snapshot, if there is one.
    fn begin(&self) -> Result<Follower, String> {
        let (manifest, _) = snapshot::find(self.backend)?;
        let (limits, received) = (self.limits.clone(), receipt(self.clock));
        let follower = Follower::begin(self.backend, manifest.as_ref(), limits, received)?;
        Ok(follower.read_by(self.node))
    }

    /// Repeats a request for a while if it fails.
    pub(super) fn patiently<T, E: Display>(
        &self,
        ask: impl Fn() -> Result<T, E>,
    ) -> Result<T, Error> {
        let began = pace::now();
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(why) if pace::now().saturating_sub(began) >= SILENT_MAX => {
                    let location = self.backend.location();
                    return Err(Error::Refused(format!(
                        "cannot read the store under {location}: {why}"
                    )));
                }
                Err(_) => pace::sleep(PAUSE),
            }
        }
    }
}

/// Returns the error for a journal that ends at this place, although its head names another one.
pub(super) fn cut_off(place: Place, head: Place) -> Broken {
    if head.seq > place.seq {
        return Broken::Damaged(format!(
            "journal records {} to {} are missing",
            place.seq + 1,
            head.seq
        ));
    }
    let why = format!("its journal ends at {}, not at {}", head.seq, place.seq);
    Broken::Another(why)
}
