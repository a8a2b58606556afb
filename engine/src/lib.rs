//! The engine: one writer that owns the machine and the store, and a thread that runs it.
//!
//! The writer takes the queued requests, applies all of them, makes their changes durable as one record, and only then
//! replies. Refusals and reads wait for the record too, because they might be based on changes that were not durable
//! yet. If the store cannot tell whether a record is durable, the engine stops, and a restart finds out.

pub mod archive;
mod ask;
mod audit;
mod batch;
mod busy;
mod chronicler;
mod commit;
mod directory;
mod durability;
mod error;
mod event;
mod expiry;
mod gather;
mod handle;
mod holders;
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

// The rounds import these by short paths, because the loom tests define them differently.
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
pub use error::Error;
pub use event::{EventLog, Interest, Next, Reader};
pub use expiry::Expiry;
pub use handle::{Call, EngineHandle, Together};
pub use holders::{CheckToken, ReadLocks, Secrets, TokenState};
pub use mailbox::Mailbox;
pub use operator::{CountNamespaces, ListHoldings, ListSessions, NamespaceCounts, ReadMaintenance};
pub use read::{
    Filter, LeasePage, LeaveOut, ListLeases, ListLocks, LockPage, Probe, ReadLease, ReadLeases,
    ReadLock, ReadSession, Standing,
};
pub use shared::Whereabouts;
#[doc(hidden)]
pub use stepped::Stepped;
pub use undelivered::Undelivered;
pub use watch::{WatchLease, Watched};

use durability::Durability;
use leasehold_store::{self as store, Embedded, Seat, Store, Witness};
use metrics::EngineMetrics;
use roles::Roles;
use rounds::{Habits, Lead};
use shared::Shared;
use writer::Writer;

/// Settings of an engine.
#[derive(Clone)]
pub struct Options {
    /// Limits of the machine.
    pub limits: Limits,
    /// Maximum requests per journal record.
    pub batch_max: usize,
    /// Maximum queued requests; further ones are refused.
    pub queue_max: usize,
    /// Maximum changes of one sweep, so that requests are not delayed.
    pub sweep_changes_max: usize,
    /// Maximum events kept for returning readers.
    pub events_max: usize,
    /// Maximum bytes of events that readers have not taken yet. Beyond that, slow readers miss events.
    pub event_streams_bytes_max: usize,
    /// Maximum bytes of journal records that are not folded into the tables. Beyond that, new locks are refused.
    pub journal_bytes_max: u64,
    /// While a lease or session can expire, the current time is recorded at least this often.
    pub tick: Duration,
    /// The audit log and the data directory with the history that completes it; `None`: off.
    pub audit: Option<(Arc<dyn AuditLog>, Option<PathBuf>)>,
    /// The history of a server with a shared store; `None`: off. Embedded stores write their own.
    pub history: Option<HistoryOptions>,
    /// If the outcome of an append is still unknown after this long, the engine stops so that a restart finds out. Not
    /// a setting: SQLite never leaves an outcome open for long.
    pub settle_max: Duration,
    /// For tests: observes the machine after each durable record.
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

/// A running engine thread, which can be joined.
pub struct Engine {
    thread: Handle<Result<(), store::Error>>,
}

impl Engine {
    /// Loads the store and starts the engine's thread.
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

    /// Joins a cluster: follows its leader, and writes whenever this process is the leader. Returns once there is a
    /// state to follow from. Blocks, so it must not be called on a tokio thread.
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

    /// Waits for the thread to end, after [`EngineHandle::stop`] or a fatal error.
    pub fn join(self) -> Result<(), store::Error> {
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(store::Error::Unknown("the engine thread panicked".into())))
    }
}

/// The main loop of the engine's thread: does a turn whenever its bell rings or something is due.
fn run(lead: &Lead<Writer>, shared: &Shared) -> Result<(), store::Error> {
    let waker = Waker::from(Arc::new(Unpark(Thread::current())));
    let mut context = Context::from_waker(&waker);
    while let Some(patience) = lead.turn() {
        if shared.inbox.engine.poll(&mut context).is_pending() {
            pace::park(patience);
            // Clears the bell: the next turn does what it was rung for.
            let _ = shared.inbox.engine.poll(&mut context);
        }
    }
    lead.take_end().unwrap_or_else(|| {
        // A round panicked. Closing the inbox tells the clients that no answers will come.
        drop(shared.inbox.close());
        shared.stopped.send_replace(true);
        Err(store::Error::Unknown("a round was never finished".into()))
    })
}

/// A waker that unparks the engine's thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// An engine without a thread.
type Idle = (Arc<Lead<Writer>>, EngineHandle, Arc<Shared>);

/// Loads the store and makes a record of the start durable.
fn load(
    options: Options,
    store: Box<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<EngineMetrics>,
) -> Result<Idle, store::Error> {
    let seed = u128::from_le_bytes(leasehold_base::random::bytes());
    let mut seat = Embedded::new(store, options.limits.clone(), seed);
    let is_near = seat.is_near();
    let in_use = || store::Error::Refused("the store is used already".into());
    let (store, loaded) = seat.take()?.ok_or_else(in_use)?;
    if loaded.is_restored {
        tracing::warn!("restored from a backup: all leases have ended");
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
        (options, Durability::Embedded),
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
