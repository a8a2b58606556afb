//! The seat of a store in etcd: following whoever has it, and taking it when nobody does.

mod takeover;

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_core::Limits;
use leasehold_etcd::{KeyValue, Op, Txn, TxnResponse, When};

use super::cluster::Cluster;
use super::compaction::{self, Compaction};
use super::follower::{Follower, events};
use super::keeper::Keeper;
use super::keys::Keys;
use super::memory::{Memory, instance, receipt};
use super::presence::{Described, Presence};
use super::scribe::Snapshots;
use super::snapshot;
use super::value::{self, FORMAT, HeadValue, Id, leader_in};
use crate::clock::Clock;
use crate::store::{Error, Followed, Leader, News, NodeFolder, Peering, Place, Seat, Taken, Told};

/// How long etcd keeps the seat of a leader that is gone, in seconds.
const SEAT_TTL: i64 = 2;
/// Records that are read at once: together no more than an answer may have.
const RECORDS_MAX: i64 = 32;
/// After a takeover that failed, the next is not tried before this.
const BACK_OFF: Duration = Duration::from_millis(500);
/// A leader that is seen for so long is alive: a seat that was put back with the rest of etcd has run out by then.
const LIVE_AFTER: Duration = Duration::from_secs(10);
/// Records may be trimmed while they are being read, but not so often in a row.
const GAPS_MAX: u32 = 5;
/// How long etcd may be silent when a node starts.
const START_MAX: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(100);

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name, which no other node has.
    pub node: Box<str>,
    /// Where clients reach it.
    pub address: Box<str>,
    /// Where the other servers reach it; `None`: they cannot, and it is not listed among them.
    pub peering: Option<Peering>,
    /// What the machine allows.
    pub limits: Limits,
    /// When snapshots are taken.
    pub snapshots: Snapshots,
    /// How often etcd is to forget what keys were, if nobody else uses it.
    pub compact_every: Duration,
    /// It may lead although its folder does not remember how far the journal went.
    pub lead_without_memory: bool,
}

/// One node's part in the seat.
pub struct EtcdSeat {
    cluster: Arc<dyn Cluster>,
    keys: Keys,
    options: Options,
    folder: NodeFolder,
    clock: Arc<dyn Clock>,
    memory: Memory,
    /// Not there at first, and after a time in the seat.
    follower: Option<Follower>,
    id: Option<Id>,
    leader: Option<Leader>,
    /// Drawn once for the folder.
    instance: String,
    /// Its own key, once it has read the store.
    presence: Option<Presence>,
    /// It had read everything when it last looked.
    is_whole: bool,
    /// It knows that what is in etcd is what was there last, and not an earlier state that was put back.
    may_lead: bool,
    /// Since when the same leader was seen, and in which revision it took the seat.
    leader_since: Option<(i64, Instant)>,
    rest_until: Option<Instant>,
    /// What was last said to be wrong.
    trouble: Option<String>,
}

/// What one look at etcd shows.
struct Look {
    answer: TxnResponse,
    /// When it was read.
    received: u64,
}

/// The places of what is read by a look.
const LEADER: usize = 0;
const HEAD: usize = 1;
const SLOTS: usize = 2;
const REWOUND: usize = 3;

impl Options {
    /// A node of this name that clients reach there, with the usual bounds.
    pub fn new(node: &str, address: &str, limits: Limits) -> Self {
        Self {
            node: node.into(),
            address: address.into(),
            peering: None,
            limits,
            snapshots: Snapshots::default(),
            compact_every: compaction::EVERY,
            lead_without_memory: false,
        }
    }
}

impl EtcdSeat {
    /// Takes part under this prefix, and remembers what it has seen in this folder.
    pub fn new(
        cluster: Arc<dyn Cluster>,
        prefix: &str,
        options: Options,
        folder: NodeFolder,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let memory = Memory::open(folder.path())?;
        let instance = instance(folder.path())?;
        Ok(Self {
            cluster,
            keys: Keys::new(prefix),
            options,
            folder,
            clock,
            memory,
            follower: None,
            id: None,
            leader: None,
            instance,
            presence: None,
            is_whole: false,
            may_lead: false,
            leader_since: None,
            rest_until: None,
            trouble: None,
        })
    }

    /// Everything from the record `from` on, as far as it fits, and who leads: at one revision, by a quorum.
    fn look(&self, from: u64) -> Result<Look, String> {
        let (first, end) = self.keys.slots_from(from);
        let txn = Txn::default()
            .then(Op::Get(self.keys.leader()))
            .then(Op::Get(self.keys.head()))
            .then(Op::GetRange(first, end, RECORDS_MAX))
            .then(Op::Get(self.keys.rewound()))
            .request();
        let answer = self.cluster.txn(txn).map_err(|error| error.to_string())?;
        Ok(Look { answer, received: self.clock.boottime() })
    }

    /// Reads the whole store.
    fn load(&mut self) -> Result<News, Error> {
        self.memory = Memory::open(self.folder.path())?;
        let id = self.read_id()?;
        let noted = self.memory.noted().cloned();
        if let Some(noted) = noted.as_ref().filter(|noted| noted.store != id.store) {
            return Err(Error::Refused(format!(
                "{} belongs to a node of another store ({}, and this is {})",
                self.folder.path().display(),
                noted.store,
                id.store
            )));
        }
        // Another generation was restored by an operator, who knows that it is not what it was.
        let noted = noted.filter(|noted| noted.generation == id.generation);
        let acknowledged = noted.as_ref().map(|noted| noted.place());
        let boot = self.clock.boot_id();
        let mut follower = self.patiently(|seat| seat.begin())?.expecting(acknowledged);
        let (mut told_after, mut told) = (follower.place().seq, Vec::new());
        let mut n_gaps = 0;
        loop {
            let look = self.patiently(|seat| seat.look(follower.place().seq + 1))?;
            if look.is_gap(&self.keys, follower.place()) && n_gaps < GAPS_MAX {
                // They are in a snapshot by now.
                n_gaps += 1;
                follower = self.patiently(|seat| seat.begin())?.expecting(acknowledged);
                (told_after, told) = (follower.place().seq, Vec::new());
                continue;
            }
            match self.take_in(&mut follower, &look) {
                Ok(more) => told.extend(more),
                Err(why) => return Err(self.put_back(why)),
            }
            self.note_leader(&look);
            if look.head(&self.keys)? == follower.place() {
                break;
            }
            if look.slots().is_empty() {
                return Err(self.put_back("the journal does not go as far as its head says".into()));
            }
        }
        if let Err(why) = follower.chain.end() {
            return Err(self.put_back(why));
        }
        let place = follower.place();
        self.may_lead |= noted.is_some() || place.seq == 0 || self.options.lead_without_memory;
        if let Some(at) = noted.and_then(|noted| noted.received(place, boot)) {
            follower.received_before(at);
        }
        let last = follower.moment(&self.options.node, self.clock.boottime());
        let (generation, seq) = (id.generation, place.seq);
        self.id = Some(id);
        self.follower = Some(follower);
        self.is_whole = true;
        self.be_present(seq)?;
        self.note(place);
        let told = events(told).collect();
        Ok(News::State(Followed { generation, seq, last, told_after, told }))
    }

    /// Has the others see it, once it knows that this is its store.
    fn be_present(&mut self, seq: u64) -> Result<(), Error> {
        let Options { node, address, peering, .. } = &self.options;
        if let (Some(peering), None) = (peering, &self.presence) {
            let described = Described { node, instance: &self.instance, address, peering, seq };
            let presence = Presence::begin(self.cluster.clone(), &self.keys, described)?;
            self.presence = Some(presence);
        }
        Ok(())
    }

    /// What is in the snapshot, if there is one.
    fn begin(&self) -> Result<Follower, String> {
        let (manifest, _) = snapshot::find(&*self.cluster, &self.keys)?;
        let limits = self.options.limits.clone();
        let received = receipt(&*self.clock);
        Follower::begin(&*self.cluster, &self.keys, manifest.as_ref(), limits, received)
    }

    fn read_id(&self) -> Result<Id, Error> {
        let key = self.keys.id();
        let txn = Txn::default().then(Op::Get(key.clone())).request();
        let answer = self
            .patiently(|seat| seat.cluster.txn(txn.clone()).map_err(|error| error.to_string()))?;
        let Some(found) = answer.found(0) else {
            return Err(Error::Refused(format!(
                "there is no store under {} in etcd; `leasehold init --store` makes one",
                self.keys.prefix()
            )));
        };
        let id: Id = value::decode(&key, &found.value).map_err(Error::Refused)?;
        if id.format > FORMAT {
            return Err(Error::Refused(format!(
                "the store under {} was made by a newer version (format {}, and this one knows {FORMAT})",
                self.keys.prefix(),
                id.format
            )));
        }
        Ok(id)
    }

    /// Asks again for a while.
    fn patiently<T>(&self, ask: impl Fn(&Self) -> Result<T, String>) -> Result<T, Error> {
        let began = Instant::now();
        loop {
            match ask(self) {
                Ok(answer) => return Ok(answer),
                Err(why) if began.elapsed() >= START_MAX => {
                    return Err(Error::Refused(format!("etcd cannot be read: {why}")));
                }
                Err(_) => std::thread::sleep(START_PAUSE),
            }
        }
    }

    /// Adds the records that a look has shown.
    fn take_in(&self, follower: &mut Follower, look: &Look) -> Result<Vec<Told>, String> {
        follower.absorb(&self.keys, look.slots(), look.received)
    }

    /// What is there is not what was there: nobody may lead before an operator has looked at it.
    fn put_back(&mut self, why: String) -> Error {
        let text = value::encode(&serde_json::json!({"node": &*self.options.node, "why": &why}));
        let txn = Txn::default().when(self.keys.rewound(), When::Absent);
        let txn = txn.then(Op::Put(self.keys.rewound(), text, 0)).request();
        if let Err(error) = self.cluster.txn(txn) {
            tracing::error!(%error, "could not write down that etcd was put back");
        }
        Error::Refused(format!(
            "the store under {} is not what it was: {why}. Was etcd restored from a snapshot? Nobody leads until \
             an operator has looked at it",
            self.keys.prefix()
        ))
    }

    fn note_leader(&mut self, look: &Look) {
        let found = look.answer.found(LEADER);
        let created_at = found.map(|found| found.create_revision);
        if found.is_some() {
            // It failed because somebody else was quicker.
            self.rest_until = None;
        }
        self.leader_since = match (self.leader_since, created_at) {
            (Some((known, since)), Some(at)) if known == at => Some((at, since)),
            (_, at) => at.map(|at| (at, Instant::now())),
        };
        self.may_lead |= self.leader_since.is_some_and(|(_, at)| at.elapsed() >= LIVE_AFTER);
        self.leader = found.and_then(leader_in);
    }

    fn note(&mut self, place: Place) {
        self.presence.iter().for_each(|presence| presence.came_to(place.seq));
        let Some(id) = &self.id else { return };
        self.memory.note((&id.store, id.generation), place, receipt(&*self.clock));
    }

    /// Says what is wrong, once.
    fn troubled(&mut self, why: String) -> News {
        if self.trouble.as_ref() != Some(&why) {
            tracing::warn!(%why, "cannot follow");
            self.trouble = Some(why);
        }
        News::Quiet
    }
}

impl Look {
    fn slots(&self) -> &[KeyValue] {
        self.answer.found_all(SLOTS)
    }

    /// Are records missing after this place?
    fn is_gap(&self, keys: &Keys, place: Place) -> bool {
        let first = self.slots().first().and_then(|slot| keys.seq_of(&slot.key));
        first.is_some_and(|first| first > place.seq + 1)
    }

    /// How far the journal goes.
    fn head(&self, keys: &Keys) -> Result<Place, Error> {
        let wiped = || format!("the store under {} is gone from etcd", keys.prefix());
        let found = self.answer.found(HEAD).ok_or_else(|| Error::Refused(wiped()))?;
        let head: HeadValue = value::decode(&found.key, &found.value).map_err(Error::Refused)?;
        head.place().ok_or_else(|| Error::Refused("the head of the journal is no head".into()))
    }
}

impl Seat for EtcdSeat {
    fn follow(&mut self, patience: Duration) -> Result<News, Error> {
        self.is_whole = false;
        let Some(mut follower) = self.follower.take() else { return self.load() };
        self.cluster.wait(patience);
        if let Some(why) = self.presence.as_ref().and_then(Presence::lost) {
            self.follower = Some(follower);
            return Ok(self.troubled(why));
        }
        let known = follower.place();
        let look = match self.look(known.seq + 1) {
            Ok(look) => look,
            Err(why) => {
                self.follower = Some(follower);
                return Ok(self.troubled(why));
            }
        };
        self.note_leader(&look);
        let head = match look.head(&self.keys) {
            Ok(head) => head,
            Err(error) => {
                self.follower = Some(follower);
                return Ok(self.troubled(error.to_string()));
            }
        };
        if head.seq < known.seq || head.seq == known.seq && head.hash != known.hash {
            let why = format!("its journal ended at {}, and now at {}", known.seq, head.seq);
            return Err(self.put_back(why));
        }
        if look.is_gap(&self.keys, known) {
            return self.load();
        }
        let told = match self.take_in(&mut follower, &look) {
            Ok(told) => told,
            Err(why) => return Err(self.put_back(why)),
        };
        let is_whole = follower.place() == head;
        self.is_whole = is_whole;
        self.follower = Some(follower);
        if !told.is_empty() {
            self.may_lead = true;
            self.note(self.follower.as_ref().map_or(known, Follower::place));
            return Ok(News::Records(told));
        }
        self.trouble = None;
        if look.answer.found(REWOUND).is_some() {
            return Ok(
                self.troubled("etcd was put back to an earlier state: nobody may lead".into())
            );
        }
        let is_vacant = look.answer.found(LEADER).is_none() && is_whole;
        let is_resting = self.rest_until.is_some_and(|until| Instant::now() < until);
        if is_vacant && !self.may_lead {
            let why = "nobody leads, and this node does not remember how far the journal went: see \
                       --lead-without-memory";
            return Ok(self.troubled(why.into()));
        }
        Ok(if is_vacant && !is_resting { News::Vacant } else { News::Quiet })
    }

    fn take(&mut self) -> Result<Option<Taken>, Error> {
        self.rest_until = Some(Instant::now() + BACK_OFF);
        let Some((tenure, lease)) = self.campaign() else { return Ok(None) };
        let Some(follower) = self.follower.take() else { return Ok(None) };
        let place = follower.place();
        let compaction = Compaction::new(self.keys.clone(), self.options.compact_every);
        let (cluster, memory) = (self.cluster.clone(), self.memory.again());
        let keeper = Keeper::start(cluster, lease, place, memory, compaction)?;
        // From here on the seat is given back if anything goes wrong.
        match self.caught_up(follower, &tenure)? {
            Some(caught_up) => self.seated(caught_up, tenure, keeper),
            None => Ok(None),
        }
    }

    fn leader(&self) -> Option<Leader> {
        self.leader.clone()
    }

    fn find_leader(&mut self) -> Option<Leader> {
        let txn = Txn::default().then(Op::Get(self.keys.leader())).request();
        let answer = self.cluster.txn(txn).ok()?;
        self.leader = answer.found(0).and_then(leader_in);
        self.leader.clone()
    }

    fn is_whole(&self) -> bool {
        self.is_whole
    }

    fn leave(&mut self) {
        self.presence = None;
        // Whoever had the seat last has written down more than we know.
        if self.follower.is_some() {
            self.memory.flush();
        }
    }

    fn is_near(&self) -> bool {
        false
    }
}
