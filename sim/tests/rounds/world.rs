//! A minimal server: a writer that counts its rounds, the engine's thread, and workers.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool as Noted, AtomicUsize as Count};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use loom::future::block_on;
use loom::thread::{self, JoinHandle};

use crate::rounds::{Bell, Gathers, Habits, Inbox, Lead, Refused, Round, Tray, Work};
use crate::sync::{AtomicBool, Ordering::SeqCst};

/// The parameters of a model.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) n_workers: usize,
    pub(crate) batch_max: usize,
    pub(crate) n_crowd: usize,
    /// The number of quiet rounds after which workers run rounds themselves. Zero: from the start.
    pub(crate) n_quiet_rounds_min: u32,
    /// A round waits for this many requests at first.
    pub(crate) n_gathered: usize,
    /// Every request must be served within this many rounds.
    pub(crate) n_rounds_max: usize,
}

/// A request.
pub(crate) struct Asked {
    /// The worker that receives the response, through its tray unless it runs the round itself. `None`: another thread.
    worker: Option<usize>,
    /// Work that the request leaves, to be done at this time by any thread.
    due_at: Option<u64>,
}

/// The response: the round that served the request.
type ServedIn = usize;

#[derive(Default)]
pub(crate) struct Desk {
    tray: Tray<ServedIn>,
    flusher: Bell,
    /// The responses of rounds that this worker ran itself.
    straight: Mutex<Vec<ServedIn>>,
}

pub(crate) struct World {
    plan: Plan,
    inbox: Arc<Inbox<Asked>>,
    lead: Lead<Clerk>,
    books: Arc<Books>,
}

/// The state of the writer that other threads can read.
#[derive(Default)]
struct Books {
    desks: Vec<Desk>,
    is_stopping: AtomicBool,
    outsider: Bell,
    // Only the test reads the following fields, so loom does not track them.
    n_rounds: Count,
    is_writing: Noted,
    n_outsiders_told: Count,
    /// Whether the due work has been done.
    is_due_done: Noted,
}

/// The writer.
struct Clerk {
    plan: Plan,
    inbox: Arc<Inbox<Asked>>,
    books: Arc<Books>,
    due_at: Option<u64>,
    n_served: usize,
}

impl Work for Clerk {
    type End = ();
    type Ask = Asked;

    fn round(&mut self, worker: Option<usize>) -> Round<()> {
        let books = self.books.clone();
        assert!(!books.is_writing.swap(true, SeqCst), "there are two writers");
        let round = books.n_rounds.fetch_add(1, SeqCst) + 1;
        let mut asks = Vec::new();
        self.inbox.take(self.plan.batch_max, &mut asks);
        // Only the engine's thread is woken for due work. A worker only serves requests.
        if worker.is_none() && self.due_at.take().is_some() {
            books.is_due_done.store(true, SeqCst);
            books.outsider.ring();
        }
        self.n_served += asks.len();
        let is_last = asks.is_empty() && books.is_stopping.load(SeqCst);
        for Asked { worker: asker, due_at } in asks {
            self.due_at = due_at.or(self.due_at);
            self.tell(asker, worker, round);
        }
        books.is_writing.store(false, SeqCst);
        if !is_last {
            return Round::Quick;
        }
        for Asked { worker: asker, .. } in self.inbox.close() {
            self.tell(asker, worker, round);
        }
        Round::Last(())
    }

    fn rest(&self) -> (Duration, u64) {
        match self.due_at.or(self.books.is_stopping.load(SeqCst).then_some(0)) {
            // The clock wakes the thread. The model has no clock, so it does not sleep.
            Some(at) => (Duration::ZERO, at),
            None => (Duration::MAX, u64::MAX),
        }
    }

    /// Waits without a time limit, because the model has no clock. Requests served by an earlier round do not come
    /// again.
    fn gathers(&mut self, n_asked: usize) -> Option<Gathers> {
        let n_awaited = self.plan.n_gathered.saturating_sub(self.n_served);
        let is_few = (1..n_awaited).contains(&n_asked);
        is_few.then_some(Gathers { n_awaited, patience: Duration::MAX })
    }
}

impl Clerk {
    fn tell(&self, asker: Option<usize>, doer: Option<usize>, round: ServedIn) {
        match asker {
            None => {
                self.books.n_outsiders_told.fetch_add(1, SeqCst);
                self.books.outsider.ring();
            }
            Some(n) if asker == doer => {
                self.books.desks[n].straight.lock().expect("no panic").push(round)
            }
            Some(n) => self.books.desks[n].tray.put(&mut vec![round]),
        }
    }
}

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<Self> {
        let inbox = Arc::new(Inbox::new(8, plan.n_crowd));
        let desks = (0..plan.n_workers).map(|_| Desk::default()).collect();
        let books = Arc::new(Books { desks, ..Books::default() });
        let clerk =
            Clerk { plan, inbox: inbox.clone(), books: books.clone(), due_at: None, n_served: 0 };
        let Plan { n_quiet_rounds_min, .. } = plan;
        let habits = Habits { n_quiet_rounds_min, n_yields_max: 0, ..Habits::default() };
        let lead = Lead::new(clerk, inbox.clone(), habits);
        Arc::new(Self { plan, inbox, lead, books })
    }

    /// Starts the engine's thread, which sleeps without a time limit until it is woken.
    pub(crate) fn start_engine(self: &Arc<Self>) -> JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || {
            while let Some(patience) = world.lead.turn() {
                if patience == Duration::MAX {
                    block_on(poll_fn(|context| world.inbox.engine.poll(context)));
                }
            }
            assert!(world.lead.take_end().is_some(), "it ended well");
        })
    }

    /// Starts a worker that sends several requests, each after the previous response.
    pub(crate) fn start_worker(self: &Arc<Self>, n: usize, n_asks: usize) -> JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || (0..n_asks).for_each(|_| world.ask_and_wait(n, None)))
    }

    /// Sends one request from a worker and runs its two tasks. The response must arrive, and in time.
    pub(crate) fn ask_and_wait(&self, n: usize, due_at: Option<u64>) {
        let desk = &self.books.desks[n];
        let asked = Asked { worker: Some(n), due_at };
        match self.inbox.ask(asked, Some(&desk.flusher)) {
            Ok(()) => {}
            Err(Refused::Closed) => return,
            Err(Refused::Full) => panic!("there is room"),
        }
        let n_rounds = self.books.n_rounds.load(SeqCst);
        let served_in = block_on(poll_fn(|context| self.run_worker(n, context)));
        let n_waited = served_in.saturating_sub(n_rounds);
        assert!(n_waited <= self.plan.n_rounds_max, "served after {n_waited} rounds");
    }

    /// Runs a worker's tasks until there is a response.
    fn run_worker(&self, n: usize, context: &mut Context<'_>) -> Poll<ServedIn> {
        let desk = &self.books.desks[n];
        while desk.flusher.poll(context).is_ready() {
            self.lead.flush(n);
        }
        if let Some(served_in) = desk.straight.lock().expect("no panic").pop() {
            return Poll::Ready(served_in);
        }
        let mut letters = Vec::new();
        while desk.tray.bell.poll(context).is_ready() {
            desk.tray.take(&mut letters);
            if let Some(served_in) = letters.pop() {
                return Poll::Ready(served_in);
            }
        }
        Poll::Pending
    }

    /// Sends a request from a thread without a mailbox, and waits.
    pub(crate) fn ask_from_outside(&self) {
        self.inbox.ask(Asked { worker: None, due_at: None }, None).expect("there is room");
        self.wait_outside(|books| books.n_outsiders_told.load(SeqCst) > 0);
    }

    /// Waits until the due work has been done.
    pub(crate) fn wait_for_due(&self) {
        self.wait_outside(|books| books.is_due_done.load(SeqCst));
    }

    fn wait_outside(&self, is_over: impl Fn(&Books) -> bool) {
        while !is_over(&self.books) {
            block_on(poll_fn(|context| self.books.outsider.poll(context)));
        }
    }

    pub(crate) fn stop(&self) {
        self.books.is_stopping.store(true, SeqCst);
        self.inbox.engine.ring();
    }
}
