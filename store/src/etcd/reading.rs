//! Reading a whole store: its snapshot, and every record up to its head.

use std::time::Duration;

use leasehold_base::clock::Clock;
use leasehold_base::pace;
use leasehold_core::Limits;

use super::cluster::Cluster;
use super::follower::Follower;
use super::init;
use super::keys::Keys;
use super::look::Look;
use super::memory::{Noted, receipt};
use super::snapshot;
use super::value::Id;
use crate::{Broken, Error, Place, Told, Witness};

/// Records may be trimmed while they are being read, but not so often in a row.
const GAPS_MAX: u32 = 5;
/// How long etcd may be silent.
const SILENT_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(100);

/// What it takes to read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) cluster: &'a dyn Cluster,
    pub(super) keys: &'a Keys,
    pub(super) clock: &'a dyn Clock,
    pub(super) limits: &'a Limits,
    /// The node that reads; empty: nobody in particular.
    pub(super) node: &'a str,
    /// Who is shown what was read.
    pub(super) witness: Option<&'a Witness>,
}

/// Everything that is there.
pub(super) struct Read {
    pub(super) follower: Follower,
    /// What happened in every record after this one is told.
    pub(super) told_after: u64,
    pub(super) told: Vec<Told>,
    /// The look that showed the end of it.
    pub(super) look: Look,
}

/// Why there is nothing to go by.
pub(super) enum Unread {
    /// It could not be read.
    Failed(Error),
    /// It was read, as far as it can be.
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
    /// By nobody in particular.
    pub(super) fn of_nobody(
        cluster: &'a dyn Cluster,
        keys: &'a Keys,
        clock: &'a dyn Clock,
        limits: &'a Limits,
    ) -> Self {
        Self { cluster, keys, clock, limits, node: "", witness: None }
    }

    /// Everything from the record `from` on, as far as it fits, and who leads.
    pub(super) fn look(&self, from: u64) -> Result<Look, String> {
        Look::take(self.cluster, self.keys, self.clock, from)
    }

    /// Adds the records that a look has shown.
    pub(super) fn take_in(
        &self,
        follower: &mut Follower,
        look: &Look,
    ) -> Result<Vec<Told>, Broken> {
        let told = follower.absorb(self.keys, look.slots(), look.received)?;
        if let Some(witness) = self.witness.filter(|_| !told.is_empty()) {
            witness.see(follower.place().seq, &follower.machine);
        }
        Ok(told)
    }

    /// Which store it is, and the bytes that say so.
    pub(super) fn id(&self) -> Result<(Id, Vec<u8>), Error> {
        self.id_of(None)
    }

    /// The same for a node that remembers this of it.
    pub(super) fn id_of(&self, noted: Option<&Noted>) -> Result<(Id, Vec<u8>), Error> {
        let found = self.patiently(|| init::find(self.cluster, self.keys))?;
        let missing = || match noted {
            Some(noted) => init::lost(self.keys, noted),
            None => init::missing(self.keys),
        };
        let (id, bytes) = found.ok_or_else(missing)?;
        init::check_format(self.keys, &id)?;
        Ok((id, bytes))
    }

    /// All of it. This place was known to be durable before.
    pub(super) fn all(&self, acknowledged: Option<Place>) -> Result<Read, Unread> {
        let begin = || Ok::<_, Error>(self.patiently(|| self.begin())?.expecting(acknowledged));
        let mut follower = begin()?;
        let (mut told_after, mut told) = (follower.place().seq, Vec::new());
        let mut n_gaps = 0;
        let look = loop {
            let look = self.patiently(|| self.look(follower.place().seq + 1))?;
            if look.is_gap(self.keys, follower.place()) && n_gaps < GAPS_MAX {
                // They are in a snapshot by now.
                n_gaps += 1;
                follower = begin()?;
                (told_after, told) = (follower.place().seq, Vec::new());
                continue;
            }
            let head = look.head(self.keys)?;
            told.extend(self.take_in(&mut follower, &look)?);
            if head == follower.place() {
                break look;
            }
            if look.slots().is_empty() {
                return Err(cut_off(follower.place(), head).into());
            }
        };
        follower.chain.end()?;
        Ok(Read { follower, told_after, told, look })
    }

    /// What is in the snapshot, if there is one.
    fn begin(&self) -> Result<Follower, String> {
        let (manifest, _) = snapshot::find(self.cluster, self.keys)?;
        let (limits, received) = (self.limits.clone(), receipt(self.clock));
        let follower =
            Follower::begin(self.cluster, self.keys, manifest.as_ref(), limits, received)?;
        Ok(follower.read_by(self.node))
    }

    /// Asks again for a while.
    pub(super) fn patiently<T>(&self, ask: impl Fn() -> Result<T, String>) -> Result<T, Error> {
        let began = pace::now();
        loop {
            match ask() {
                Ok(answer) => return Ok(answer),
                Err(why) if pace::now().saturating_sub(began) >= SILENT_MAX => {
                    let prefix = self.keys.prefix();
                    return Err(Error::Refused(format!(
                        "the store under {prefix} cannot be read: {why}"
                    )));
                }
                Err(_) => pace::sleep(PAUSE),
            }
        }
    }
}

/// Nothing follows this place, and its head is another.
pub(super) fn cut_off(place: Place, head: Place) -> Broken {
    if head.seq > place.seq {
        return Broken::Damaged(format!(
            "journal records {} to {} are missing",
            place.seq + 1,
            head.seq
        ));
    }
    let why = format!("its journal ends at {}, and not at {}", head.seq, place.seq);
    Broken::Another(why)
}
