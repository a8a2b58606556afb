//! A server thread that serves connections: its front, and the two tasks that the engine needs. Each runs only after it
//! was woken, in random order.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Wake, Waker};

use leasehold_server::app::App;
use leasehold_server::dialect::Dialect;
use leasehold_server::door::Door;

use crate::chance::Chance;
use crate::front::Front;
use crate::history::OperationId;
use crate::message::Answer;

/// A worker.
pub struct Worker {
    /// The connections of the worker.
    pub front: Front,
    connections: Arc<Woken>,
    deliver: Task,
    flush: Task,
}

/// The result of running a worker.
#[derive(Default)]
pub struct Ran {
    /// The responses that are ready.
    pub answers: Vec<(OperationId, Answer)>,
    /// Whether the worker might have run a round itself.
    pub has_flushed: bool,
}

impl Worker {
    /// Creates a worker of this server.
    pub fn new(app: &App, secrets: Chance) -> Self {
        let (app, mailbox) = app.for_thread();
        let (handle, door) = (app.engine.clone(), Door::new(app, &[Dialect::Native]));
        let (deliver, flush) = (Task::new(mailbox.deliver()), Task::new(handle.flush()));
        let connections = Arc::<Woken>::default();
        Self { front: Front::new(handle, door, secrets), connections, deliver, flush }
    }

    /// Returns whether it has anything to do.
    pub fn is_woken(&self) -> bool {
        [&self.connections, &self.deliver.woken, &self.flush.woken].iter().any(|task| task.is_on())
    }

    /// Wakes the worker because of an event on a connection.
    pub fn wake_connections(&self) {
        self.connections.wake_by_ref();
    }

    /// Runs what was woken. `runs` decides for each task whether it runs now.
    pub fn run(&mut self, mut runs: impl FnMut() -> bool, may_flush: bool) -> Ran {
        let mut ran = Ran::default();
        if runs() && may_flush {
            ran.has_flushed = self.flush.run();
        }
        if runs() {
            self.deliver.run();
        }
        if self.connections.take() {
            let waker = Waker::from(self.connections.clone());
            let mut is_complete = true;
            ran.answers = self.front.answers(&waker, || {
                let runs = runs();
                is_complete &= runs;
                runs
            });
            if !is_complete {
                self.wake_connections();
            }
        }
        ran
    }

    /// Returns the last responses of an engine that has ended.
    pub fn finish(mut self) -> Vec<(OperationId, Answer)> {
        self.deliver.run();
        self.front.answers(Waker::noop(), || true)
    }
}

/// A future that is polled when it was woken.
struct Task {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    woken: Arc<Woken>,
}

impl Task {
    fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        let woken = Arc::<Woken>::default();
        // A new task runs once without being woken.
        woken.wake_by_ref();
        Self { future: Box::pin(future), woken }
    }

    /// Runs the task if it was woken. Returns whether it was.
    fn run(&mut self) -> bool {
        let is_woken = self.woken.take();
        if is_woken {
            let waker = Waker::from(self.woken.clone());
            let _ = self.future.as_mut().poll(&mut Context::from_waker(&waker));
        }
        is_woken
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Woken {
    fn is_on(&self) -> bool {
        self.0.load(Relaxed)
    }

    fn take(&self) -> bool {
        self.0.swap(false, Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}
