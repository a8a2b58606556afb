//! The server's machine: its clocks, its disk, and the process that may or may not be running on it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_server::engine::{Options, Stepped};
use leasehold_server::metrics::Metrics;
use leasehold_server::store::Error;

use crate::chance::Chance;
use crate::front::Front;
use crate::history::OperationId;
use crate::message::{Answer, Request};
use crate::store::{Backup, SharedDisk, SimStore};
use crate::time::{Machine, NodeClock, Rate, Time};

/// One machine with one server.
pub struct Node {
    /// What it writes to.
    pub disk: SharedDisk,
    /// Its clocks.
    pub machine: Machine,
    clock: Arc<NodeClock>,
    process: Option<Process>,
    secrets: Chance,
}

struct Process {
    engine: Stepped,
    front: Front,
}

/// How a round ended.
pub enum Round {
    /// It goes on; if nobody asks, after this long.
    Up(Duration),
    /// The process has ended in good order or because it could not know what is durable, and has said these
    /// last words.
    Ended(Vec<(OperationId, Answer)>),
}

impl Node {
    /// With an empty disk and no process.
    pub fn new(rate: Rate, secrets: Chance) -> Self {
        Self {
            disk: SharedDisk::new(),
            machine: Machine::new(rate),
            clock: Arc::default(),
            process: None,
            secrets,
        }
    }

    /// Is there a process?
    pub fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// Starts a process.
    pub fn start(&mut self, now: Time, options: Options) -> Result<(), Error> {
        self.machine.show(&self.clock, now);
        let store = Box::new(SimStore(self.disk.clone()));
        let metrics = Arc::new(Metrics::new());
        let (engine, handle) = Stepped::start(options, store, self.clock.clone(), metrics)?;
        let front = Front::new(handle, self.secrets.fork());
        self.process = Some(Process { engine, front });
        Ok(())
    }

    /// A question arrives; if nobody is there it is lost.
    pub fn ask(&mut self, now: Time, id: OperationId, client: usize, request: &Request) {
        self.machine.show(&self.clock, now);
        if let Some(process) = &mut self.process {
            process.front.ask(id, client, request);
        }
    }

    /// A connection is closed.
    pub fn close(&mut self, now: Time, id: OperationId) {
        self.machine.show(&self.clock, now);
        if let Some(process) = &mut self.process {
            process.front.close(id);
        }
    }

    /// The answers that are ready, of those who get to run.
    pub fn answers(&mut self, now: Time, runs: impl FnMut() -> bool) -> Vec<(OperationId, Answer)> {
        self.machine.show(&self.clock, now);
        self.process.as_mut().map_or_else(Vec::new, |process| process.front.answers(runs))
    }

    /// One round of the engine's loop.
    pub fn round(&mut self, now: Time) -> Option<Round> {
        self.machine.show(&self.clock, now);
        let process = self.process.as_mut()?;
        let result = process.engine.round();
        if self.disk.lock().has_crashed {
            // Nothing is said after a crash; what was said before it was said.
            return Some(Round::Ended(self.kill(false)));
        }
        let process = self.process.as_ref()?;
        match result {
            Ok(true) => Some(Round::Up(process.engine.patience())),
            Ok(false) => Some(Round::Ended(self.end(Ok(())))),
            Err(error) => Some(Round::Ended(self.end(Err(error)))),
        }
    }

    /// It is asked to stop in good order.
    pub fn stop(&mut self) {
        if let Some(process) = &self.process {
            process.front.handle().stop();
        }
    }

    /// The process is gone, at once. What it had already answered may be on its way.
    pub fn kill(&mut self, keeps_unsynced: bool) -> Vec<(OperationId, Answer)> {
        let answers = self.process.take().map(|mut process| process.front.answers(|| true));
        self.disk.lock().crash(keeps_unsynced);
        let mut answers = answers.unwrap_or_default();
        answers.retain(|(_, answer)| *answer != Answer::Unknown);
        answers
    }

    /// Its disk is put back to an earlier state.
    pub fn restore(&mut self, backup: Backup) {
        self.disk.lock().restore(backup);
    }

    fn end(&mut self, result: Result<(), Error>) -> Vec<(OperationId, Answer)> {
        let Some(Process { engine, mut front }) = self.process.take() else { return Vec::new() };
        let _ = engine.end(result);
        front.answers(|| true)
    }
}
