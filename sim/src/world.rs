//! The world of one run: who does what when. One event after the other, in true time.

use std::collections::BTreeMap;

use leasehold_core::mutant;

use crate::chance::Chance;
use crate::client::{Action, Client};
use crate::history::{History, Operation, OperationId, Write};
use crate::message::{Answer, Claim, Request};
use crate::network::Network;
use crate::node::{Node, Turn};
use crate::plan::Plan;
use crate::store::Backup;
use crate::time::{MS, Time};
use crate::trace::Trace;
use crate::worker::Ran;

/// All there is.
pub struct World {
    pub(crate) now: Time,
    pub(crate) plan: Plan,
    pub(crate) chance: Chance,
    pub(crate) node: Node,
    pub(crate) network: Network,
    pub(crate) clients: Vec<Client>,
    pub(crate) history: History,
    pub(crate) trace: Trace,
    pub(crate) backup: Option<Backup>,
    /// The server stands still until then.
    pub(crate) paused_until: Time,
    /// Since when it has written nothing, because it stands still or another process holds the database.
    pub(crate) stalled_since: Option<Time>,
    /// Since when nobody knows what became of an append.
    pub(crate) held_since: Option<Time>,
    pub(crate) down_since: Time,
    /// The machine has booted since the server last wrote anything down.
    pub(crate) is_boot_unwritten: bool,
    /// The highest token seen by what each lock protects.
    seen: BTreeMap<usize, u64>,
    events: BTreeMap<(Time, u64), Event>,
    n_events: u64,
    round: Option<(Time, u64)>,
    /// The engine is at work until then: a round takes as long as its record takes to be durable.
    free_at: Time,
    poll: Option<(Time, u64)>,
}

/// What can happen next.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Arrives(OperationId),
    Closed(OperationId),
    Answered(OperationId, Answer),
    Broken(OperationId),
    Timeout(OperationId),
    Acts(usize),
    Written(Claim),
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

impl World {
    /// The world of a seed, at its beginning.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let plan = Plan::draw(&mut chance);
        let node = Node::new(plan.rate(&mut chance), chance.fork());
        let network = Network::new(chance.fork());
        let clients = (0..plan.n_clients).map(|_| Client::new(&plan, &mut chance)).collect();
        let mut world = Self {
            now: 0,
            history: History::new(plan.clone()),
            plan,
            chance,
            node,
            network,
            clients,
            trace: Trace::default(),
            backup: None,
            paused_until: 0,
            stalled_since: None,
            held_since: None,
            down_since: 0,
            is_boot_unwritten: false,
            seen: BTreeMap::new(),
            events: BTreeMap::new(),
            n_events: 0,
            round: None,
            free_at: 0,
            poll: None,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.trace.add(0, format_args!("{:?}", self.plan));
        self.after(0, Event::Starts { is_new_boot: false });
        for client in 0..self.clients.len() {
            let think = self.chance.within(1, 500) * MS;
            self.after(think, Event::Acts(client));
        }
        self.after(self.plan.fault_every, Event::ServerFault);
        self.after(self.plan.client_fault_every, Event::ClientFault);
        self.after(self.plan.fold_every, Event::Fold);
        if self.plan.restores {
            let half = self.plan.heal_at / 2;
            let (backup, restore) = (self.chance.below(half), half + self.chance.below(half));
            self.after(backup, Event::Backup);
            self.after(restore, Event::Restore);
        }
        self.after(self.plan.heal_at, Event::Heals);
    }

    /// Lets everything happen, and returns what did.
    pub fn run(mut self) -> (History, String) {
        while let Some(((at, _), event)) = self.events.pop_first() {
            if at > self.plan.end_at {
                break;
            }
            self.now = at;
            self.happen(event);
        }
        (self.history, self.trace.into_text())
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.now >= self.plan.heal_at
    }

    pub(crate) fn after(&mut self, span: Time, event: Event) {
        self.n_events += 1;
        self.events.insert((self.now + span, self.n_events), event);
    }

    pub(crate) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.add(self.now, what);
    }

    fn happen(&mut self, event: Event) {
        let is_servers = matches!(
            event,
            Event::Arrives(_) | Event::Closed(_) | Event::Round(_) | Event::Poll(_)
        );
        if is_servers && self.now < self.paused_until {
            // The kernel keeps it until the process runs again.
            return self.after(self.paused_until - self.now, event);
        }
        match event {
            Event::Arrives(id) => self.arrives(id),
            Event::Closed(id) => {
                self.node.close(self.now, id);
                self.serve();
            }
            Event::Answered(id, answer) => self.answered(id, answer),
            Event::Broken(id) | Event::Timeout(id) => {
                self.broken(id, matches!(event, Event::Timeout(_)))
            }
            Event::Acts(client) => self.acts(client),
            Event::Written(claim) => self.written(claim),
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
        let Operation { client, request, .. } = &self.history.operations[id];
        if !self.node.is_up() {
            // The connection is refused.
            return self.after(MS, Event::Broken(id));
        }
        self.trace.add(self.now, format_args!("server gets {id}"));
        self.node.ask(self.now, id, *client, request);
        self.serve();
    }

    /// The engine gets its turn within this time.
    pub(crate) fn round_within(&mut self, span: Time) {
        let at = (self.now + self.chance.within(0, span)).max(self.free_at);
        if self.round.is_none_or(|(planned, _)| at < planned || planned < self.now) {
            self.round = Some((at, self.n_events + 1));
            self.after(at - self.now, Event::Round(self.n_events + 1));
        }
    }

    /// Whoever was woken by what just happened gets to run.
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
        let Some(turn) = self.node.turn(self.now) else { return };
        if let Turn::Up(patience) = turn {
            let took = self.works();
            let span = took.max(patience.as_nanos() as Time);
            self.round = Some((self.now + span, self.n_events + 1));
            self.after(span, Event::Round(self.n_events + 1));
        }
        self.turned(turn);
    }

    /// There was a round: for how long nobody else can have the writer.
    fn works(&mut self) -> Time {
        let (is_busy, is_held) = {
            let disk = self.node.disk.lock();
            (disk.is_busy, disk.is_held())
        };
        // As long as nobody knows what is durable the server stands still, only it looks now and then.
        if is_held {
            self.held_since.get_or_insert(self.now);
            self.stalled_since.get_or_insert(self.now);
        } else if let Some(since) = self.held_since.take() {
            self.history.pauses.push((since, self.now));
        }
        if !is_busy && !is_held {
            self.stalled_since = None;
        }
        let is_slow = self.plan.has_slow_disk || self.chance.permille(30);
        let took = if is_slow { 60 * MS } else { 2 * MS };
        let took = self.chance.within(MS / 10, took);
        self.free_at = self.now + took;
        took
    }

    fn turned(&mut self, turn: Turn) {
        match turn {
            Turn::Up(_) => self.serve(),
            Turn::Ended(answers) => {
                self.note(format_args!("server has ended"));
                answers.into_iter().for_each(|(id, answer)| self.reply(id, answer));
                self.went_down();
            }
        }
    }

    /// The workers get to run a little after they were woken.
    fn poll_soon(&mut self) {
        let lag = if self.chance.permille(150) { 40 * MS } else { MS / 2 };
        let at = self.now + self.chance.within(0, lag);
        if self.poll.is_none_or(|(planned, _)| planned <= self.now) {
            self.poll = Some((at, self.n_events + 1));
            self.after(at - self.now, Event::Poll(self.n_events + 1));
        }
    }

    fn polls(&mut self) {
        self.poll = None;
        let (chance, may_flush) = (&mut self.chance, self.free_at <= self.now);
        let ran = self.node.run_workers(self.now, may_flush, || chance.permille(800));
        let Some((Ran { answers, has_flushed }, turn)) = ran else { return };
        if has_flushed {
            self.works();
        }
        answers.into_iter().for_each(|(id, answer)| self.reply(id, answer));
        self.turned(turn);
    }

    /// The server sends an answer.
    pub(crate) fn reply(&mut self, id: OperationId, answer: Answer) {
        self.trace.add(self.now, format_args!("server answers {id}: {answer:?}"));
        for delay in self.network.delays(&self.plan) {
            self.after(delay, Event::Answered(id, answer.clone()));
        }
    }

    fn answered(&mut self, id: OperationId, answer: Answer) {
        let client = self.history.operations[id].client;
        if self.clients[client].pending != Some(id) {
            return;
        }
        let asleep_until = self.clients[client].asleep_until;
        if self.now < asleep_until {
            return self.after(asleep_until - self.now, Event::Answered(id, answer));
        }
        let good_until = self.good_until(client, id, &answer);
        self.trace.add(self.now, format_args!("client {client} is told {id}: {answer:?}"));
        let operation = &mut self.history.operations[id];
        operation.answer = Some((self.now, answer.clone()));
        operation.good_until = good_until;
        let request = operation.request.clone();
        let chance = &mut self.chance;
        self.clients[client].told(self.now, &request, &answer, good_until, chance);
        self.think(client);
    }

    /// Until when, in true time, a careful client relies on an answer: it counts from when it asked, by its
    /// own clock, and subtracts a margin.
    fn good_until(&self, client: usize, id: OperationId, answer: &Answer) -> Option<Time> {
        let expiry = match answer {
            Answer::Granted { expiry, .. } | Answer::Renewed { expiry } => (*expiry)?,
            Answer::SessionKept { expiry } | Answer::SessionOpened { expiry, .. } => *expiry,
            _ => return None,
        };
        let bound = expiry.after_send_ms.saturating_mul(MS);
        let relied_on = bound - bound / 1_000_000 * self.plan.margin_ppm;
        let sent_at = self.history.operations[id].sent_at;
        let counted_from = if mutant!(CountFromAnswer) { self.now } else { sent_at };
        Some(counted_from + self.clients[client].rate.truly(relied_on))
    }

    fn broken(&mut self, id: OperationId, is_timeout: bool) {
        let client = self.history.operations[id].client;
        if self.clients[client].pending != Some(id) {
            return;
        }
        if is_timeout && self.is_healed() {
            // From here on nothing is lost: it would be the server's fault.
            return;
        }
        self.note(format_args!("client {client} gives {id} up"));
        self.history.operations[id].is_given_up = true;
        let request = self.history.operations[id].request.clone();
        let is_healed = self.is_healed();
        self.clients[client].broken(&request, is_healed, &mut self.chance);
        self.close(id);
        self.think(client);
    }

    /// The server learns that a connection is gone, perhaps.
    pub(crate) fn close(&mut self, id: OperationId) {
        let delays = self.network.delays(&self.plan);
        if let Some(delay) = delays.first() {
            self.after(*delay, Event::Closed(id));
        }
    }

    pub(crate) fn think(&mut self, client: usize) {
        let is_slow = self.is_healed() || self.chance.permille(200);
        let is_hasty = self.clients[client].character.is_hasty;
        let think = if is_slow { 1_500 } else { 150 };
        let think = if is_hasty && self.chance.permille(700) { 4 } else { think };
        let think = self.chance.within(1, think) * MS;
        self.after(think, Event::Acts(client));
    }

    fn acts(&mut self, client: usize) {
        if self.clients[client].pending.is_some() {
            return;
        }
        if self.now < self.clients[client].asleep_until {
            return self.think(client);
        }
        match self.clients[client].act(self.now, &self.plan, &mut self.chance) {
            Action::Send(request) => self.send(client, request),
            Action::Write(claim) => {
                for delay in self.network.delays(&self.plan) {
                    self.after(delay, Event::Written(claim));
                }
                self.think(client);
            }
            Action::Idle => self.think(client),
        }
    }

    fn send(&mut self, client: usize, request: Request) {
        let id = self.history.operations.len();
        self.trace.add(self.now, format_args!("client {client} sends {id}: {request:?}"));
        let delays = self.network.delays(&self.plan);
        let timeout = self.clients[client].timeout(&request, &mut self.chance);
        self.clients[client].pending = Some(id);
        self.history.operations.push(Operation {
            client,
            request,
            sent_at: self.now,
            n_copies: delays.len() as u64,
            answer: None,
            is_given_up: false,
            good_until: None,
        });
        delays.into_iter().for_each(|delay| self.after(delay, Event::Arrives(id)));
        self.after(timeout, Event::Timeout(id));
    }

    /// What a lock protects refuses every token older than one it has seen.
    fn written(&mut self, claim: Claim) {
        let seen = self.seen.entry(claim.lock).or_default();
        let is_accepted = claim.token.get() >= *seen;
        *seen = (*seen).max(claim.token.get());
        self.note(format_args!("write with {claim:?}: {is_accepted}"));
        self.history.writes.push(Write { claim, at: self.now, is_accepted });
    }
}
