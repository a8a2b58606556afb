//! The store of a leader: one guarded write for each record.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use leasehold_base::clock::Moment;
use leasehold_base::pace;
use leasehold_core::{Limits, Machine, mutant};

use super::backend::{Backend, FailureKind, Write};
use super::guard::{Guard, Verdict};
use super::keeper::Keeper;
use super::presence::Progress;
use super::scribe::Scribe;
use super::snapshot::Origin;
use crate::{
    Chain, Dismissal, Draft, Error, Hash, Health, JournalSize, Loaded, Permit, Place, Store,
};

/// The maximum size of a record. etcd, for example, accepts requests of 1.5 MiB, and the other parts of a request are
/// small.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// Maximum records deleted with each append.
const TRIMMED_PER_APPEND: u64 = 16;

/// The journal of the leader.
pub(super) struct LeaderStore {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) guard: Guard,
    /// The chain up to the last record known to be durable.
    pub(super) chain: Chain,
    pub(super) epoch: u64,
    pub(super) node: Box<str>,
    pub(super) keeper: Keeper,
    /// The TTL of the leader's entry, after which another server can take over from a failed leader.
    pub(super) lease: Duration,
    /// When the store last confirmed that this server leads.
    pub(super) answered_at: Duration,
    pub(super) scribe: Scribe,
    /// Records up to this one are deleted.
    pub(super) trimmed_through: u64,
    pub(super) n_bytes_written: u64,
    /// When the last record known to be durable was written.
    pub(super) written: Moment,
    /// Publishes the position in the journal to the other nodes.
    pub(super) progress: Option<Progress>,
    pub(super) health: Arc<Health>,
    /// A record that was sent and whose outcome is unknown.
    pub(super) sent: Option<Sent>,
}

/// A record that was sent. It is sent again unchanged until its outcome is known. The guard compares the head, so the
/// record is written at most once.
pub(super) struct Sent {
    bytes: Vec<u8>,
    place: Place,
    moment: Moment,
    /// These records are deleted at the same time.
    trims: Range<u64>,
}

impl LeaderStore {
    fn to_send(&self, permit: &Permit, draft: Draft<'_>) -> Sent {
        let moment = draft.moment;
        let bytes = self.chain.encode(permit.epoch(), &self.node, draft);
        let place = Place { seq: self.chain.place().seq + 1, hash: Hash::of(&bytes) };
        let trims = self.trimmed_through + 1..self.to_trim(place) + 1;
        Sent { bytes, place, moment, trims }
    }

    /// Returns up to which record the next append deletes records. It deletes a few records that are in a committed
    /// snapshot, but never the one the head refers to.
    fn to_trim(&self, next: Place) -> u64 {
        let target = self.scribe.through().min(next.seq.saturating_sub(2));
        target.min(self.trimmed_through + TRIMMED_PER_APPEND).max(self.trimmed_through)
    }

    /// Sends the pending record to one member after another, until one reports the outcome.
    fn send(&mut self, n_tries: usize) -> Result<(), Error> {
        let Some(sent) = self.sent.take() else { return Ok(()) };
        let mut trouble = String::new();
        for _ in 0..n_tries.max(1) {
            self.keeper.goes_on();
            let Sent { bytes, place, trims, .. } = &sent;
            let record = Write::Record { place: *place, bytes, trims: trims.clone() };
            match self.backend.write(&self.guard, &record) {
                Ok(verdict) => return self.settled(verdict, sent),
                Err(failure) if failure.kind == FailureKind::NoSpace && mutant!(NoSpaceAsBusy) => {
                    return Err(Error::Busy);
                }
                Err(failure) => {
                    if failure.kind == FailureKind::NoSpace {
                        self.health.is_out_of_room();
                    }
                    trouble = failure.to_string();
                    self.health.is_unanswered(trouble.clone());
                }
            }
            if self.has_lapsed() {
                break;
            }
        }
        self.sent = Some(sent);
        Err(Error::Unsettled(trouble))
    }

    fn settled(&mut self, verdict: Verdict, sent: Sent) -> Result<(), Error> {
        match verdict {
            Verdict::Held(head_at) | Verdict::DoneBefore(head_at) => {
                self.guard.head_at = head_at;
                self.answered_at = pace::now();
                self.chain.wrote(self.epoch, &sent.bytes);
                self.written = sent.moment;
                self.n_bytes_written += sent.bytes.len() as u64;
                self.trimmed_through = sent.trims.end - 1;
                self.keeper.settled(self.chain.place());
                let seq = self.chain.place().seq;
                self.health.pulse().seen(0);
                self.progress.iter().for_each(|progress| progress.came_to(seq));
                self.scribe.appended(seq, sent.bytes.len());
                Ok(())
            }
            verdict => Err(Self::fenced(verdict)),
        }
    }

    /// Another server might lead by now: the writer first answers its waiting clients, then tries again.
    fn has_lapsed(&self) -> bool {
        pace::now().saturating_sub(self.answered_at) >= self.lease
    }

    fn fenced(verdict: Verdict) -> Error {
        match verdict {
            Verdict::Astray(why) => {
                tracing::error!(%why, "the journal is not as this server left it");
                Error::Fenced(why)
            }
            Verdict::Lost(why) => Error::Fenced(why),
            Verdict::Held(_) | Verdict::DoneBefore(_) => Error::Fenced("nothing is wrong".into()),
        }
    }
}

impl Store for LeaderStore {
    /// Always fails, because the state comes from taking over: see [`super::SharedSeat`].
    fn load(&mut self, _: Limits, _: u128) -> Result<Loaded, Error> {
        Err(Error::Refused("the state comes with the seat".into()))
    }

    fn reserve(&mut self) -> Result<Permit, Error> {
        self.keeper.goes_on();
        Ok(Permit::granted(self.epoch))
    }

    fn append(&mut self, permit: Permit, draft: Draft<'_>) -> Result<(), Error> {
        let sent = self.to_send(&permit, draft);
        if sent.bytes.len() > RECORD_BYTES_MAX {
            // The state in memory already contains these changes and must be discarded: the journal will never contain
            // them.
            let n_bytes = sent.bytes.len();
            let system = self.backend.system();
            let why = format!("a record of {n_bytes} bytes is too large for {system}");
            return Err(Error::Fenced(why));
        }
        if mutant!(UnsettledNoted) {
            self.keeper.settled(sent.place);
        }
        self.sent = Some(sent);
        self.send(self.backend.n_tries())
    }

    fn confirm(&mut self, _: Permit) -> Result<(), Error> {
        if mutant!(ConfirmSkipped) {
            return Ok(());
        }
        for _ in 0..self.backend.n_tries().max(1) {
            self.keeper.goes_on();
            let verdict = match self.backend.write(&self.guard, &Write::Nothing) {
                Ok(verdict) => verdict,
                Err(failure) => {
                    self.health.is_unanswered(failure.to_string());
                    if self.has_lapsed() {
                        break;
                    }
                    continue;
                }
            };
            return match verdict {
                Verdict::Held(_) => {
                    self.answered_at = pace::now();
                    self.health.pulse().seen(0);
                    Ok(())
                }
                verdict => Err(Self::fenced(verdict)),
            };
        }
        Err(Error::Busy)
    }

    /// Sends the record again. A read could not tell the outcome, because an earlier attempt might still be pending.
    fn settle(&mut self) -> Result<(), Error> {
        if mutant!(SettleByReading) {
            return self.settle_by_reading();
        }
        self.send(1)
    }

    fn record_bytes_max(&self) -> usize {
        RECORD_BYTES_MAX
    }

    fn is_near(&self) -> bool {
        false
    }

    fn lease(&self) -> Option<Duration> {
        Some(self.lease)
    }

    /// Ends the leadership, so that another node can take over immediately.
    fn finish(&mut self) -> Result<(), Error> {
        self.scribe.leave();
        for _ in 0..self.backend.n_tries() {
            if self.backend.write(&self.guard, &Write::Resignation).is_ok() {
                break;
            }
        }
        self.keeper.leave();
        Ok(())
    }

    fn journal(&self) -> JournalSize {
        let seq = self.chain.place().seq;
        JournalSize {
            seq,
            folded_through: seq,
            n_records: seq - self.trimmed_through,
            n_bytes_written: self.n_bytes_written,
        }
    }

    fn is_torn(&self) -> bool {
        self.scribe.is_torn()
    }

    fn mend(&mut self, machine: &Machine) {
        if !self.is_torn() {
            return;
        }
        let (place, moment) = (self.chain.place(), self.written);
        let origin = Origin { place, epoch: self.epoch, node: self.node.clone(), moment };
        self.scribe.mend(origin, machine);
    }

    fn is_dismissed(&self) -> bool {
        self.keeper.is_dismissed()
    }

    fn dismissal(&self) -> Dismissal {
        self.keeper.dismissal().unwrap_or(Dismissal::ByOperator)
    }

    fn health(&self) -> Arc<Health> {
        self.health.clone()
    }
}

/// A deliberate bug.
impl LeaderStore {
    /// Treats a record that is not there now as not written, as if no earlier attempt could still be pending.
    fn settle_by_reading(&mut self) -> Result<(), Error> {
        let Some(sent) = self.sent.take() else { return Ok(()) };
        let Ok(look) = self.backend.look(sent.place.seq + 1) else {
            self.sent = Some(sent);
            return Err(Error::Unsettled("it cannot be read".into()));
        };
        let head = look.head.ok().flatten().filter(|head| head.place == sent.place);
        let Some(head) = head else { return Err(Error::Busy) };
        self.guard.head_at = head.at;
        self.chain.wrote(self.epoch, &sent.bytes);
        self.keeper.settled(self.chain.place());
        Ok(())
    }
}
