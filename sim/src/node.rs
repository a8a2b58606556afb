//! The server's machine: its clocks, its disk, and the process, which might not be running.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use leasehold_core::RetryHint;
use leasehold_engine::{EngineHandle, Options, Stepped};
use leasehold_server::app::App;
use leasehold_server::metrics::Metrics;
use leasehold_server::{dialect, http};
use leasehold_store::Error;

use crate::chance::Chance;
use crate::history::OperationId;
use crate::message::{Answer, Request};
use crate::store::{Backup, SharedDisk, SimStore};
use crate::time::{Machine, NodeClock, Rate, Time};
use crate::worker::{Ran, Worker};

/// A machine with a server.
pub struct Node {
    /// The disk with the store.
    pub disk: SharedDisk,
    /// The clocks of the machine.
    pub machine: Machine,
    clock: Arc<NodeClock>,
    process: Option<RunningServer>,
    secrets: Chance,
}

struct RunningServer {
    engine: Stepped,
    handle: EngineHandle,
    workers: Vec<Worker>,
}

/// The state of the process after a part of it ran.
pub enum Turn {
    /// It continues. The engine's thread runs after this time at the latest.
    Up(Duration),
    /// The process has ended, either in good order or because it could not know what is durable. Contains its last
    /// responses.
    Ended(Vec<(OperationId, Answer)>),
}

impl Node {
    /// Creates a machine with an empty disk and no process.
    pub fn new(rate: Rate, secrets: Chance) -> Self {
        Self {
            disk: SharedDisk::new(),
            machine: Machine::new(rate),
            clock: Arc::default(),
            process: None,
            secrets,
        }
    }

    /// Returns whether the process is running.
    pub fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// Starts a process with this many workers.
    pub fn start(&mut self, now: Time, options: Options, n_workers: usize) -> Result<(), Error> {
        self.machine.show(&self.clock, now);
        let store = Box::new(SimStore::new(self.disk.clone()));
        let (metrics, limits) =
            (Arc::new(Metrics::new(leasehold_server::dialect::NAMES)), options.limits.clone());
        let (engine, handle) =
            Stepped::start(options, store, self.clock.clone(), metrics.engine.clone())?;
        let (http, dialect) = (http::Options::default(), dialect::Options::default());
        let app = App::new(handle.clone(), metrics, http, RetryHint::default(), dialect, limits);
        let workers = (0..n_workers).map(|_| Worker::new(&app, self.secrets.fork())).collect();
        self.process = Some(RunningServer { engine, handle, workers });
        Ok(())
    }

    /// Delivers a request. Without a process, it is lost.
    pub fn ask(&mut self, now: Time, id: OperationId, client: usize, request: &Request) {
        self.machine.show(&self.clock, now);
        if let Some(RunningServer { workers, .. }) = &mut self.process {
            let n = client % workers.len();
            workers[n].front.ask(id, client, request);
            workers[n].wake_connections();
        }
    }

    /// Closes a connection.
    pub fn close(&mut self, now: Time, id: OperationId) {
        self.machine.show(&self.clock, now);
        let workers = self.process.iter_mut().flat_map(|process| &mut process.workers);
        workers.for_each(|worker| worker.front.close(id));
    }

    /// Returns whether the engine's thread was woken since the last call.
    pub fn is_engine_woken(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let engine = self.process.as_ref().map(|process| &process.engine);
        engine.is_some_and(|engine| engine.poll_woken(&mut context).is_ready())
    }

    /// Returns whether any worker has something to do.
    pub fn has_woken_workers(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.workers.iter().any(Worker::is_woken))
    }

    /// Runs the workers. `runs` decides for each of their tasks whether it runs now.
    pub fn run_workers(
        &mut self,
        now: Time,
        may_flush: bool,
        mut runs: impl FnMut() -> bool,
    ) -> Option<(Ran, Turn)> {
        self.machine.show(&self.clock, now);
        let mut ran = Ran::default();
        for worker in &mut self.process.as_mut()?.workers {
            let Ran { answers, has_flushed } = worker.run(&mut runs, may_flush);
            ran.answers.extend(answers);
            ran.has_flushed |= has_flushed;
            if self.disk.lock().has_crashed {
                break;
            }
        }
        Some((ran, self.turned(Duration::ZERO)))
    }

    /// Runs the engine's thread until it has nothing to do.
    pub fn turn(&mut self, now: Time) -> Option<Turn> {
        self.machine.show(&self.clock, now);
        let patience = self.process.as_ref()?.engine.turn();
        Some(self.turned(patience.unwrap_or_default()))
    }

    /// Stops the process in good order.
    pub fn stop(&mut self) {
        if let Some(process) = &self.process {
            process.handle.stop();
        }
    }

    /// Kills the process immediately. Returns the responses that it had already sent.
    pub fn kill(&mut self, keeps_unsynced: bool) -> Vec<(OperationId, Answer)> {
        let process = self.process.take();
        self.disk.lock().crash(keeps_unsynced);
        let mut workers = process.map_or_else(Vec::new, |process| process.workers);
        let last = workers.iter_mut().flat_map(|w| w.front.answers(Waker::noop(), || true));
        last.filter(|(_, answer)| *answer != Answer::Unknown).collect()
    }

    /// Restores the disk from a backup.
    pub fn restore(&mut self, backup: Backup) {
        self.disk.lock().restore(backup);
    }

    /// Returns the state of the process after a part of it ran.
    fn turned(&mut self, patience: Duration) -> Turn {
        if self.disk.lock().has_crashed {
            // A crashed process sends no more responses. The ones it had sent before still arrive.
            return Turn::Ended(self.kill(false));
        }
        match self.process.take_if(|process| process.engine.has_ended()) {
            Some(RunningServer { workers, .. }) => {
                Turn::Ended(workers.into_iter().flat_map(Worker::finish).collect())
            }
            None => Turn::Up(patience),
        }
    }
}
