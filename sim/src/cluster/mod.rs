//! Several servers that share a store in a simulated etcd: the real seat, store, followers and engine of each, on
//! threads that the world lets run one at a time.
//!
//! What clients ask and are told goes into the same history as that of a single server, and the same checker reads it.

mod call;
mod door;
mod fault;
mod journal;
mod line;
mod loss;
mod node;
mod plan;
mod thread;

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_store::etcd;

use crate::Report;
use crate::chance::Chance;
use crate::checker;
use crate::client::Client;
use crate::crowd::{Asking, Crowd};
use crate::etcd::{Answered, Etcd, Local};
use crate::history::{History, OperationId};
use crate::network::Network;
use crate::plan::Plan;
use crate::time::{MS, Machine, SECOND, Time};
use call::Call;
use journal::Journal;
pub use loss::loses_a_record;
use node::{At, Node, Stands};
use plan::Troubles;
use thread::Waits;

/// Where the store is.
pub(crate) const PREFIX: &str = "/sim/";
/// After the faults everybody must be served or told within this.
const SETTLED_WITHIN: Time = 300 * SECOND;
/// For so long after the faults it goes on, though nobody waits for anything.
const GOES_ON_FOR: Time = 30 * SECOND;
/// After etcd was put back, somebody must have noticed within this.
const NOTICED_WITHIN: Time = 20 * SECOND;
/// A thread that waits longer waits for ever.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);
/// Longer than any run.
const NEVER: Time = Time::MAX / 4;

/// Runs one seed and checks it.
pub fn run(seed: u64) -> Report {
    let mut world = crate::drawn(seed, || {
        let mut world = World::new(seed, false);
        world.run();
        world.finish();
        world
    });
    let (n_compared, differing) = world.journal.compared();
    let (n_starts, n_epochs) = (world.n_starts, world.journal.n_epochs);
    // Every thread has ended when the history is judged.
    world.nodes.clear();
    let World { crowd, .. } = world;
    let verdict = checker::check(&crowd.history);
    let mut violations = differing;
    violations.extend(verdict.violations);
    Report {
        violations,
        n_operations: crowd.history.operations.len(),
        n_leases: verdict.n_leases,
        n_faults: crowd.history.n_faults,
        n_starts,
        n_epochs,
        n_compared,
        trace: crowd.trace.into_text(),
    }
}

/// The engine of whoever leads hangs for ever, though everything else of it goes on: another must come to lead.
pub fn hang() -> Result<(), String> {
    let mut world = World::new(HANGS.0, true);
    world.end_at = HANGS.1;
    world.run();
    let leads = |world: &World| world.nodes.iter().position(Node::leads);
    let Some(leader) = leads(&world) else { return Err("nobody leads at all".into()) };
    world.stalls(leader, "engine", NEVER);
    let known = world.journal.n_epochs;
    world.end_at = HANGS.2;
    world.run();
    let others = world.journal.n_epochs - known;
    if others == 0 { Err(format!("n{leader} hangs, and nobody else leads")) } else { Ok(()) }
}

/// A seed; when the engine hangs in it; and by when another must lead.
const HANGS: (u64, Time, Time) = (1, 10 * SECOND, 22 * SECOND);

/// All there is.
struct World {
    crowd: Crowd<Event>,
    troubles: Troubles,
    etcd: Etcd,
    /// It answers nobody until then.
    silent_until: Time,
    /// It says that leases are kept, and keeps none, until then.
    lies_until: Time,
    /// What it was at some times, and how long the journal was.
    copies: Vec<(u64, Etcd)>,
    put_back_at: Option<Time>,
    end_at: Time,
    /// When leases are looked at next.
    expiry: Option<(Time, u64)>,
    /// The last revision that those who watch were told of, or were not.
    watched: i64,
    nodes: Vec<Node>,
    n_starts: usize,
    calls: BTreeMap<u64, Call>,
    n_calls: u64,
    /// The node each client talks to.
    with: Vec<usize>,
    /// The node each question went to.
    asked: BTreeMap<OperationId, usize>,
    journal: Journal,
}

/// What can happen next.
#[derive(Clone, Debug)]
enum Event {
    Asking(Asking),
    /// A thread that waits gets to run.
    GoesOn {
        node: usize,
        thread: usize,
        n: u64,
    },
    /// A call reaches etcd.
    Arrives(u64),
    /// A call is answered.
    Answered(u64, Answered),
    Poll {
        node: usize,
        n: u64,
    },
    /// Whoever watches is told.
    Rings(usize),
    Expires(u64),
    Fault,
    ClientFault,
    Starts {
        node: usize,
        is_new_boot: bool,
    },
    HasRoom,
    Copy,
    PutBack,
    Heals,
}

impl From<Asking> for Event {
    fn from(asking: Asking) -> Self {
        Event::Asking(asking)
    }
}

impl World {
    /// The world of a seed, at its beginning. In a calm one nothing goes wrong, for ever.
    fn new(seed: u64, is_calm: bool) -> Self {
        let mut chance = Chance::new(seed);
        let mut plan = Plan::draw(&mut chance);
        plan.restores = false;
        let mut troubles = Troubles::draw(&mut chance);
        if is_calm {
            troubles = troubles.calm();
            plan.heal_at = NEVER;
        }
        let node = |n: usize, chance: &mut Chance| {
            let boot = if troubles.has_equal_boots { 1 } else { 1000 * n as u64 + 1 };
            let up = chance.within(1, 100) * SECOND;
            Node::new(n, Machine::booted(plan.rate(chance), boot, up), chance.fork())
        };
        let nodes: Vec<_> = (0..troubles.n_nodes).map(|n| node(n, &mut chance)).collect();
        let network = Network::new(chance.fork());
        let clients: Vec<_> =
            (0..plan.n_clients).map(|_| Client::new(&plan, &mut chance)).collect();
        let with = (0..clients.len()).map(|n| n % nodes.len()).collect();
        let journal = Journal::new(PREFIX, plan.limits());
        let end_at = plan.heal_at + SETTLED_WITHIN;
        let mut world = Self {
            crowd: Crowd::new(plan, chance, network, clients),
            troubles,
            etcd: Etcd::new(),
            silent_until: 0,
            lies_until: 0,
            copies: Vec::new(),
            put_back_at: None,
            end_at,
            expiry: None,
            watched: 1,
            nodes,
            n_starts: 0,
            calls: BTreeMap::new(),
            n_calls: 0,
            with,
            asked: BTreeMap::new(),
            journal,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        let what = format!("{:?} {:?}", self.crowd.plan, self.troubles);
        self.crowd.note(format_args!("{what}"));
        let local = Local::default();
        etcd::init(&crate::etcd::Client(local.clone()), PREFIX).expect("a new store");
        self.etcd = std::mem::take(&mut local.lock().0);
        for node in 0..self.nodes.len() {
            let after = self.crowd.chance.within(0, 300) * MS;
            self.crowd.after(after, Event::Starts { node, is_new_boot: false });
        }
        self.crowd.begin();
        self.crowd.after(self.troubles.fault_every, Event::Fault);
        self.crowd.after(self.crowd.plan.client_fault_every, Event::ClientFault);
        if self.troubles.is_put_back {
            self.crowd.after(SECOND, Event::Copy);
            let half = self.crowd.plan.heal_at / 2;
            let at = half + self.crowd.chance.below(half);
            self.crowd.after(at, Event::PutBack);
        }
        self.crowd.after(self.crowd.plan.heal_at, Event::Heals);
    }

    fn run(&mut self) {
        while let Some(event) = self.crowd.next(self.end_at) {
            self.happen(event);
            if self.is_quiet() {
                break;
            }
        }
    }

    /// The faults are long over, and everybody was told.
    fn is_quiet(&self) -> bool {
        let is_over = self.crowd.now > self.crowd.plan.heal_at + GOES_ON_FOR;
        is_over && self.crowd.clients.iter().all(|client| client.pending.is_none())
    }

    /// What is to be said of the end.
    fn finish(&mut self) {
        let now = self.end_at;
        let is_rewound = self.etcd.get(format!("{PREFIX}rewound").as_bytes()).is_some();
        let history: &mut History = &mut self.crowd.history;
        if self.put_back_at.is_some() {
            if !is_rewound {
                history.unseen.push((now, "nobody noticed that etcd was put back".into()));
            }
            // There is nobody to serve them until an operator has come.
            for operation in &mut history.operations {
                operation.is_given_up |= operation.answer.is_none();
            }
            return;
        }
        if is_rewound {
            history.refusals.push((now, "a node takes etcd for put back, and it was not".into()));
        }
        if !self.nodes.iter().any(Node::leads) {
            history.refusals.push((now, "nobody leads in the end".into()));
        }
    }

    fn now(&self) -> Time {
        self.crowd.now
    }

    fn happen(&mut self, event: Event) {
        if let Some(paused_until) = self.held_up(&event) {
            // Who comes first when it goes on is chance.
            let lag = self.crowd.chance.within(0, MS);
            return self.crowd.after(paused_until - self.now() + lag, event);
        }
        match event {
            Event::Asking(asking) => self.asking(asking),
            Event::GoesOn { node, thread, n } => {
                let at = self.stands(node, thread).map(|stands| stands.at);
                if matches!(at, Some(At::Parked { n: planned, .. }) if planned == n) {
                    self.goes_on(node, thread, None);
                }
            }
            Event::Arrives(call) => self.arrives(call),
            Event::Answered(call, answered) => self.answered(call, answered),
            Event::Poll { node, n } => {
                if self.nodes[node].poll.is_some_and(|(_, poll)| poll == n) {
                    self.polls(node);
                }
            }
            Event::Rings(node) => {
                if let Some(running) = &self.nodes[node].running {
                    running.line.0.ring();
                }
                self.serve(node);
            }
            Event::Expires(n) => {
                if self.expiry.is_some_and(|(_, expiry)| expiry == n) {
                    self.expiry = None;
                    self.etcd.expire(self.crowd.now);
                    self.changed();
                }
            }
            Event::Fault => self.fault(),
            Event::ClientFault => {
                if !self.crowd.is_healed() {
                    let next = self.crowd.plan.client_fault_every;
                    let next = self.crowd.chance.within(1, 2 * next);
                    self.crowd.after(next, Event::ClientFault);
                    self.crowd.client_fault();
                }
            }
            Event::Starts { node, is_new_boot } => self.starts(node, is_new_boot),
            Event::HasRoom => self.etcd.is_full = false,
            Event::Copy => self.copy(),
            Event::PutBack => self.put_back(),
            Event::Heals => {
                if self.put_back_at.is_none() {
                    self.heals();
                }
            }
        }
    }

    /// Until when nothing can come of this, because whoever it concerns stands still.
    fn held_up(&self, event: &Event) -> Option<Time> {
        let (node, thread) = match event {
            Event::GoesOn { node, thread, .. } => (*node, Some(*thread)),
            Event::Answered(call, _) => {
                let call = self.calls.get(call)?;
                (call.node, Some(call.thread))
            }
            Event::Poll { node, .. } | Event::Rings(node) => (*node, None),
            Event::Asking(Asking::Arrives(id) | Asking::Closed(id)) => (*self.asked.get(id)?, None),
            _ => return None,
        };
        let stalled = thread.and_then(|thread| self.stands(node, thread));
        let until = stalled.map_or(0, |stands| stands.stalled_until);
        let until = self.at_most_healed(until.max(self.nodes[node].paused_until));
        (until > self.crowd.now).then_some(until)
    }

    /// Nobody is held up any longer than there are faults.
    fn at_most_healed(&self, until: Time) -> Time {
        until.min(self.crowd.plan.heal_at.max(self.crowd.now))
    }

    fn stands(&self, node: usize, thread: usize) -> Option<&Stands> {
        self.nodes[node].running.as_ref()?.threads.get(thread)
    }

    /// A thread gets to run until it waits for something.
    fn goes_on(&mut self, node: usize, thread: usize, answered: Option<Answered>) {
        let now = self.now();
        self.nodes[node].show(now);
        let Some(stands) = self.stands(node, thread) else { return };
        let it = stands.thread.clone();
        let at = match it.go_on(answered) {
            Waits::Parked(patience) => {
                let n = self.crowd.n_next();
                if patience < FOR_EVER {
                    let span = patience.as_nanos() as Time;
                    self.crowd.after(span, Event::GoesOn { node, thread, n });
                }
                At::Parked { n, is_soon: false }
            }
            Waits::Asks(request) => At::Call(self.asks(node, thread, request)),
            Waits::Ended => At::End,
        };
        if let Some(running) = &mut self.nodes[node].running {
            running.threads[thread].at = at;
        }
        self.serve(node);
        if at == At::End && thread == 0 {
            self.ended(node);
        }
    }

    /// Whoever was woken on a node by what just happened gets to run.
    fn serve(&mut self, node: usize) {
        let n_workers = self.crowd.plan.n_workers;
        self.nodes[node].serve(n_workers);
        let Some(running) = &mut self.nodes[node].running else { return };
        for thread in running.process.begun() {
            // It begins when somebody wakes it: the world, now.
            thread.wake();
            let at = At::Parked { n: 0, is_soon: false };
            running.threads.push(Stands { thread, at, stalled_until: 0 });
        }
        for (thread, stands) in running.threads.iter_mut().enumerate() {
            let is_idle = matches!(stands.at, At::Parked { is_soon: false, .. });
            if is_idle && stands.thread.is_woken() {
                let n = self.crowd.n_next();
                stands.at = At::Parked { n, is_soon: true };
                let lag = self.crowd.chance.within(0, MS / 2);
                self.crowd.after(lag, Event::GoesOn { node, thread, n });
            }
        }
        let serving = running.serving.as_ref();
        if serving.is_some_and(|serving| serving.workers.iter().any(|worker| worker.is_woken())) {
            self.poll_soon(node);
        }
    }
}
