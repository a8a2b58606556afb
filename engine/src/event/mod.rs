//! Recent events, and the readers that follow them.
//!
//! Events are the facts of the journal. Their ids contain the record number, so they stay the same after a restart. A
//! reader follows a topic: one namespace or one lock. Events of other topics cost a reader nothing. An event costs the
//! writer one wake-up per worker that has readers of its topic, however many readers there are.

mod backlog;
mod bell;
mod missed;
mod reader;
mod recall;
mod topic;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use leasehold_base::sync::lock;
use leasehold_core::{Fact, LockKey, What};
use tokio::sync::{mpsc, watch};

use backlog::Backlog;
pub(super) use bell::Bell;
use bell::Bells;
use missed::Missed;
pub use reader::{Next, Reader};
use topic::Topic;

use leasehold_store::{Cursor, Event, EventId, JournalSize};

/// Maximum events kept in addition to `n_max` because the history does not contain them yet: a few seconds of a busy
/// server.
const N_UNFOLDED_MAX: usize = 100_000;

/// The events that a reader follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Events of all locks in a namespace.
    Namespace(Arc<str>),
    /// Events of one lock.
    Lock(LockKey),
    /// All events.
    All,
}

impl Interest {
    fn covers(&self, key: &LockKey) -> bool {
        match self {
            Interest::Namespace(namespace) => *namespace == key.namespace,
            Interest::Lock(lock) => lock == key,
            Interest::All => true,
        }
    }
}

/// Limits of the events kept for readers.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// Maximum events kept for returning readers.
    pub(super) n_max: usize,
    /// Maximum bytes of events that wait for readers.
    pub(super) backlog_bytes_max: usize,
}

/// Recent events and the readers that follow new ones.
pub struct EventLog {
    /// Changes only while `latest` is locked.
    generation: AtomicU64,
    n_max: usize,
    latest: Mutex<Latest>,
    bells: Bells,
    backlog: Arc<Backlog>,
    /// Receives all notes.
    notes: OnceLock<mpsc::Sender<Arc<Event>>>,
    /// The history contains all events up to this record. `u64::MAX` if this process does not write a history.
    in_history: AtomicU64,
    /// The last journal record that this server read while it followed another one.
    followed: watch::Sender<u64>,
    /// Notes that were dropped because too many were waiting.
    n_notes_dropped: AtomicU64,
}

struct Latest {
    /// The last published record, including records without events.
    seq: u64,
    /// Events up to this id are no longer kept.
    forgotten: EventId,
    events: VecDeque<Arc<Event>>,
    namespaces: HashMap<Arc<str>, Topics>,
    /// The topic of [`Interest::All`].
    all: Option<Arc<Topic>>,
}

/// The topics of one namespace that have readers.
#[derive(Default)]
struct Topics {
    all: Option<Arc<Topic>>,
    by_lock: HashMap<Box<str>, Arc<Topic>>,
}

impl EventLog {
    /// Creates a log that continues after the record `seq`. `known` contains the events of earlier records.
    pub(super) fn new(generation: u64, seq: u64, known: Vec<Event>, kept: Kept) -> Self {
        let Kept { n_max, backlog_bytes_max } = kept;
        let n_forgotten = known.len().saturating_sub(n_max);
        let forgotten = match n_forgotten.checked_sub(1).and_then(|last| known.get(last)) {
            Some(event) => event.id,
            // Just before the first known event, because all events of its record are known.
            None => EventId {
                seq: known.first().map_or(seq, |event| event.id.seq - 1),
                index: u32::MAX,
            },
        };
        let events = known.into_iter().skip(n_forgotten).map(Arc::new).collect();
        let latest = Latest { seq, forgotten, events, namespaces: HashMap::new(), all: None };
        Self {
            generation: AtomicU64::new(generation),
            n_max,
            latest: Mutex::new(latest),
            bells: Bells::default(),
            backlog: Arc::new(Backlog::new(backlog_bytes_max)),
            notes: OnceLock::new(),
            in_history: AtomicU64::new(u64::MAX),
            followed: watch::Sender::new(seq),
            n_notes_dropped: AtomicU64::new(0),
        }
    }

    /// The generation of the store. It changes when the store is restored from a backup.
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Returns all future notes of leases, for one receiver. If more than `n_max` wait, notes are dropped. Only the
    /// first call returns a working receiver.
    pub fn take_notes(&self, n_max: usize) -> mpsc::Receiver<Arc<Event>> {
        let (sender, receiver) = mpsc::channel(n_max.max(1));
        // After the first call, the receiver ends immediately.
        let _ = self.notes.set(sender);
        receiver
    }

    /// Returns how many notes are waiting, and how many were dropped.
    pub fn n_notes(&self) -> (usize, u64) {
        let n_waiting = self.notes.get().map_or(0, |notes| notes.max_capacity() - notes.capacity());
        (n_waiting, self.n_notes_dropped.load(Relaxed))
    }

    fn pass_on(&self, event: &Arc<Event>) {
        if let (What::Noted(_), Some(notes)) = (event.fact.what, self.notes.get())
            && notes.try_send(event.clone()).is_err()
        {
            self.n_notes_dropped.fetch_add(1, Relaxed);
        }
    }

    /// The number of events kept for returning readers.
    pub fn n_kept(&self) -> usize {
        self.latest().events.len()
    }

    /// The bytes of the events that wait for readers.
    pub fn n_backlog_bytes(&self) -> usize {
        self.backlog.n_bytes()
    }

    /// Adds a bell for one more worker.
    pub(super) fn bell(&self) -> Bell {
        self.bells.add()
    }

    /// Follows the events of `interest` after `since`, or only new ones without `since`.
    pub(super) fn follow(
        self: &Arc<Self>,
        interest: Interest,
        since: Option<Cursor>,
        bell: Option<&Bell>,
    ) -> Reader {
        let mut latest = self.latest();
        let (gap, after) = match since {
            None => (None, None),
            Some(cursor) => latest.resume(self.generation(), cursor),
        };
        let generation = self.generation();
        let missed = after.map(|after| Missed::new(generation, after, &latest, &interest));
        let topic = latest.topic(&interest, &self.backlog);
        Reader::new(self.clone(), interest, topic, bell, gap, missed)
    }

    /// Returns at most `n_max` matching events before `before`, newest first, and the id of the oldest event kept here.
    /// Older events are only in the history.
    pub fn recent(
        &self,
        before: Option<EventId>,
        n_max: usize,
        is_wanted: impl Fn(&Event) -> bool,
    ) -> (Vec<Arc<Event>>, EventId) {
        let latest = self.latest();
        let oldest = latest.events.front().map_or(latest.after_all(), |event| event.id);
        let is_meant =
            |event: &&Arc<Event>| before.is_none_or(|before| event.id < before) && is_wanted(event);
        let events = latest.events.iter().rev().filter(is_meant).take(n_max).cloned().collect();
        (events, oldest)
    }

    /// Publishes the facts of a record. Called once per record, in order.
    pub(super) fn add(&self, journal: JournalSize, facts: impl Iterator<Item = Fact>, at_ms: i64) {
        self.tell(journal, facts, at_ms, true);
    }

    /// Publishes the facts of a record that another server wrote. Sends no notes, because the other server sends them.
    pub(super) fn overhear(&self, seq: u64, facts: Vec<Fact>, at_ms: i64) {
        let journal = JournalSize { seq, folded_through: seq, ..JournalSize::default() };
        self.tell(journal, facts.into_iter(), at_ms, false);
        self.followed.send_replace(seq);
    }

    fn tell(
        &self,
        journal: JournalSize,
        facts: impl Iterator<Item = Fact>,
        at_ms: i64,
        passes_on: bool,
    ) {
        let JournalSize { seq, folded_through, .. } = journal;
        let folded_through = folded_through.min(self.in_history.load(Relaxed));
        let mut latest = self.latest();
        latest.seq = seq;
        for (index, fact) in facts.enumerate() {
            let id = EventId { seq, index: index as u32 };
            let event = Arc::new(Event::new(id, fact, at_ms));
            latest.publish(&event, &self.bells);
            if passes_on {
                self.pass_on(&event);
            }
            latest.keep(event, self.n_max, folded_through);
        }
        drop(latest);
        self.bells.ring();
    }

    /// Publishes the events that were missed, up to the record `seq`. `told` contains all events after the record
    /// `told_after`. Readers get a gap in place of earlier events that were never published.
    pub(super) fn catch_up(&self, told_after: u64, seq: u64, told: Vec<Event>) {
        let mut latest = self.latest();
        if told_after > latest.seq {
            latest.skip(told_after, &self.bells);
        }
        let known = latest.seq;
        for event in told.into_iter().filter(|event| event.id.seq > known) {
            let event = Arc::new(event);
            latest.publish(&event, &self.bells);
            latest.keep(event, self.n_max, seq.min(self.in_history.load(Relaxed)));
        }
        latest.seq = latest.seq.max(seq);
        drop(latest);
        self.bells.ring();
        self.followed.send_replace(seq);
    }

    /// The last record whose events were published.
    pub(super) fn told_through(&self) -> u64 {
        self.latest().seq
    }

    /// Waits until this record was read or published.
    pub(super) async fn followed_to(&self, seq: u64) {
        let mut followed = self.followed.subscribe();
        let known = self.latest().seq;
        // An error means that this server will never follow again.
        let _ = followed.wait_for(|at| seq <= known.max(*at)).await;
    }

    /// Removes the topic if this was its last reader.
    fn leave(&self, interest: &Interest, topic: &Arc<Topic>) {
        self.latest().drop_if_unread(interest, topic);
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        lock(&self.latest)
    }
}

impl Latest {
    /// Marks the events up to this record as lost: readers get a gap.
    fn skip(&mut self, seq: u64, bells: &Bells) {
        self.seq = seq;
        self.forgotten = EventId { seq, index: u32::MAX };
        self.events.clear();
        self.all.iter().for_each(|topic| topic.skip(bells));
        for topics in self.namespaces.values() {
            topics.all.iter().chain(topics.by_lock.values()).for_each(|topic| topic.skip(bells));
        }
    }

    /// Returns an id later than that of every event so far.
    fn after_all(&self) -> EventId {
        EventId { seq: self.seq + 1, index: 0 }
    }

    /// Returns why events might be missing, if they might, and the id after which a reader continues.
    fn resume(&self, generation: u64, cursor: Cursor) -> (Option<&'static str>, Option<EventId>) {
        if cursor.generation != generation {
            return (Some("the server was restored from a backup"), Some(self.forgotten));
        }
        if cursor.id < self.forgotten {
            return (Some("older events are no longer kept"), Some(self.forgotten));
        }
        let has_happened = cursor.id.seq <= self.seq;
        (
            if has_happened { None } else { Some("this event id does not exist yet") },
            Some(cursor.id),
        )
    }

    fn publish(&self, event: &Arc<Event>, bells: &Bells) {
        let key = &event.fact.lock;
        self.all.iter().for_each(|topic| topic.push(event, bells));
        let Some(topics) = self.namespaces.get(&key.namespace) else { return };
        for topic in topics.all.iter().chain(topics.by_lock.get(&key.name)) {
            topic.push(event, bells);
        }
    }

    /// Keeps an event and drops the oldest if there are too many. Events that the history does not contain yet are kept
    /// longer.
    fn keep(&mut self, event: Arc<Event>, n_max: usize, folded_through: u64) {
        self.events.push_back(event);
        while let Some(oldest) = self.events.front()
            && self.events.len() > n_max
            && (oldest.id.seq <= folded_through || self.events.len() > n_max + N_UNFOLDED_MAX)
        {
            self.forgotten = oldest.id;
            self.events.pop_front();
        }
    }

    /// Returns the topic of an interest and adds a reader to it.
    fn topic(&mut self, interest: &Interest, backlog: &Arc<Backlog>) -> Arc<Topic> {
        let new = || Arc::new(Topic::new(backlog.clone()));
        let topic = match interest {
            Interest::Namespace(namespace) => {
                let topics = self.namespaces.entry(namespace.clone()).or_default();
                topics.all.get_or_insert_with(new)
            }
            Interest::Lock(key) => {
                let topics = self.namespaces.entry(key.namespace.clone()).or_default();
                topics.by_lock.entry(key.name.clone()).or_insert_with(new)
            }
            Interest::All => self.all.get_or_insert_with(new),
        };
        topic.join();
        topic.clone()
    }

    fn drop_if_unread(&mut self, interest: &Interest, topic: &Arc<Topic>) {
        if !topic.leave() {
            return;
        }
        let namespace = match interest {
            Interest::Namespace(namespace) => namespace,
            Interest::Lock(key) => &key.namespace,
            Interest::All => return self.all = None,
        };
        let Some(topics) = self.namespaces.get_mut(namespace) else { return };
        match interest {
            Interest::Namespace(_) | Interest::All => topics.all = None,
            Interest::Lock(key) => drop(topics.by_lock.remove(&key.name)),
        }
        if topics.all.is_none() && topics.by_lock.is_empty() {
            self.namespaces.remove(namespace);
        }
    }
}
