//! A server of a cluster: a machine with its own clocks, a data directory, and the process, which might not be running.

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use leasehold_core::RetryHint;
use leasehold_engine::{self as engine, Engine, EngineHandle};
use leasehold_server::app::App;
use leasehold_server::metrics::Metrics;
use leasehold_server::{dialect, http};
use leasehold_store::etcd::EtcdBackend;
use leasehold_store::shared::{self, SharedSeat, Watching};
use leasehold_store::{Error, NodeFolder};

use super::PREFIX;
use super::line::Line;
use super::thread::{Process, Thread, lock};
use crate::chance::Chance;
use crate::etcd::Client;
use crate::folder::Folder;
use crate::history::OperationId;
use crate::message::Answer;
use crate::time::{Machine, NodeClock, Time};
use crate::worker::Worker;

/// How often a server checks how much space etcd has left.
const ROOM_EVERY: Duration = Duration::from_secs(1);

/// A machine with a server.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) machine: Machine,
    pub(super) clock: Arc<NodeClock>,
    pub(super) folder: Folder,
    pub(super) running: Option<Running>,
    /// The machine is suspended until this time.
    pub(super) paused_until: Time,
    /// The machine is cut off from etcd until this time.
    pub(super) cut_until: Time,
    /// Since when its engine has received no response from etcd in time.
    pub(super) troubled_since: Option<Time>,
    pub(super) poll: Option<(Time, u64)>,
    /// Counts processes, so that an event for one process does not affect the next.
    pub(super) n_starts: u64,
    secrets: Chance,
}

/// The responses that a process had sent when it ended.
pub(super) type LastWords = Vec<(OperationId, Answer)>;

pub(super) struct Running {
    pub(super) process: Arc<Process>,
    pub(super) line: Arc<Client<Line>>,
    pub(super) threads: Vec<Stands>,
    ready: Arc<Mutex<Option<(EngineHandle, App)>>>,
    outcome: Arc<Mutex<Option<Result<(), Error>>>>,
    pub(super) serving: Option<Serving>,
}

/// The parts of a process that exist once it has a state to follow.
pub(super) struct Serving {
    pub(super) handle: EngineHandle,
    pub(super) workers: Vec<Worker>,
}

/// A thread and what it waits for.
pub(super) struct Stands {
    pub(super) thread: Arc<Thread>,
    pub(super) at: At,
    /// It does not run until this time.
    pub(super) stalled_until: Time,
}

/// What a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// To be woken, or for the event with this number, which might be imminent.
    Parked { n: u64, is_soon: bool },
    /// For the response to this call.
    Call(u64),
    /// Nothing: it has ended.
    End,
}

impl Node {
    pub(super) fn new(n: usize, machine: Machine, secrets: Chance) -> Self {
        Self {
            name: format!("n{n}"),
            machine,
            clock: Arc::default(),
            folder: Folder::new(),
            running: None,
            paused_until: 0,
            cut_until: 0,
            troubled_since: None,
            poll: None,
            n_starts: 0,
            secrets,
        }
    }

    /// Starts a process. Its first thread does not run yet.
    pub(super) fn start(&mut self, now: Time, engine: engine::Options, seat: shared::Options) {
        self.show(now);
        self.n_starts += 1;
        let process = Process::new(self.clock.clone());
        let line = Arc::<Client<Line>>::default();
        let (ready, outcome) = (Arc::<Mutex<_>>::default(), Arc::<Mutex<_>>::default());
        let life = {
            let (clock, folder) = (self.clock.clone(), self.folder.path().to_owned());
            let (line, ready, outcome) = (line.clone(), ready.clone(), outcome.clone());
            move || {
                let live = || {
                    let folder = NodeFolder::take(&folder)?;
                    let backend = Arc::new(EtcdBackend::new(line, PREFIX));
                    let seat = SharedSeat::new(backend, seat, folder, clock.clone())?;
                    let watching = Watching { every: ROOM_EVERY, ..Watching::default() };
                    let seat = seat.watching_space(watching)?;
                    let (metrics, limits) = (
                        Arc::new(Metrics::new(leasehold_server::dialect::NAMES)),
                        engine.limits.clone(),
                    );
                    let (engine, handle) =
                        Engine::take_part(engine, Box::new(seat), clock, metrics.engine.clone())?;
                    let (http, dialect) = (http::Options::default(), dialect::Options::default());
                    let hint = RetryHint::default();
                    let app = App::new(handle.clone(), metrics, http, hint, dialect, limits);
                    *lock(&ready) = Some((handle, app));
                    engine.join()
                };
                let ended = live();
                *lock(&outcome) = Some(ended);
            }
        };
        let life = leasehold_core::mutant::inherited(life);
        process.begin("main", life).expect("a thread");
        let threads = Vec::new();
        self.running = Some(Running { process, line, threads, ready, outcome, serving: None });
    }

    /// Sets the clocks that the server sees.
    pub(super) fn show(&self, now: Time) {
        self.machine.show(&self.clock, now);
    }

    /// Starts to serve clients once there is a state to follow.
    pub(super) fn serve(&mut self, n_workers: usize) {
        let Some(running) = &mut self.running else { return };
        let ready = lock(&running.ready).take();
        if let Some((handle, app)) = ready {
            let secrets = &mut self.secrets;
            let workers = (0..n_workers).map(|_| Worker::new(&app, secrets.fork())).collect();
            running.serving = Some(Serving { handle, workers });
        }
    }

    pub(super) fn serving(&mut self) -> Option<&mut Serving> {
        self.running.as_mut()?.serving.as_mut()
    }

    /// Returns whether the server considers itself the leader.
    pub(super) fn leads(&self) -> bool {
        let serving = self.running.as_ref().and_then(|running| running.serving.as_ref());
        serving.is_some_and(|serving| !serving.handle.is_following())
    }

    /// Returns how its process ended, and its last responses, if it has ended.
    pub(super) fn take_end(&mut self) -> Option<(Result<(), Error>, LastWords)> {
        let outcome = lock(&self.running.as_ref()?.outcome).take()?;
        let mut last = Vec::new();
        if let Some(Running { process, threads, serving, .. }) = self.running.take() {
            let workers = serving.map_or_else(Vec::new, |serving| serving.workers);
            last = workers.into_iter().flat_map(Worker::finish).collect();
            end(&process, threads);
        }
        Some((outcome, last))
    }

    /// Kills the process immediately. Returns the responses that it had already sent.
    pub(super) fn kill(&mut self) -> LastWords {
        let Some(Running { process, threads, serving, .. }) = self.running.take() else {
            return Vec::new();
        };
        process.kill();
        let mut workers = serving.map_or_else(Vec::new, |serving| serving.workers);
        let last = workers.iter_mut().flat_map(|w| w.front.answers(Waker::noop(), || true));
        let last = last.filter(|(_, answer)| *answer != Answer::Unknown).collect();
        end(&process, threads);
        last
    }

    /// Returns how far the journal goes according to its data directory.
    pub(super) fn remembers(&self) -> Option<u64> {
        self.folder.remembers()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.kill());
    }
}

/// Ends the remaining threads of a process.
fn end(process: &Arc<Process>, threads: Vec<Stands>) {
    process.kill();
    threads.iter().for_each(|stands| stands.thread.end());
    process.begun().iter().for_each(|thread| thread.end());
}
