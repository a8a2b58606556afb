//! What happened lately, and who is told of it.
//!
//! Events are the facts of the journal, numbered by its records, so that an id means the same after a restart. Whoever
//! watches follows a topic: one namespace, or one lock. What happens elsewhere costs a reader nothing, and what happens
//! in its topic costs the writer one wake-up per worker, however many readers that worker has.

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

/// Most events that are kept beyond the usual because history does not have them yet: some seconds of a busy server.
const N_UNFOLDED_MAX: usize = 100_000;

/// What a reader wants to be told of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Every lock of a namespace.
    Namespace(Arc<str>),
    /// One lock.
    Lock(LockKey),
    /// Every lock there is.
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

/// The latest events, and who is told of new ones.
pub struct EventLog {
    /// Written only while what is latest is locked.
    generation: AtomicU64,
    n_max: usize,
    latest: Mutex<Latest>,
    bells: Bells,
    backlog: Arc<Backlog>,
    /// Who is told of notes, whatever they are about.
    notes: OnceLock<mpsc::Sender<Arc<Event>>>,
    /// Everything up to this record is in history, if there is one that is written from here.
    in_history: AtomicU64,
    /// The last record that was read of what another server wrote.
    followed: watch::Sender<u64>,
    /// Notes that nobody was told of because too many were waiting.
    n_notes_dropped: AtomicU64,
}

struct Latest {
    /// The last record that was told, also if nothing in it was worth telling.
    seq: u64,
    /// Everything up to here is not kept.
    forgotten: EventId,
    events: VecDeque<Arc<Event>>,
    namespaces: HashMap<Arc<str>, Topics>,
    /// The topic of everything.
    all: Option<Arc<Topic>>,
}

/// The topics of one namespace that anybody follows.
#[derive(Default)]
struct Topics {
    all: Option<Arc<Topic>>,
    by_lock: HashMap<Box<str>, Arc<Topic>>,
}

impl EventLog {
    /// A log that goes on after the record `seq`, with what is known of the records before it.
    pub(super) fn new(generation: u64, seq: u64, known: Vec<Event>, kept: Kept) -> Self {
        let Kept { n_max, backlog_bytes_max } = kept;
        let n_forgotten = known.len().saturating_sub(n_max);
        let forgotten = match n_forgotten.checked_sub(1).and_then(|last| known.get(last)) {
            Some(event) => event.id,
            // Just before the first that is known: its record is known whole.
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

    /// Differs between a store and one restored from its backup.
    pub fn generation(&self) -> u64 {
        self.generation.load(Relaxed)
    }

    /// Every note from now on, while no more than `n_max` wait to be taken. Only the first who asks gets any.
    pub fn take_notes(&self, n_max: usize) -> mpsc::Receiver<Arc<Event>> {
        let (sender, receiver) = mpsc::channel(n_max.max(1));
        // Whoever comes second has a receiver that ends at once.
        let _ = self.notes.set(sender);
        receiver
    }

    /// How many notes wait to be taken, and how many were dropped.
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

    /// Events kept for readers that come back.
    pub fn n_kept(&self) -> usize {
        self.latest().events.len()
    }

    /// Bytes of events that wait for readers.
    pub fn n_backlog_bytes(&self) -> usize {
        self.backlog.n_bytes()
    }

    /// A bell for one more worker.
    pub(super) fn bell(&self) -> Bell {
        self.bells.add()
    }

    /// Everything after `since` that `interest` covers; without `since`, only what is to come.
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

    /// The latest events that are wanted and older than `before`, newest first, and the oldest event that is looked at
    /// here: whatever is wanted and older than that is somewhere else.
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

    /// Tells of a record's facts. Called once per record, in order.
    pub(super) fn add(&self, journal: JournalSize, facts: impl Iterator<Item = Fact>, at_ms: i64) {
        self.tell(journal, facts, at_ms, true);
    }

    /// The same of a record that another server wrote: who sends notes is that server's business.
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

    /// Tells of what happened meanwhile, up to the record `seq`, where nobody told it: everything after the record
    /// `told_after` is in `told`. What happened before that and was never told is a gap to whoever reads.
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

    /// The last record of which is known what happened in it.
    pub(super) fn told_through(&self) -> u64 {
        self.latest().seq
    }

    /// Returns when this record was read, or has been told already.
    pub(super) async fn followed_to(&self, seq: u64) {
        let mut followed = self.followed.subscribe();
        let known = self.latest().seq;
        // An error means that nothing will ever follow.
        let _ = followed.wait_for(|at| seq <= known.max(*at)).await;
    }

    /// A reader is gone.
    fn leave(&self, interest: &Interest, topic: &Arc<Topic>) {
        self.latest().drop_if_unread(interest, topic);
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        lock(&self.latest)
    }
}

impl Latest {
    /// What happened up to this record will never be told.
    fn skip(&mut self, seq: u64, bells: &Bells) {
        self.seq = seq;
        self.forgotten = EventId { seq, index: u32::MAX };
        self.events.clear();
        self.all.iter().for_each(|topic| topic.skip(bells));
        for topics in self.namespaces.values() {
            topics.all.iter().chain(topics.by_lock.values()).for_each(|topic| topic.skip(bells));
        }
    }

    /// No event so far is as late as this.
    fn after_all(&self) -> EventId {
        EventId { seq: self.seq + 1, index: 0 }
    }

    /// From where a reader goes on, and why something may be missing.
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

    /// Keeps an event, and forgets the oldest if there are too many; but what history does not have yet is known only
    /// here, and stays until it does.
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

    /// The topic of an interest, with one more reader.
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
