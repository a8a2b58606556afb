//! The clients, the network between them and the servers, and the history of a run. Events take place one after the
//! other, in true time.

use std::collections::BTreeMap;

use leasehold_core::mutant;

use crate::chance::Chance;
use crate::client::{Action, Client};
use crate::history::{History, Operation, OperationId, Write};
use crate::message::{Answer, Claim, Request};
use crate::network::Network;
use crate::plan::Plan;
use crate::time::{MS, SECOND, Time};
use crate::trace::Trace;

/// Everything except the servers. `E` is the event type of the world.
pub(crate) struct Crowd<E> {
    pub(crate) now: Time,
    pub(crate) plan: Plan,
    pub(crate) chance: Chance,
    pub(crate) network: Network,
    pub(crate) clients: Vec<Client>,
    pub(crate) history: History,
    pub(crate) trace: Trace,
    /// The highest token seen by each protected resource.
    seen: BTreeMap<usize, u64>,
    events: BTreeMap<(Time, u64), E>,
    n_events: u64,
}

/// An event between clients and servers.
#[derive(Clone, Debug)]
pub(crate) enum Asking {
    Arrives(OperationId),
    Closed(OperationId),
    Answered(OperationId, Answer),
    Broken(OperationId),
    Timeout(OperationId),
    Acts(usize),
    Written(Claim),
}

/// What arrives at a server.
pub(crate) enum Reaches {
    Question(OperationId),
    HangUp(OperationId),
}

impl<E: From<Asking>> Crowd<E> {
    pub(crate) fn new(plan: Plan, chance: Chance, network: Network, clients: Vec<Client>) -> Self {
        Self {
            now: 0,
            history: History::new(plan.clone()),
            plan,
            chance,
            network,
            clients,
            trace: Trace::default(),
            seen: BTreeMap::new(),
            events: BTreeMap::new(),
            n_events: 0,
        }
    }

    /// Schedules the first action of every client.
    pub(crate) fn begin(&mut self) {
        for client in 0..self.clients.len() {
            let think = self.chance.within(1, 500) * MS;
            self.after(think, Asking::Acts(client));
        }
    }

    /// Returns the next event, up to the time `end_at`.
    pub(crate) fn next(&mut self, end_at: Time) -> Option<E> {
        let ((at, _), event) = self.events.pop_first().filter(|((at, _), _)| *at <= end_at)?;
        self.now = at;
        Some(event)
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.now >= self.plan.heal_at
    }

    pub(crate) fn after(&mut self, span: Time, event: impl Into<E>) {
        self.n_events += 1;
        self.events.insert((self.now + span, self.n_events), event.into());
    }

    /// Returns the number of the next event.
    pub(crate) fn n_next(&self) -> u64 {
        self.n_events + 1
    }

    pub(crate) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        self.trace.add(self.now, what);
    }

    /// Handles an event. Returns what arrives at a server by it.
    pub(crate) fn happen(&mut self, asking: Asking) -> Option<Reaches> {
        match asking {
            Asking::Arrives(id) => return Some(Reaches::Question(id)),
            Asking::Closed(id) => return Some(Reaches::HangUp(id)),
            Asking::Answered(id, answer) => self.answered(id, answer),
            Asking::Broken(id) => self.broken(id, false),
            Asking::Timeout(id) => self.broken(id, true),
            Asking::Acts(client) => self.acts(client),
            Asking::Written(claim) => self.written(claim),
        }
        None
    }

    /// Sends a response of the server.
    pub(crate) fn reply(&mut self, id: OperationId, answer: Answer) {
        self.trace.add(self.now, format_args!("server answers {id}: {answer:?}"));
        for delay in self.network.delays(&self.plan) {
            self.after(delay, Asking::Answered(id, answer.clone()));
        }
    }

    fn answered(&mut self, id: OperationId, answer: Answer) {
        let client = self.history.operations[id].client;
        if self.clients[client].pending != Some(id) {
            return;
        }
        let asleep_until = self.clients[client].asleep_until;
        if self.now < asleep_until {
            return self.after(asleep_until - self.now, Asking::Answered(id, answer));
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

    /// Returns until when, in true time, a careful client relies on a response: it counts from its request, by its own
    /// clock, and subtracts a margin.
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
            // From here on nothing is lost, so a missing response would be the server's fault.
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

    /// Schedules that the server notices a closed connection, unless the network loses that.
    pub(crate) fn close(&mut self, id: OperationId) {
        let delays = self.network.delays(&self.plan);
        if let Some(delay) = delays.first() {
            self.after(*delay, Asking::Closed(id));
        }
    }

    pub(crate) fn think(&mut self, client: usize) {
        let is_slow = self.is_healed() || self.chance.permille(200);
        let is_hasty = self.clients[client].character.is_hasty;
        let think = if is_slow { 1_500 } else { 150 };
        let think = if is_hasty && self.chance.permille(700) { 4 } else { think };
        let think = self.chance.within(1, think) * MS;
        self.after(think, Asking::Acts(client));
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
                    self.after(delay, Asking::Written(claim));
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
        delays.into_iter().for_each(|delay| self.after(delay, Asking::Arrives(id)));
        self.after(timeout, Asking::Timeout(id));
    }

    /// Writes to the protected resource, which rejects every token lower than the highest it has seen.
    fn written(&mut self, claim: Claim) {
        let seen = self.seen.entry(claim.lock).or_default();
        let is_accepted = claim.token.get() >= *seen;
        *seen = (*seen).max(claim.token.get());
        self.note(format_args!("write with {claim:?}: {is_accepted}"));
        self.history.writes.push(Write { claim, at: self.now, is_accepted });
    }

    /// Ends all losses. A client whose response was lost repeats its request.
    pub(crate) fn heal(&mut self) {
        self.note(format_args!("faults are over"));
        self.network.heal();
        for n in 0..self.clients.len() {
            self.clients[n].asleep_until = self.now;
            if let Some(id) = self.clients[n].pending {
                self.after(crate::plan::DELAY_MAX, Asking::Broken(id));
            }
        }
    }

    /// Simulates a fault of a client.
    pub(crate) fn client_fault(&mut self) {
        self.history.n_faults += 1;
        let n = self.chance.below(self.clients.len() as u64) as usize;
        if self.chance.permille(500) {
            let span = self.chance.within(100 * MS, 8 * SECOND);
            self.note(format_args!("client {n} stands still for {span} ns"));
            self.clients[n].asleep_until = self.now + span;
            return;
        }
        self.note(format_args!("client {n} crashes"));
        let pending = self.clients[n].pending;
        self.clients[n].crash();
        if let Some(id) = pending {
            self.history.operations[id].is_given_up = true;
            self.close(id);
            self.think(n);
        }
    }
}
