//! Simulates the way of a call to etcd and back.

use leasehold_etcd::{Error, Kind};

use super::plan::{LATE_MAX, TRY_MAX};
use super::{At, ClusterEvent, ClusterWorld, PREFIX};
use crate::etcd::{Answered, Request, Response};
use crate::time::{MS, SECOND, Time};

/// A call that takes longer, or fails, counts as a pause of its thread.
const QUICK: Time = 20 * MS;
/// A call has no effect after this time, however long its copies and its sender were delayed.
const KEPT: Time = 60 * SECOND;
/// Maximum number of revisions that a member can be behind when it serves a local read.
const LAG_MAX: u64 = 40;

/// A pending call.
pub(super) struct Call {
    pub(super) node: usize,
    pub(super) thread: usize,
    /// The number of the process of the node.
    start: u64,
    request: Request,
    sent_at: Time,
}

impl ClusterWorld {
    /// Records that a thread calls etcd. Returns the number of the call.
    pub(super) fn asks(&mut self, node: usize, thread: usize, request: Request) -> u64 {
        let now = self.now();
        if let Request::Txn(txn) = &request {
            self.journal.sends(txn, now);
        }
        self.n_calls += 1;
        let (call, start) = (self.n_calls, self.nodes[node].n_starts);
        let name = self.thread_name(node, thread);
        self.crowd.note(format_args!("n{node} {name} asks {call}: {}", words(&request)));
        while self.calls.first_entry().is_some_and(|old| old.get().sent_at + KEPT < now) {
            self.calls.pop_first();
        }
        self.calls.insert(call, Call { node, thread, start, request, sent_at: now });
        self.crowd.after(TRY_MAX, ClusterEvent::Answered(call, Err(silence())));
        for after in self.ways(node) {
            self.crowd.after(after, ClusterEvent::Arrives(call));
        }
        call
    }

    /// Returns the delay of each copy of a call. Empty if the call is lost.
    fn ways(&mut self, node: usize) -> Vec<Time> {
        let chance = &mut self.crowd.chance;
        let quick = chance.within(MS / 10, 2 * MS);
        if self.crowd.now >= self.crowd.plan.heal_at {
            return vec![MS];
        }
        let troubles = &self.troubles;
        if chance.permille(troubles.lost) || self.nodes[node].cut_until > self.crowd.now {
            return Vec::new();
        }
        let way = if chance.permille(troubles.late) { chance.within(MS, LATE_MAX) } else { quick };
        let mut ways = vec![way];
        if chance.permille(troubles.doubled) {
            ways.push(chance.within(MS / 10, LATE_MAX));
        }
        ways
    }

    /// Applies a copy of a call that arrives at etcd.
    pub(super) fn arrives(&mut self, id: u64) {
        let now = self.now();
        let Some(call) = self.calls.get(&id) else { return };
        let (node, request) = (call.node, call.request.clone());
        if now < self.silent_until {
            return;
        }
        let is_lie = matches!(request, Request::LeaseKeepAlive(_)) && now < self.lies_until;
        let lag = self.crowd.chance.below(LAG_MAX) as i64;
        let answered = if is_lie {
            Ok(Response::LeaseKeepAlive(crate::etcd::TTL_MIN))
        } else {
            self.etcd.apply(&request, now, lag)
        };
        let revision = self.etcd.revision();
        self.crowd.note(format_args!("etcd {id} at {revision}: {}", outcome(&answered)));
        if let (Request::Txn(txn), Ok(Response::Txn(response))) = (&request, &answered)
            && response.succeeded
        {
            self.journal.done(txn, now, &mut self.crowd.history);
        }
        self.changed();
        self.answers(id, node, answered);
    }

    /// Sends the response to a call, or loses it.
    fn answers(&mut self, id: u64, node: usize, answered: Answered) {
        if self.crowd.is_healed() {
            return self.crowd.after(MS, ClusterEvent::Answered(id, answered));
        }
        let (chance, troubles) = (&mut self.crowd.chance, &self.troubles);
        if self.nodes[node].cut_until > self.crowd.now {
            return;
        }
        let quick = chance.within(MS / 10, 2 * MS);
        if chance.permille(troubles.unanswered) {
            // The response can also be an error although the operation took effect, as when etcd does not know the
            // outcome.
            if chance.permille(500) {
                let kind = chance.pick(&[Kind::Unknown, Kind::NoSpace]);
                let error = Error::new(kind, "simulated", "etcdserver: request timed out");
                self.crowd.after(quick, ClusterEvent::Answered(id, Err(error)));
            }
            return;
        }
        let way = if chance.permille(troubles.late) { chance.within(MS, LATE_MAX) } else { quick };
        self.crowd.after(way, ClusterEvent::Answered(id, answered));
    }

    /// Delivers the response to a call, unless its thread has received one already or is gone.
    pub(super) fn answered(&mut self, id: u64, answered: Answered) {
        let now = self.now();
        let Some(call) = self.calls.get(&id) else { return };
        let Call { node, thread, start, sent_at, .. } = *call;
        let is_waiting = self.nodes[node].n_starts == start
            && self.stands(node, thread).is_some_and(|stands| stands.at == At::Call(id));
        if !is_waiting {
            return;
        }
        if !self.crowd.is_healed() && self.crowd.chance.permille(self.troubles.stalled) {
            let span = self.crowd.chance.within(MS, LATE_MAX);
            let span = self.at_most_healed(now + span) - now;
            let name = self.thread_name(node, thread);
            self.stalls(node, &name, span);
            return self.crowd.after(span, ClusterEvent::Answered(id, answered));
        }
        self.held_up_by(node, thread, sent_at, answered.is_ok());
        if now >= sent_at + TRY_MAX {
            self.crowd.note(format_args!("n{node} hears of {id}: {}", outcome(&answered)));
        }
        self.goes_on(node, thread, Some(answered));
    }

    /// Suspends the threads of this name for this time.
    pub(super) fn stalls(&mut self, node: usize, name: &str, span: Time) {
        let until = self.crowd.now + span;
        let Some(running) = &mut self.nodes[node].running else { return };
        for stands in running.threads.iter_mut().filter(|stands| *stands.thread.name == *name) {
            stands.stalled_until = until;
        }
        self.crowd.history.n_faults += 1;
        self.crowd.history.pauses.push((self.crowd.now, until));
        self.crowd.note(format_args!("n{node} {name} stands still for {span} ns"));
    }

    fn thread_name(&self, node: usize, thread: usize) -> Box<str> {
        self.stands(node, thread).map(|stands| stands.thread.name.clone()).unwrap_or_default()
    }

    /// Records a pause while the engine of a server waits for etcd, because the server sends no responses in that time.
    fn held_up_by(&mut self, node: usize, thread: usize, sent_at: Time, is_ok: bool) {
        if *self.thread_name(node, thread) != *"engine" {
            return;
        }
        let now = self.now();
        let troubled_since = &mut self.nodes[node].troubled_since;
        if !is_ok || now > sent_at + QUICK {
            troubled_since.get_or_insert(sent_at);
        }
        if is_ok && let Some(since) = troubled_since.take() {
            self.crowd.history.pauses.push((since, now));
        }
    }

    /// Schedules the effects of a change in etcd: watchers are notified, or not, and leases expire when they are due.
    pub(super) fn changed(&mut self) {
        if let Some(at) = self.etcd.next_expiry()
            && self.expiry.is_none_or(|(planned, _)| at < planned)
        {
            // etcd checks its leases only from time to time.
            let lag = self.crowd.chance.within(MS, 500 * MS);
            let span = at.saturating_sub(self.crowd.now) + lag;
            let n = self.crowd.n_next();
            self.expiry = Some((self.crowd.now + span, n));
            self.crowd.after(span, ClusterEvent::Expires(n));
        }
        let from = self.watched + 1;
        self.watched = self.etcd.revision();
        let has_news = ["head", "leader"].iter().any(|key| {
            let news = self.etcd.watched(format!("{PREFIX}{key}").as_bytes(), from);
            // A compaction is a reason to poll, too.
            news.is_err() || news.is_ok_and(|events| !events.is_empty())
        });
        if !has_news {
            return;
        }
        for node in 0..self.nodes.len() {
            let unseen = if self.crowd.is_healed() { 0 } else { self.troubles.unseen };
            if !self.crowd.chance.permille(unseen) {
                let lag = self.crowd.chance.within(MS / 10, 5 * MS);
                self.crowd.after(lag, ClusterEvent::Rings(node));
            }
        }
    }
}

fn silence() -> Error {
    Error::new(Kind::Unknown, "simulated", "no answer in time")
}

/// Describes a request briefly, in the same way in every run of a seed.
fn words(request: &Request) -> String {
    match request {
        Request::Range(range) => format!("range {}", key(&range.key)),
        Request::Txn(txn) => {
            let puts = txn.success.iter().filter_map(|op| match &op.request {
                Some(leasehold_etcd::Request::Put(put)) => Some(key(&put.key)),
                _ => None,
            });
            let puts: Vec<_> = puts.collect();
            format!("txn if {} put {puts:?} of {}", txn.compare.len(), txn.success.len())
        }
        other => format!("{other:?}"),
    }
}

/// Omits the random part in the name of a snapshot's chunk.
fn key(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    let name = text.strip_prefix(PREFIX).unwrap_or(&text);
    name.split('-').next().unwrap_or(name).into()
}

fn outcome(answered: &Answered) -> String {
    match answered {
        Ok(Response::Txn(txn)) => format!("txn {}", txn.succeeded),
        Ok(_) => "done".into(),
        Err(error) => error.to_string(),
    }
}
