//! How threads begin, wait and end. The system sees to that. A simulation has its own: there one thread runs at a time,
//! and time is what the simulation says it is.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::lock;

/// As `nice` counts.
#[cfg(feature = "etcd")]
const LEAST_URGENT: i32 = 19;

thread_local! {
    static PACE: RefCell<Option<Arc<dyn Pace>>> = const { RefCell::new(None) };
}

/// What a simulation does for one thread in place of the system.
pub trait Pace: Send + Sync {
    /// Time that has passed since some moment.
    fn now(&self) -> Duration;

    /// Waits until somebody wakes this thread, or has done so since it last waited, but no longer than this.
    fn park(&self, patience: Duration);

    /// Wakes this thread. The one that does so is another.
    fn unpark(&self);

    /// Begins another thread.
    fn spawn(&self, name: &str, life: Box<dyn FnOnce() + Send>) -> io::Result<Arc<dyn Pace>>;

    /// Waits until this thread has ended. The one that waits is another.
    fn join(&self);
}

/// From here on this thread goes at this pace.
pub fn set(pace: Arc<dyn Pace>) {
    PACE.set(Some(pace));
}

fn simulated() -> Option<Arc<dyn Pace>> {
    PACE.with_borrow(Clone::clone)
}

/// Time that has passed since some moment of this process.
pub(crate) fn now() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    match simulated() {
        Some(pace) => pace.now(),
        None => BEGAN.get_or_init(Instant::now).elapsed(),
    }
}

/// Waits until this thread is woken, but no longer than this.
pub(crate) fn park(patience: Duration) {
    match simulated() {
        Some(pace) => pace.park(patience),
        None => thread::park_timeout(patience),
    }
}

/// Lets every other thread go first, from here on: whatever this one does can wait.
#[cfg(feature = "etcd")]
pub(crate) fn yield_to_others() {
    if simulated().is_none() {
        // For Linux a thread is a process here. If it cannot be done, it is not needed either.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LEAST_URGENT);
    }
}

/// Waits for so long.
pub(crate) fn sleep(span: Duration) {
    let Some(pace) = simulated() else { return thread::sleep(span) };
    let until = pace.now().saturating_add(span);
    while pace.now() < until {
        pace.park(until - pace.now());
    }
}

/// A thread, to be woken.
#[derive(Clone)]
pub(crate) enum Thread {
    System(thread::Thread),
    Simulated(Arc<dyn Pace>),
}

impl Thread {
    /// The one that asks.
    pub(crate) fn current() -> Self {
        simulated().map_or_else(|| Self::System(thread::current()), Self::Simulated)
    }

    pub(crate) fn unpark(&self) {
        match self {
            Self::System(thread) => thread.unpark(),
            Self::Simulated(pace) => pace.unpark(),
        }
    }
}

/// A thread, to be waited for.
pub(crate) enum Handle<T> {
    System(thread::JoinHandle<T>),
    Simulated(Arc<dyn Pace>, Arc<Mutex<Option<T>>>),
}

impl<T> Handle<T> {
    #[cfg(feature = "etcd")]
    pub(crate) fn unpark(&self) {
        match self {
            Self::System(handle) => handle.thread().unpark(),
            Self::Simulated(pace, _) => pace.unpark(),
        }
    }

    /// What it came to; an error: it panicked.
    pub(crate) fn join(self) -> thread::Result<T> {
        match self {
            Self::System(handle) => handle.join(),
            Self::Simulated(pace, result) => {
                pace.join();
                lock(&result).take().ok_or_else(|| Box::new("it panicked") as _)
            }
        }
    }
}

/// Begins a thread of this name that does this, with the deliberate bug of the one that begins it.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    life: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Handle<T>> {
    let life = leasehold_core::mutant::inherited(life);
    let Some(pace) = simulated() else {
        return thread::Builder::new().name(name.into()).spawn(life).map(Handle::System);
    };
    let result = Arc::new(Mutex::new(None));
    let same = result.clone();
    let life = Box::new(move || *lock(&same) = Some(life()));
    Ok(Handle::Simulated(pace.spawn(name, life)?, result))
}
