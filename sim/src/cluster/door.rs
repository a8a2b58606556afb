//! Simulates the requests of clients to the servers, and the responses.

use super::{ClusterEvent, ClusterWorld};
use crate::crowd::{Asking, Reaches};
use crate::history::OperationId;
use crate::message::Answer;
use crate::time::MS;
use crate::worker::Ran;

impl ClusterWorld {
    pub(super) fn asking(&mut self, asking: Asking) {
        match &asking {
            // The client was redirected or got no response, so it tries another server.
            Asking::Answered(id, Answer::Stopping | Answer::Busy | Answer::Unknown)
            | Asking::Broken(id)
            | Asking::Timeout(id) => {
                let client = self.crowd.history.operations[*id].client;
                if self.crowd.clients[client].pending == Some(*id) {
                    self.moves_on(client);
                }
            }
            _ => {}
        }
        match self.crowd.happen(asking) {
            Some(Reaches::Question(id)) => self.question(id),
            Some(Reaches::HangUp(id)) => {
                let now = self.now();
                let Some(node) = self.asked.get(&id).copied() else { return };
                self.nodes[node].show(now);
                let serving = self.nodes[node].serving();
                let workers = serving.into_iter().flat_map(|serving| &mut serving.workers);
                workers.for_each(|worker| worker.front.close(id));
                self.serve(node);
            }
            None => {}
        }
    }

    fn moves_on(&mut self, client: usize) {
        self.with[client] = (self.with[client] + 1) % self.nodes.len();
    }

    fn question(&mut self, id: OperationId) {
        let now = self.now();
        let (client, request) = {
            let operation = &self.crowd.history.operations[id];
            (operation.client, operation.request.clone())
        };
        if self.crowd.chance.permille(30) {
            self.moves_on(client);
        }
        let with = self.with[client];
        let node = *self.asked.entry(id).or_insert(with);
        let paused_until = self.at_most_healed(self.nodes[node].paused_until);
        if now < paused_until {
            return self.crowd.after(paused_until - now, Asking::Arrives(id));
        }
        self.nodes[node].show(now);
        let Some(serving) = self.nodes[node].serving() else {
            // The server refuses the connection.
            return self.crowd.after(MS, Asking::Broken(id));
        };
        let n = client % serving.workers.len();
        serving.workers[n].front.ask(id, client, &request);
        serving.workers[n].wake_connections();
        self.crowd.note(format_args!("n{node} gets {id}"));
        self.serve(node);
    }

    pub(super) fn poll_soon(&mut self, node: usize) {
        let now = self.now();
        if self.nodes[node].poll.is_none_or(|(planned, _)| planned <= now) {
            let lag = if self.crowd.chance.permille(150) { 40 * MS } else { MS / 2 };
            let (lag, n) = (self.crowd.chance.within(0, lag), self.crowd.n_next());
            self.nodes[node].poll = Some((now + lag, n));
            self.crowd.after(lag, ClusterEvent::Poll { node, n });
        }
    }

    pub(super) fn polls(&mut self, node: usize) {
        let now = self.now();
        self.nodes[node].poll = None;
        self.nodes[node].show(now);
        let chance = &mut self.crowd.chance;
        let mut answers = Vec::new();
        if let Some(serving) = self.nodes[node].serving() {
            for worker in &mut serving.workers {
                let Ran { answers: more, .. } = worker.run(|| chance.permille(800), true);
                answers.extend(more);
            }
        }
        answers.into_iter().for_each(|(id, answer)| self.crowd.reply(id, answer));
        self.serve(node);
    }
}
