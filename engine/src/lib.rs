//! The engine: one writer that owns the machine and the store, and a thread that sees to it that it works.
//!
//! The writer takes what was asked, applies it all, makes what changed durable as one record, and only then answers:
//! refusals and reads too, because they may have seen what was not durable yet. If it cannot know whether a record
//! is durable it stops, and a restart finds out.

pub mod archive;
mod ask;
mod audit;
mod batch;
mod busy;
mod chronicler;
mod commit;
mod directory;
mod event;
mod expiry;
mod gather;
mod handle;
mod lapse;
mod lists;
mod log;
mod mailbox;
mod message;
pub mod metrics;
mod mismatch;
mod need;
mod operator;
pub mod owner;
mod read;
mod refusal;
mod roles;
mod rounds;
mod shared;
mod stale;
mod stepped;
mod term;
mod undelivered;
mod waited;
mod waiters;
mod watch;
mod writer;

// The rounds name these by short paths, which a test with loom defines in another way.
use leasehold_base::sync;

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use leasehold_base::clock::{Clock, LockClock};
use leasehold_base::pace::{self, Handle, Thread};
use leasehold_core::Limits;

pub use archive::{Archive, PastEvents, ReadHistory};
pub use ask::{
    Ask, Enqueue, Enqueued, Granted, GrantedAll, Take, TakeAll, WaitFor, WaitForAll, Waited,
    WaitedAll,
};
pub use audit::{AuditLog, Mismatch};
pub use chronicler::HistoryOptions;
pub use directory::{Counts, FoundLocks, LockQuery, Order, Place, SearchLocks, Stand};
pub use event::{EventLog, Interest, Next, Reader};
pub use expiry::Expiry;
pub use handle::{Call, EngineHandle, Together};
pub use mailbox::Mailbox;
pub use message::Error;
pub use operator::{CountNamespaces, ListHoldings, ListSessions, NamespaceCounts, ReadMaintenance};
pub use read::{
    Filter, LeasePage, LeaveOut, ListLeases, ListLocks, LockPage, Probe, ReadLease, ReadLeases,
    ReadLock, ReadLocks, ReadSession, Standing,
};
pub use shared::Whereabouts;
#[doc(hidden)]
pub use stepped::Stepped;
pub use undelivered::Undelivered;
pub use watch::{WatchLease, Watched};

use leasehold_store::{self as store, Embedded, Seat, Store, Witness};
use metrics::EngineMetrics;
use roles::Roles;
use rounds::{Habits, Lead};
use shared::Shared;
use writer::Writer;

/// How an engine is run.
#[derive(Clone)]
pub struct Options {
    /// What the machine allows.
    pub limits: Limits,
    /// Most requests in one record.
    pub batch_max: usize,
    /// Most requests waiting for their turn; more are refused.
    pub queue_max: usize,
    /// Most changes one sweep makes before others get their turn.
    pub sweep_changes_max: usize,
    /// Most events kept for readers that come back.
    pub events_max: usize,
    /// Maximum bytes of events that readers have not taken yet; beyond it, slow readers miss events.
    pub event_streams_bytes_max: usize,
    /// While the journal has so many bytes that are not in the tables yet, nothing more is taken.
    pub journal_bytes_max: u64,
    /// While anything can expire, the time is written down at least this often.
    pub tick: Duration,
    /// Where it is written who did what; `None`: nowhere. And where the history is, for what the journal has no more.
    pub audit: Option<(Arc<dyn AuditLog>, Option<PathBuf>)>,
    /// Where the history of a server that shares its store goes; `None`: nowhere. Embedded stores write their own.
    pub history: Option<HistoryOptions>,
    /// If it is not known after so long whether a record is durable, the engine stops and a restart has to find out. No
    /// flag sets it: SQLite always knows, or stops at once.
    pub settle_max: Duration,
    /// Who is shown what was written.
    #[doc(hidden)]
    pub witness: Option<Witness>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            batch_max: 1024,
            queue_max: 16_384,
            sweep_changes_max: 256,
            events_max: 10_000,
            event_streams_bytes_max: 64 << 20,
            journal_bytes_max: 1 << 30,
            tick: Duration::from_secs(1),
            audit: None,
            history: None,
            settle_max: Duration::from_secs(10),
            witness: None,
        }
    }
}

impl Options {
    /// Limits of the events kept for readers.
    fn kept(&self) -> event::Kept {
        let Self { events_max, event_streams_bytes_max, .. } = *self;
        event::Kept { n_max: events_max, backlog_bytes_max: event_streams_bytes_max }
    }
}

/// The thread, to be waited for.
pub struct Engine {
    thread: Handle<Result<(), store::Error>>,
}

impl Engine {
    /// Loads the store and starts the thread.
    pub fn start(
        options: Options,
        store: Box<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Arc<EngineMetrics>,
    ) -> Result<(Self, EngineHandle), store::Error> {
        let (lead, handle, shared) = load(options, store, clock, metrics)?;
        let thread = pace::spawn("engine", move || run(&lead, &shared));
        let thread = thread.map_err(|error| store::Error::Refused(error.to_string()))?;
        Ok((Self { thread }, handle))
    }

    /// Takes part in a seat: follows whoever has it, and writes from it whenever this process has it. Returns once
    /// there is a state to follow from. Must not be called where tokio's tasks run.
    pub fn take_part(
        options: Options,
        seat: Box<dyn Seat>,
        clock: Arc<dyn Clock>,
        metrics: Arc<EngineMetrics>,
    ) -> Result<(Self, EngineHandle), store::Error> {
        let (roles, handle) = Roles::start(options, seat, clock, metrics)?;
        let thread = pace::spawn("engine", || roles.live());
        let thread = thread.map_err(|error| store::Error::Refused(error.to_string()))?;
        Ok((Self { thread }, handle))
    }

    /// Waits for the thread to end, after [`EngineHandle::stop`] or because it could not go on.
    pub fn join(self) -> Result<(), store::Error> {
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(store::Error::Unknown("the engine thread panicked".into())))
    }
}

/// The life of the engine's thread: a turn whenever its bell rings or something is due.
fn run(lead: &Lead<Writer>, shared: &Shared) -> Result<(), store::Error> {
    let waker = Waker::from(Arc::new(Unpark(Thread::current())));
    let mut context = Context::from_waker(&waker);
    while let Some(patience) = lead.turn() {
        if shared.inbox.engine.poll(&mut context).is_pending() {
            pace::park(patience);
            // What it was rung for is done next.
            let _ = shared.inbox.engine.poll(&mut context);
        }
    }
    lead.take_end().unwrap_or_else(|| {
        // Somebody panicked during a round. Whoever waits learns by this that there is no answer.
        drop(shared.inbox.close());
        shared.stopped.send_replace(true);
        Err(store::Error::Unknown("a round was never finished".into()))
    })
}

/// Wakes the engine's thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An engine that nobody drives yet.
type Idle = (Arc<Lead<Writer>>, EngineHandle, Arc<Shared>);

/// Loads the store and makes durable that there was a start.
fn load(
    options: Options,
    store: Box<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<EngineMetrics>,
) -> Result<Idle, store::Error> {
    let seed = u128::from_le_bytes(leasehold_base::random::bytes());
    let mut seat = Embedded::new(store, options.limits.clone(), seed);
    let is_near = seat.is_near();
    let nobody = || store::Error::Refused("the store is used already".into());
    let (store, loaded) = seat.take()?.ok_or_else(nobody)?;
    if loaded.is_restored {
        tracing::warn!("this store comes from a backup: everything it held has ended");
    }
    let clock = LockClock::resume(clock, loaded.last);
    if let Some((audit, data)) = &options.audit {
        let place = (loaded.generation, loaded.seq);
        audit.begin(place, &loaded.told, data.as_deref(), clock.moment().wall_ms);
    }
    let events = EventLog::new(loaded.generation, loaded.seq, loaded.told, options.kept());
    let events = Arc::new(events);
    let shared = Arc::new(Shared::new(options.queue_max));
    let health = store.health();
    let mut writer = Writer::new(
        options,
        (store, loaded.epoch),
        loaded.machine,
        clock.clone(),
        shared.clone(),
        events.clone(),
        metrics.clone(),
    );
    writer.begin()?;
    let habits = Habits { is_near, ..Habits::default() };
    let lead = Arc::new(Lead::new(writer, shared.inbox.clone(), habits));
    let handle = EngineHandle::new(lead.clone(), shared.clone(), clock, events, metrics);
    Ok((lead, handle.with_health(health), shared))
}
