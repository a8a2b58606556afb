//! Threads of servers that run one at a time: each stops wherever it waits for something, until the world lets it
//! continue. So a node can be stopped between any two steps, and the same seed gives the same run.
//!
//! They are real threads with real stacks, because they run the real, blocking code.

use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_base::clock::Clock;
use leasehold_base::pace::{self, Pace};
use leasehold_etcd::Error;

use crate::etcd::{Answered, Request};
use crate::time::NodeClock;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Thread>>> = const { RefCell::new(None) };
}

/// What a stopped thread waits for.
pub(super) enum Waits {
    /// To be woken, but at most for this time.
    Parked(Duration),
    /// For the response to a call to etcd.
    Asks(Request),
    /// Nothing: it has ended.
    Ended,
}

/// A thread of a process.
pub(super) struct Thread {
    pub(super) name: Box<str>,
    process: Arc<Process>,
    baton: Mutex<Baton>,
    passed: Condvar,
    is_woken: AtomicBool,
    system: Mutex<Option<JoinHandle<()>>>,
}

/// The state that the threads of a process share.
pub(super) struct Process {
    clock: Arc<NodeClock>,
    /// The process was killed, so later actions of its threads have no effect.
    is_killed: AtomicBool,
    /// The threads that started since the last call of [`Process::begun`].
    begun: Mutex<Vec<Arc<Thread>>>,
}

#[derive(Default)]
struct Baton {
    is_threads: bool,
    waits: Option<Waits>,
    answered: Option<Answered>,
    has_ended: bool,
    panic: Option<Box<dyn Any + Send>>,
    /// The threads that wait for its end.
    joiners: Vec<Arc<Thread>>,
}

/// The payload with which a killed thread unwinds.
struct Killed;

/// A duration longer than any run.
const NEVER: Duration = Duration::from_secs(1 << 40);

impl Process {
    pub(super) fn new(clock: Arc<NodeClock>) -> Arc<Self> {
        Arc::new(Self { clock, is_killed: AtomicBool::new(false), begun: Mutex::default() })
    }

    /// Starts a thread, which is stopped at first.
    pub(super) fn begin(
        self: &Arc<Self>,
        name: &str,
        life: impl FnOnce() + Send + 'static,
    ) -> io::Result<Arc<Thread>> {
        let thread = Arc::new(Thread {
            name: name.into(),
            process: self.clone(),
            baton: Mutex::default(),
            passed: Condvar::new(),
            is_woken: AtomicBool::new(false),
            system: Mutex::default(),
        });
        let same = thread.clone();
        let system = std::thread::Builder::new().name(format!("sim-{name}"));
        *lock(&thread.system) = Some(system.spawn(move || same.live(life))?);
        lock(&self.begun).push(thread.clone());
        Ok(thread)
    }

    /// Returns the threads that started since the last call.
    pub(super) fn begun(&self) -> Vec<Arc<Thread>> {
        std::mem::take(&mut *lock(&self.begun))
    }

    pub(super) fn kill(&self) {
        self.is_killed.store(true, SeqCst);
    }

    fn is_killed(&self) -> bool {
        self.is_killed.load(SeqCst)
    }
}

impl Thread {
    /// Calls etcd, and waits for the response.
    pub(super) fn ask(request: Request) -> Answered {
        let lost = || Error::new(leasehold_etcd::Kind::Unknown, "simulated", "killed");
        let current = CURRENT.with_borrow(Clone::clone);
        let Some(thread) = current else { return Err(lost()) };
        thread.stand(Waits::Asks(request)).unwrap_or_else(|| Err(lost()))
    }

    /// Returns the simulated thread that makes this call.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Returns the implementation of its waits.
    pub(super) fn pace(self: &Arc<Self>) -> impl Pace + use<> {
        AtPace(self.clone())
    }

    /// Returns whether it was woken since the last call.
    pub(super) fn take_woken(&self) -> bool {
        self.is_woken.swap(false, SeqCst)
    }

    pub(super) fn is_woken(&self) -> bool {
        self.is_woken.load(SeqCst)
    }

    pub(super) fn wake(&self) {
        self.is_woken.store(true, SeqCst);
    }

    /// Lets it continue, with the response if it made a call. Returns what it waits for next.
    pub(super) fn go_on(&self, answered: Option<Answered>) -> Waits {
        let (waits, panic) = self.step(answered);
        match panic {
            Some(panic) if !panic.is::<Killed>() => resume_unwind(panic),
            _ => waits,
        }
    }

    /// Ends the thread of a killed process.
    pub(super) fn end(&self) {
        while !matches!(self.step(None).0, Waits::Ended) {}
    }

    fn step(&self, answered: Option<Answered>) -> (Waits, Option<Box<dyn Any + Send>>) {
        let mut baton = lock(&self.baton);
        if baton.has_ended {
            return (Waits::Ended, None);
        }
        baton.answered = answered;
        baton.is_threads = true;
        self.passed.notify_all();
        let still = |baton: &mut Baton| baton.is_threads;
        let mut baton = whole(self.passed.wait_while(baton, still));
        let waits = baton.waits.take().unwrap_or(Waits::Ended);
        let panic = baton.panic.take();
        drop(baton);
        if matches!(waits, Waits::Ended)
            && let Some(system) = lock(&self.system).take()
        {
            // The system's thread has nothing left to do and ends.
            let _ = system.join();
        }
        (waits, panic)
    }

    /// Runs on the system's thread, from its start to its end.
    fn live(self: Arc<Self>, life: impl FnOnce()) {
        let is_ours = |baton: &mut Baton| !baton.is_threads;
        drop(whole(self.passed.wait_while(lock(&self.baton), is_ours)));
        CURRENT.set(Some(self.clone()));
        self.take_woken();
        pace::set(Arc::new(AtPace(self.clone())));
        let ended =
            if self.process.is_killed() { Ok(()) } else { catch_unwind(AssertUnwindSafe(life)) };
        let mut baton = lock(&self.baton);
        baton.has_ended = true;
        baton.panic = ended.err();
        baton.joiners.drain(..).for_each(|joiner| joiner.wake());
        baton.waits = Some(Waits::Ended);
        baton.is_threads = false;
        self.passed.notify_all();
    }

    /// Waits until the world lets the thread continue.
    fn stand(&self, waits: Waits) -> Option<Answered> {
        if self.is_gone() {
            return None;
        }
        let mut baton = lock(&self.baton);
        baton.waits = Some(waits);
        baton.is_threads = false;
        self.passed.notify_all();
        let is_ours = |baton: &mut Baton| !baton.is_threads;
        let mut baton = whole(self.passed.wait_while(baton, is_ours));
        let answered = baton.answered.take();
        drop(baton);
        if self.is_gone() { None } else { answered }
    }

    /// Returns whether its process was killed. Unless the thread is unwinding already, it does so now.
    fn is_gone(&self) -> bool {
        let is_killed = self.process.is_killed();
        if is_killed && !std::thread::panicking() {
            // Does not call the panic hook, because this is not a real panic.
            resume_unwind(Box::new(Killed));
        }
        is_killed
    }

    fn has_ended(&self) -> bool {
        lock(&self.baton).has_ended
    }
}

/// The waits of a simulated thread.
struct AtPace(Arc<Thread>);

impl Pace for AtPace {
    fn now(&self) -> Duration {
        // A killed thread does not wait for anything.
        let process = &self.0.process;
        if process.is_killed() { NEVER } else { Duration::from_nanos(process.clock.boottime()) }
    }

    fn park(&self, patience: Duration) {
        if !self.0.take_woken() {
            self.0.stand(Waits::Parked(patience));
            self.0.take_woken();
        }
    }

    fn unpark(&self) {
        self.0.wake();
    }

    fn spawn(&self, name: &str, life: Box<dyn FnOnce() + Send>) -> io::Result<Arc<dyn Pace>> {
        Ok(Arc::new(AtPace(self.0.process.begin(name, life)?)))
    }

    fn join(&self) {
        let Some(current) = Thread::current() else { return };
        while !self.0.has_ended() && !current.process.is_killed() {
            lock(&self.0.baton).joiners.push(current.clone());
            current.stand(Waits::Parked(NEVER));
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    whole(mutex.lock())
}

fn whole<G>(locked: Result<G, PoisonError<G>>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}
