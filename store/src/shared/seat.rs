//! One node's part in a shared store: follows the leader, and takes over when there is no leader.

mod options;
mod takeover;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_base::clock::Clock;
use leasehold_base::pace;

pub use self::options::{Compact, Options};
use self::takeover::CaughtUp;
use super::backend::{Backend, SpaceWatcher, Watching};
use super::follower::Follower;
use super::handover::BackOff;
use super::init;
use super::keeper::{Keeper, Upkeep};
use super::look::DatedLook;
use super::memory::{Memory, instance, receipt};
use super::presence::{Described, Presence};
use super::reading::{Read, Reading, Unread};
use super::value::{self, Drained, Id, RewoundValue, leader_in};
use crate::{Broken, Error, Followed, Health, Leader, News, NodeFolder, Place, Seat, Taken, Told};

/// The TTL of the leader's entry, in seconds, in case the leader dies.
const SEAT_TTL: i64 = 2;
/// The minimum time between a failed takeover and the next attempt.
const BACK_OFF: Duration = Duration::from_millis(500);
/// The minimum time between two log messages about the same trouble.
const TROUBLE_EVERY: Duration = Duration::from_secs(3);
/// A leader seen for this long is alive: an entry of a leader that was rolled back along with the rest of the store has
/// expired by then.
const LIVE_AFTER: Duration = Duration::from_secs(10);

/// Minimum poll interval, however fast the leader writes: each poll costs the store a quorum round.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The id of the store, decoded and as bytes.
struct KnownStore {
    id: Id,
    bytes: Vec<u8>,
}

/// One node's part in a shared store.
pub struct SharedSeat {
    backend: Arc<dyn Backend>,
    options: Options,
    folder: NodeFolder,
    clock: Arc<dyn Clock>,
    memory: Memory,
    /// `None` at first, and after this node has led.
    follower: Option<Follower>,
    /// Events that the follower read during a takeover that then failed. They have not been reported yet.
    untold: Vec<Told>,
    id: Option<KnownStore>,
    leader: Option<Leader>,
    /// The random instance id of the data directory.
    instance: String,
    /// The node's own entry in the store, created after it has read the store.
    presence: Option<Presence>,
    /// Whether it had read the whole journal at its last poll.
    is_whole: bool,
    /// Whether it may lead: it knows that the store contains the latest state, and not an earlier one that was rolled
    /// back to.
    may_lead: bool,
    /// The number of the current leadership, and since when it has been seen.
    leader_since: Option<(i64, Duration)>,
    rest_until: Option<Duration>,
    /// When it last polled and found that it had read everything, by the clock it sleeps by.
    looked_at: Option<Duration>,
    /// Whether the last poll found something new. As long as it does, polling costs less than a watch that reports each
    /// record.
    is_busy: bool,
    /// The last reported trouble, and when it was reported.
    trouble: Option<(String, Duration)>,
    health: Arc<Health>,
    space: Option<SpaceWatcher>,
    /// How long this node does not lead again after other servers could not reach it as leader.
    back_off: Arc<Mutex<BackOff>>,
}

impl SharedSeat {
    /// Joins a store. The node stores in `folder` how far it has read the journal.
    pub fn new(
        backend: Arc<dyn Backend>,
        options: Options,
        folder: NodeFolder,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let memory = Memory::open(folder.path())?;
        let instance = instance(folder.path())?;
        Ok(Self {
            backend,
            options,
            folder,
            clock,
            memory,
            follower: None,
            untold: Vec::new(),
            id: None,
            leader: None,
            instance,
            presence: None,
            is_whole: false,
            may_lead: false,
            leader_since: None,
            rest_until: None,
            looked_at: None,
            is_busy: false,
            trouble: None,
            health: Arc::default(),
            space: None,
            back_off: Arc::default(),
        })
    }

    /// Starts to monitor how much space is left.
    pub fn watching_space(mut self, watching: Watching) -> Result<Self, Error> {
        self.space = self.backend.watch_space(watching, self.health.clone())?;
        Ok(self)
    }

    fn reading(&self) -> Reading<'_> {
        let Self { backend, clock, options, .. } = self;
        let Options { limits, node, witness, .. } = options;
        let (backend, clock, witness) = (&**backend, &**clock, witness.as_ref());
        Reading { backend, clock, limits, node, witness }
    }

    /// Reads the whole store.
    fn load(&mut self) -> Result<News, Error> {
        self.memory = Memory::open(self.folder.path())?;
        let noted = self.memory.noted().cloned();
        let (id, bytes) = self.reading().id_of(noted.as_ref())?;
        // Knowledge of another generation does not apply to this one.
        self.may_lead &= self.id.as_ref().is_some_and(|known| known.bytes == bytes);
        self.id = Some(KnownStore { id: id.clone(), bytes });
        if let Some(noted) = noted.as_ref().filter(|noted| noted.store != id.store) {
            return Err(init::foreign(self.folder.path(), &*self.backend, noted, &id));
        }
        if let Some(noted) = noted.as_ref().filter(|noted| noted.is_later_than(&id)) {
            return Err(self.put_back(format!(
                "it was restored {} times, and now is one that was restored {} times",
                noted.n_restores, id.n_restores
            )));
        }
        // A different generation comes from an operator's restore, which changes the journal intentionally.
        let noted = noted.filter(|noted| noted.generation == id.generation);
        let acknowledged = noted.as_ref().map(|noted| noted.place());
        let boot = self.clock.boot_id();
        let read = self.reading().all(acknowledged);
        let Read { mut follower, told_after, told, look } = match read {
            Ok(read) => read,
            Err(Unread::Broken(broken)) => return Err(self.broken(broken)),
            Err(Unread::Failed(error)) => return Err(error),
        };
        self.note_leader(&look);
        let place = follower.place();
        let is_new = place.seq == id.start;
        self.may_lead |= noted.is_some() || is_new || self.options.lead_without_memory;
        if let Some(at) = noted.and_then(|noted| noted.received(place, boot)) {
            follower.received_before(at);
        }
        let last = follower.moment(&self.options.node, self.clock.boottime());
        let (generation, seq) = (id.generation, place.seq);
        let received = follower.received();
        self.follower = Some(follower);
        self.is_whole = true;
        self.be_present(seq)?;
        self.note(place, received);
        Ok(News::State(Followed { generation, seq, last, told_after, told }))
    }

    /// Creates the node's own entry, once it is certain that this is its store.
    fn be_present(&mut self, seq: u64) -> Result<(), Error> {
        let Options { node, address, peering, never_lead, .. } = &self.options;
        if let (Some(peering), None) = (peering, &self.presence) {
            let (instance, health) = (self.instance.as_str(), self.health.clone());
            let never_leads = *never_lead;
            let described =
                Described { node, instance, address, peering, seq, never_leads, health };
            let presence = Presence::begin(self.backend.clone(), described)?;
            self.presence = Some(presence);
        }
        Ok(())
    }

    /// Returns the error for a store that cannot be read. A leader has the whole state in memory and continues, unless
    /// the store was replaced by another one.
    fn broken(&mut self, broken: Broken) -> Error {
        match broken {
            Broken::Another(why) => self.put_back(why),
            Broken::Damaged(why) => Error::Refused(format!(
                "the store under {} is damaged in {}: {why}. A leader rewrites missing data within {} seconds; if \
                 there is no leader, or the damage remains, restore a backup (leasehold restore BACKUP --store ...)",
                self.backend.location(),
                self.backend.system(),
                self.options.snapshots.check_every.as_secs(),
            )),
        }
    }

    /// Records that the store was rolled back, so that no server leads before an operator has intervened. If an
    /// operator has just restored the store, its generation has changed. Then nothing is recorded, because the problem
    /// concerns the previous generation.
    fn put_back(&mut self, why: String) -> Error {
        let text = value::encode(&RewoundValue {
            node: self.options.node.to_string(),
            why: why.clone(),
            n_restores: self.memory.noted().map_or(0, |noted| noted.n_restores),
        });
        let id = self.id.as_ref().map(|known| &*known.bytes);
        if let Err(error) = self.backend.note_rewound(&text, id) {
            tracing::error!(%error, "cannot record that the store was rolled back");
        }
        let (location, system) = (self.backend.location(), self.backend.system());
        Error::Refused(format!(
            "the store under {location} was rolled back or replaced: {why}. Was {system} restored from a snapshot? No \
             server leads until you run `leasehold restore --store`"
        ))
    }

    fn note_leader(&mut self, look: &DatedLook) {
        let found = look.leader.as_ref();
        let created_at = found.map(|found| found.number);
        if found.is_some() {
            // The last takeover failed because another server was faster, so a pause is not necessary.
            self.rest_until = None;
        }
        let now = pace::now();
        self.leader_since = match (self.leader_since, created_at) {
            (Some((known, since)), Some(at)) if known == at => Some((at, since)),
            (_, at) => at.map(|at| (at, now)),
        };
        let is_old = |(_, since)| now.saturating_sub(since) >= LIVE_AFTER;
        self.may_lead |= self.leader_since.is_some_and(is_old);
        self.leader = found.and_then(leader_in);
    }

    /// Notes that this record is durable, and when it was received, possibly by an earlier process of this node.
    fn note(&mut self, place: Place, received: Option<u64>) {
        self.presence.iter().for_each(|presence| presence.came_to(place.seq));
        let Some(KnownStore { id, .. }) = &self.id else { return };
        let (boot, now) = receipt(&*self.clock);
        self.memory.note(id, place, (boot, received.unwrap_or(now)));
    }

    /// Decides whether this node can take over, after a poll that found no new records.
    fn prospect(&mut self, look: &DatedLook, is_whole: bool, drained: Option<Drained>) -> News {
        if look.is_rewound {
            let system = self.backend.system();
            let why = format!(
                "{system} was rolled back to an earlier state; no server can lead until you run `leasehold restore \
                 --store`"
            );
            return self.troubled(why);
        }
        if let Some(moved_to) = look.moved_to() {
            return self.troubled(format!("the store has moved to {moved_to}; no server can lead"));
        }
        let is_vacant = look.leader.is_none() && is_whole;
        if is_vacant && (look.is_paused || drained.is_some()) {
            let what =
                if drained.is_some() { "this server is drained" } else { "the servers are paused" };
            let why = format!("the cluster has no leader, and {what} (leasehold cluster status)");
            return self.troubled(why);
        }
        if self.options.never_lead {
            self.trouble = None;
            return News::Quiet;
        }
        let is_resting = self.rest_until.is_some_and(|until| pace::now() < until);
        if is_vacant && !self.may_lead {
            let why = "the cluster has no leader, and this server has no record of how far the journal went; see \
                --lead-without-memory";
            return self.troubled(why.into());
        }
        self.trouble = None;
        if is_vacant && !is_resting { News::Vacant } else { News::Quiet }
    }

    /// Logs what is wrong, once. Without the minimum interval, differing errors of several members would alternate
    /// in the log indefinitely.
    fn troubled(&mut self, why: String) -> News {
        let now = pace::now();
        let is_news = |(said, at): &(String, Duration)| {
            *said != why && now.saturating_sub(*at) >= TROUBLE_EVERY
        };
        if self.trouble.as_ref().is_none_or(is_news) {
            tracing::warn!(%why, "this server waits");
            self.trouble = Some((why, now));
        }
        News::Quiet
    }
}

impl Seat for SharedSeat {
    fn follow(&mut self, patience: Duration) -> Result<News, Error> {
        self.is_whole = false;
        if !self.untold.is_empty() {
            return Ok(News::Records(std::mem::take(&mut self.untold)));
        }
        let Some(mut follower) = self.follower.take() else { return self.load() };
        if !std::mem::take(&mut self.is_busy) {
            self.backend.wait(patience);
        }
        if let Some(at) = self.looked_at.take() {
            pace::sleep((at + LOOK_EVERY).saturating_sub(pace::now()));
        }
        if let Some(why) = self.presence.as_ref().and_then(Presence::lost) {
            self.follower = Some(follower);
            return Ok(self.troubled(why));
        }
        let known = follower.place();
        let look = match self.reading().look(known.seq + 1) {
            Ok(look) => look,
            Err(why) => {
                self.follower = Some(follower);
                return Ok(self.troubled(why.to_string()));
            }
        };
        self.note_leader(&look);
        let head = match look.place(&*self.backend) {
            Ok(head) => head,
            Err(error) => {
                self.follower = Some(follower);
                return Ok(self.troubled(error.to_string()));
            }
        };
        if !look.is_of(self.id.as_ref().map_or(&[], |known| &known.bytes)) {
            // An operator has restored it, or is about to.
            return self.load();
        }
        if head.seq < known.seq || head.seq == known.seq && head.hash != known.hash {
            let why = format!("its journal ended at {}, but now ends at {}", known.seq, head.seq);
            return Err(self.put_back(why));
        }
        if look.is_gap(known) {
            return self.load();
        }
        let told = match self.reading().take_in(&mut follower, &look) {
            Ok(told) => told,
            Err(broken) => return Err(self.broken(broken)),
        };
        let is_whole = follower.place() == head;
        self.is_whole = is_whole;
        self.looked_at = is_whole.then(pace::now);
        let drained = look.drained(&self.options.node);
        self.health.pulse().drained(drained == Some(Drained::Wholly));
        self.health.pulse().seen(head.seq.saturating_sub(follower.place().seq));
        self.follower = Some(follower);
        self.is_busy = !told.is_empty();
        if !told.is_empty() {
            self.may_lead = true;
            let place = self.follower.as_ref().map_or(known, Follower::place);
            self.note(place, self.follower.as_ref().and_then(Follower::received));
            return Ok(News::Records(told));
        }
        Ok(self.prospect(&look, is_whole, drained))
    }

    fn take(&mut self) -> Result<Option<Taken>, Error> {
        self.rest_until = Some(pace::now() + BACK_OFF);
        let Some((tenure, lease)) = self.campaign() else { return Ok(None) };
        let Some(mut follower) = self.follower.take() else { return Ok(None) };
        let place = follower.place();
        let Options { compact, compact_every, .. } = self.options;
        let tends_every = (compact == Compact::Own).then_some(compact_every);
        let (backend, memory) = (self.backend.clone(), self.memory.again());
        let upkeep =
            Upkeep { tends_every, watch: self.watch(&tenure), health: self.health.clone() };
        let lasts = Duration::from_secs(lease.ttl.unsigned_abs());
        let keeper = Keeper::start(backend, lease, place, memory, upkeep)?;
        // From here on, any error ends the leadership, because the keeper is dropped.
        let mut told = Vec::new();
        let caught_up = self.caught_up(&mut follower, &mut told, &tenure)?;
        match caught_up.map(|head_at| self.found(head_at)).transpose() {
            Ok(Some(found)) => {
                self.seated(CaughtUp { follower, told, found }, tenure, (keeper, lasts))
            }
            failed => {
                // Keeps the records that were read, so that they need not be read again.
                (self.follower, self.untold) = (Some(follower), told);
                failed.map(|_| None)
            }
        }
    }

    fn leader(&self) -> Option<Leader> {
        self.leader.clone()
    }

    fn find_leader(&mut self) -> Option<Leader> {
        self.leader = self.backend.leader().ok()?.as_ref().and_then(leader_in);
        self.leader.clone()
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn leave(&mut self) {
        self.presence = None;
        self.space = None;
        // If this node led since, the leader's keeper has stored a later record than this memory knows.
        if self.follower.is_some() {
            self.memory.flush();
        }
    }

    fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    fn is_near(&self) -> bool {
        false
    }
}
