//! Starts threads, makes them wait and joins them, by default through the operating system. A simulation
//! substitutes its own scheduler, which runs one thread at a time and controls the clock.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::sync::lock;

/// The lowest priority, as a `nice` value.
const LEAST_URGENT: i32 = 19;

thread_local! {
    static PACE: RefCell<Option<Arc<dyn Pace>>> = const { RefCell::new(None) };
}

/// The simulated scheduler of one thread, used in place of the operating system.
pub trait Pace: Send + Sync {
    /// Returns the time since an arbitrary fixed moment.
    fn now(&self) -> Duration;

    /// Waits until this thread is woken, at most for `patience`. Returns immediately if it was woken since its
    /// last wait.
    fn park(&self, patience: Duration);

    /// Wakes this thread. Called from another thread.
    fn unpark(&self);

    /// Starts another thread.
    fn spawn(&self, name: &str, life: Box<dyn FnOnce() + Send>) -> io::Result<Arc<dyn Pace>>;

    /// Waits until this thread has ended. Called from another thread.
    fn join(&self);
}

/// Makes the current thread use this scheduler from now on.
pub fn set(pace: Arc<dyn Pace>) {
    PACE.set(Some(pace));
}

fn simulated() -> Option<Arc<dyn Pace>> {
    PACE.with_borrow(Clone::clone)
}

/// Returns the time since an arbitrary fixed moment of this process.
pub fn now() -> Duration {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    match simulated() {
        Some(pace) => pace.now(),
        None => BEGAN.get_or_init(Instant::now).elapsed(),
    }
}

/// Waits until this thread is woken, at most for `patience`.
pub fn park(patience: Duration) {
    match simulated() {
        Some(pace) => pace.park(patience),
        None => thread::park_timeout(patience),
    }
}

/// Gives the current thread the lowest priority from now on, because its work can wait.
pub fn yield_to_others() {
    if simulated().is_none() {
        // On Linux, the process priority can be set per thread. A failure is harmless: the priority is an
        // optimization.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LEAST_URGENT);
    }
}

/// Waits for this long.
pub fn sleep(span: Duration) {
    let Some(pace) = simulated() else { return thread::sleep(span) };
    let until = pace.now().saturating_add(span);
    while pace.now() < until {
        pace.park(until - pace.now());
    }
}

/// A reference to a thread, used to wake it.
#[derive(Clone)]
pub enum Thread {
    /// A thread of the operating system.
    System(thread::Thread),
    /// A thread of the simulation.
    Simulated(Arc<dyn Pace>),
}

impl Thread {
    /// Returns the current thread.
    pub fn current() -> Self {
        simulated().map_or_else(|| Self::System(thread::current()), Self::Simulated)
    }

    /// Wakes the thread.
    pub fn unpark(&self) {
        match self {
            Self::System(thread) => thread.unpark(),
            Self::Simulated(pace) => pace.unpark(),
        }
    }
}

/// A started thread, which can be joined.
pub enum Handle<T> {
    /// A thread of the operating system.
    System(thread::JoinHandle<T>),
    /// A thread of the simulation, and its result once it has ended.
    Simulated(Arc<dyn Pace>, Arc<Mutex<Option<T>>>),
}

impl<T> Handle<T> {
    /// Wakes the thread.
    pub fn unpark(&self) {
        match self {
            Self::System(handle) => handle.thread().unpark(),
            Self::Simulated(pace, _) => pace.unpark(),
        }
    }

    /// Waits for the thread to end and returns its result, or an error if it panicked.
    pub fn join(self) -> thread::Result<T> {
        match self {
            Self::System(handle) => handle.join(),
            Self::Simulated(pace, result) => {
                pace.join();
                lock(&result).take().ok_or_else(|| Box::new("it panicked") as _)
            }
        }
    }
}

/// Starts a thread with this name. It inherits the deliberate bug (mutant) under test from the starting thread.
pub fn spawn<T: Send + 'static>(
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
