//! Simulates a cluster on a simulated etcd: each server's real seat, store, followers and engine run on threads that
//! the world runs one at a time.
//!
//! Requests and responses of clients are recorded in the same history as those of a single server, and the same checker
//! reads it.

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

/// The prefix of the store.
pub(crate) const PREFIX: &str = "/sim/";
/// After the faults, every request must have its response within this time.
const SETTLED_WITHIN: Time = 300 * SECOND;
/// How long a run continues after the faults, even if no client waits for a response.
const GOES_ON_FOR: Time = 30 * SECOND;
/// A node must notice a rollback of etcd within this time.
const NOTICED_WITHIN: Time = 20 * SECOND;
/// A thread that waits longer than this waits forever.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);
/// A time after the end of any run.
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
    // Every thread must end before the history is checked.
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

/// Checks that another server takes over if the leader's engine hangs forever while its other threads continue.
pub fn hang() -> Result<(), String> {
    let mut world = World::new(HANGS.0, true);
    world.end_at = HANGS.1;
    world.run();
    let leads = |world: &World| world.nodes.iter().position(Node::leads);
    let Some(leader) = leads(&world) else { return Err("no server leads".into()) };
    world.stalls(leader, "engine", NEVER);
    let known = world.journal.n_epochs;
    world.end_at = HANGS.2;
    world.run();
    let others = world.journal.n_epochs - known;
    if others == 0 { Err(format!("n{leader} hangs, and no other server leads")) } else { Ok(()) }
}

/// The seed of the run, the time at which the engine hangs, and the time by which another server must lead.
const HANGS: (u64, Time, Time) = (1, 10 * SECOND, 22 * SECOND);

struct World {
    crowd: Crowd<Event>,
    troubles: Troubles,
    etcd: Etcd,
    /// etcd responds to no call until this time.
    silent_until: Time,
    /// Until this time etcd reports that leases are renewed, but renews none.
    lies_until: Time,
    /// Copies of etcd from earlier times, each with the length of its journal.
    copies: Vec<(u64, Etcd)>,
    put_back_at: Option<Time>,
    end_at: Time,
    /// When leases are checked next.
    expiry: Option<(Time, u64)>,
    /// The last revision for which watchers were notified, or deliberately were not.
    watched: i64,
    nodes: Vec<Node>,
    n_starts: usize,
    calls: BTreeMap<u64, Call>,
    n_calls: u64,
    /// The node that each client is connected to.
    with: Vec<usize>,
    /// The node that each request was sent to.
    asked: BTreeMap<OperationId, usize>,
    journal: Journal,
}

/// An event of the simulation.
#[derive(Clone, Debug)]
enum Event {
    Asking(Asking),
    /// A waiting thread continues.
    GoesOn {
        node: usize,
        thread: usize,
        n: u64,
    },
    /// A call arrives at etcd.
    Arrives(u64),
    /// The response to a call arrives.
    Answered(u64, Answered),
    Poll {
        node: usize,
        n: u64,
    },
    /// A node is notified of a change that it watches.
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
    /// Creates the world of a seed. In a calm world, nothing ever goes wrong.
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

    /// Returns whether the faults are long over and no client waits for a response.
    fn is_quiet(&self) -> bool {
        let is_over = self.crowd.now > self.crowd.plan.heal_at + GOES_ON_FOR;
        is_over && self.crowd.clients.iter().all(|client| client.pending.is_none())
    }

    /// Checks the state at the end of the run.
    fn finish(&mut self) {
        let now = self.end_at;
        let is_rewound = self.etcd.get(format!("{PREFIX}rewound").as_bytes()).is_some();
        let history: &mut History = &mut self.crowd.history;
        if self.put_back_at.is_some() {
            if !is_rewound {
                history.unseen.push((now, "no server noticed that etcd was rolled back".into()));
            }
            // No server leads until an operator restores the store, so these requests get no response.
            for operation in &mut history.operations {
                operation.is_given_up |= operation.answer.is_none();
            }
            return;
        }
        if is_rewound {
            history.refusals.push((now, "a node takes etcd for put back, and it was not".into()));
        }
        if !self.nodes.iter().any(Node::leads) {
            history.refusals.push((now, "no server leads in the end".into()));
        }
    }

    fn now(&self) -> Time {
        self.crowd.now
    }

    fn happen(&mut self, event: Event) {
        if let Some(paused_until) = self.held_up(&event) {
            // The order in which delayed events take place is random.
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

    /// Returns until when this event is delayed, because its node or thread is suspended.
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

    /// Limits a delay to the time in which faults occur.
    fn at_most_healed(&self, until: Time) -> Time {
        until.min(self.crowd.plan.heal_at.max(self.crowd.now))
    }

    fn stands(&self, node: usize, thread: usize) -> Option<&Stands> {
        self.nodes[node].running.as_ref()?.threads.get(thread)
    }

    /// Lets a thread run until it waits for something.
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

    /// Schedules the threads of a node that the last event has woken.
    fn serve(&mut self, node: usize) {
        let n_workers = self.crowd.plan.n_workers;
        self.nodes[node].serve(n_workers);
        let Some(running) = &mut self.nodes[node].running else { return };
        for thread in running.process.begun() {
            // A new thread starts when the world wakes it.
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
