//! The world of a run with one server: its events take place one after the other, in true time.

use crate::chance::Chance;
use crate::client::Client;
use crate::crowd::{Asking, Crowd, Reaches};
use crate::history::{History, Operation, OperationId};
use crate::network::Network;
use crate::node::{Node, Turn};
use crate::plan::Plan;
use crate::store::Backup;
use crate::time::{MS, Time};
use crate::worker::Ran;

/// The simulated world.
pub struct World {
    pub(crate) crowd: Crowd<Event>,
    pub(crate) node: Node,
    pub(crate) backup: Option<Backup>,
    /// The server is suspended until this time.
    pub(crate) paused_until: Time,
    /// Since when the server has written nothing, because it is suspended or another process has locked the database.
    pub(crate) stalled_since: Option<Time>,
    /// Since when the outcome of an append is unknown.
    pub(crate) held_since: Option<Time>,
    pub(crate) down_since: Time,
    /// Whether the machine has booted since the server last wrote anything.
    pub(crate) is_boot_unwritten: bool,
    round: Option<(Time, u64)>,
    /// The engine is busy until this time: a round takes as long as its record takes to become durable.
    free_at: Time,
    poll: Option<(Time, u64)>,
}

/// An event of the simulation.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Asking(Asking),
    Round(u64),
    Poll(u64),
    ServerFault,
    ClientFault,
    Starts { is_new_boot: bool },
    BusyEnds,
    Fold,
    FoldSynced,
    Backup,
    Restore,
    Heals,
}

impl From<Asking> for Event {
    fn from(asking: Asking) -> Self {
        Event::Asking(asking)
    }
}

impl World {
    /// Creates the world of a seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let plan = Plan::draw(&mut chance);
        let node = Node::new(plan.rate(&mut chance), chance.fork());
        let network = Network::new(chance.fork());
        let clients = (0..plan.n_clients).map(|_| Client::new(&plan, &mut chance)).collect();
        let mut world = Self {
            crowd: Crowd::new(plan, chance, network, clients),
            node,
            backup: None,
            paused_until: 0,
            stalled_since: None,
            held_since: None,
            down_since: 0,
            is_boot_unwritten: false,
            round: None,
            free_at: 0,
            poll: None,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.crowd.trace.add(0, format_args!("{:?}", self.crowd.plan));
        self.after(0, Event::Starts { is_new_boot: false });
        self.crowd.begin();
        self.after(self.crowd.plan.fault_every, Event::ServerFault);
        self.after(self.crowd.plan.client_fault_every, Event::ClientFault);
        self.after(self.crowd.plan.fold_every, Event::Fold);
        if self.crowd.plan.restores {
            let half = self.crowd.plan.heal_at / 2;
            let (backup, restore) =
                (self.crowd.chance.below(half), half + self.crowd.chance.below(half));
            self.after(backup, Event::Backup);
            self.after(restore, Event::Restore);
        }
        self.after(self.crowd.plan.heal_at, Event::Heals);
    }

    /// Runs all events. Returns the history and the log.
    pub fn run(mut self) -> (History, String) {
        let end_at = self.crowd.plan.end_at;
        while let Some(event) = self.crowd.next(end_at) {
            self.happen(event);
        }
        (self.crowd.history, self.crowd.trace.into_text())
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.crowd.is_healed()
    }

    pub(crate) fn after(&mut self, span: Time, event: Event) {
        self.crowd.after(span, event);
    }

    pub(crate) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.crowd.note(what);
    }

    fn happen(&mut self, event: Event) {
        let is_servers = matches!(
            event,
            Event::Asking(Asking::Arrives(_) | Asking::Closed(_))
                | Event::Round(_)
                | Event::Poll(_)
        );
        if is_servers && self.crowd.now < self.paused_until {
            // The kernel holds the event until the process runs again.
            return self.after(self.paused_until - self.crowd.now, event);
        }
        match event {
            Event::Asking(asking) => match self.crowd.happen(asking) {
                Some(Reaches::Question(id)) => self.arrives(id),
                Some(Reaches::HangUp(id)) => {
                    self.node.close(self.crowd.now, id);
                    self.serve();
                }
                None => {}
            },
            Event::Round(n) if self.round.is_some_and(|(_, round)| round == n) => self.rounds(),
            Event::Poll(n) if self.poll.is_some_and(|(_, poll)| poll == n) => self.polls(),
            Event::Round(_) | Event::Poll(_) => {}
            Event::ServerFault => self.server_fault(),
            Event::ClientFault => self.client_fault(),
            Event::Starts { is_new_boot } => self.starts(is_new_boot),
            Event::BusyEnds => self.busy_ends(),
            Event::Fold | Event::FoldSynced => self.folds(matches!(event, Event::Fold)),
            Event::Backup => self.backs_up(),
            Event::Restore => self.restore(),
            Event::Heals => self.heals(),
        }
    }

    fn arrives(&mut self, id: OperationId) {
        let Operation { client, request, .. } = &self.crowd.history.operations[id];
        if !self.node.is_up() {
            // The machine refuses the connection.
            return self.crowd.after(MS, Asking::Broken(id));
        }
        self.crowd.trace.add(self.crowd.now, format_args!("server gets {id}"));
        self.node.ask(self.crowd.now, id, *client, request);
        self.serve();
    }

    /// Schedules a round of the engine within this time.
    pub(crate) fn round_within(&mut self, span: Time) {
        let at = (self.crowd.now + self.crowd.chance.within(0, span)).max(self.free_at);
        if self.round.is_none_or(|(planned, _)| at < planned || planned < self.crowd.now) {
            self.round = Some((at, self.crowd.n_next()));
            self.after(at - self.crowd.now, Event::Round(self.crowd.n_next()));
        }
    }

    /// Schedules the threads that the last event has woken.
    pub(crate) fn serve(&mut self) {
        if self.node.is_engine_woken() {
            self.round_within(MS);
        }
        if self.node.has_woken_workers() {
            self.poll_soon();
        }
    }

    fn rounds(&mut self) {
        self.round = None;
        let Some(turn) = self.node.turn(self.crowd.now) else { return };
        if let Turn::Up(patience) = turn {
            let took = self.works();
            let span = took.max(patience.as_nanos() as Time);
            self.round = Some((self.crowd.now + span, self.crowd.n_next()));
            self.after(span, Event::Round(self.crowd.n_next()));
        }
        self.turned(turn);
    }

    /// Updates the state after a round. Returns how long the writer is busy.
    fn works(&mut self) -> Time {
        let (is_busy, is_held) = {
            let disk = self.node.disk.lock();
            (disk.is_busy, disk.is_held())
        };
        // While the outcome of an append is unknown, the server is stopped and only polls the store.
        if is_held {
            self.held_since.get_or_insert(self.crowd.now);
            self.stalled_since.get_or_insert(self.crowd.now);
        } else if let Some(since) = self.held_since.take() {
            self.crowd.history.pauses.push((since, self.crowd.now));
        }
        if !is_busy && !is_held {
            self.stalled_since = None;
        }
        let is_slow = self.crowd.plan.has_slow_disk || self.crowd.chance.permille(30);
        let took = if is_slow { 60 * MS } else { 2 * MS };
        let took = self.crowd.chance.within(MS / 10, took);
        self.free_at = self.crowd.now + took;
        took
    }

    fn turned(&mut self, turn: Turn) {
        match turn {
            Turn::Up(_) => self.serve(),
            Turn::Ended(answers) => {
                self.note(format_args!("server has ended"));
                answers.into_iter().for_each(|(id, answer)| self.crowd.reply(id, answer));
                self.went_down();
            }
        }
    }

    /// Schedules the workers a little after they were woken.
    fn poll_soon(&mut self) {
        let lag = if self.crowd.chance.permille(150) { 40 * MS } else { MS / 2 };
        let at = self.crowd.now + self.crowd.chance.within(0, lag);
        if self.poll.is_none_or(|(planned, _)| planned <= self.crowd.now) {
            self.poll = Some((at, self.crowd.n_next()));
            self.after(at - self.crowd.now, Event::Poll(self.crowd.n_next()));
        }
    }

    fn polls(&mut self) {
        self.poll = None;
        let (chance, may_flush) = (&mut self.crowd.chance, self.free_at <= self.crowd.now);
        let ran = self.node.run_workers(self.crowd.now, may_flush, || chance.permille(800));
        let Some((Ran { answers, has_flushed }, turn)) = ran else { return };
        if has_flushed {
            self.works();
        }
        answers.into_iter().for_each(|(id, answer)| self.crowd.reply(id, answer));
        self.turned(turn);
    }
}
