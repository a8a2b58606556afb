//! Simulates faults of nodes and of etcd, and their end.

use leasehold_engine as engine;
use leasehold_store::shared;

use super::{ClusterEvent, ClusterWorld, NOTICED_WITHIN};
use crate::crowd::Asking;
use crate::time::{MS, SECOND};

/// Maximum copies of etcd kept for a rollback.
const COPIES_MAX: usize = 20;

impl ClusterWorld {
    pub(super) fn fault(&mut self) {
        if self.crowd.is_healed() {
            return;
        }
        let next = self.crowd.chance.within(1, 2 * self.troubles.fault_every);
        self.crowd.after(next, ClusterEvent::Fault);
        self.crowd.history.n_faults += 1;
        // Most faults affect the leader.
        let leader = self.nodes.iter().position(|node| node.leads());
        let any = self.crowd.chance.below(self.nodes.len() as u64) as usize;
        let node = leader.filter(|_| self.crowd.chance.permille(600)).unwrap_or(any);
        match self.crowd.chance.below(100) {
            0..14 => self.kill(node),
            14..20 => self.stop(node),
            20..36 => self.pause(node),
            36..52 => self.cut(node),
            52..58 => self.stall(node),
            58..64 => {
                let by_ms = self.crowd.chance.within(0, 200_000_000) as i64 - 100_000_000;
                self.crowd.note(format_args!("the wall clock of n{node} is set by {by_ms} ms"));
                self.nodes[node].machine.set_wall(by_ms);
            }
            64..74 => self.revoke(),
            74..82 => self.elect(),
            82..88 => {
                let span = self.crowd.chance.within(SECOND, 6 * SECOND);
                self.crowd.note(format_args!("etcd lies about leases for {span} ns"));
                self.lies_until = self.crowd.now + span;
            }
            88..94 => {
                let span = self.crowd.chance.within(100 * MS, 6 * SECOND);
                self.crowd.note(format_args!("etcd is full for {span} ns"));
                self.etcd.is_full = true;
                self.crowd.after(span, ClusterEvent::HasRoom);
            }
            94..97 => self.compact(),
            _ => self.wipe(),
        }
    }

    pub(super) fn kill(&mut self, node: usize) {
        if self.nodes[node].running.is_none() {
            return;
        }
        self.crowd.note(format_args!("n{node} is killed"));
        for (id, answer) in self.nodes[node].kill() {
            if self.crowd.chance.permille(500) {
                self.crowd.reply(id, answer);
            }
        }
        self.went_down(node);
    }

    /// Stops a node cleanly, so that it releases its seat.
    fn stop(&mut self, node: usize) {
        self.crowd.note(format_args!("n{node} is asked to stop"));
        if let Some(serving) = self.nodes[node].serving() {
            serving.handle.stop();
        }
        self.serve(node);
    }

    fn pause(&mut self, node: usize) {
        let span = self.crowd.chance.within(50 * MS, 6 * SECOND);
        self.crowd.note(format_args!("n{node} stands still for {span} ns"));
        let until = self.crowd.now + span;
        self.nodes[node].paused_until = until;
        self.crowd.history.pauses.push((self.crowd.now, until));
    }

    fn cut(&mut self, node: usize) {
        let span = self.crowd.chance.within(100 * MS, 7 * SECOND);
        self.crowd.note(format_args!("n{node} is cut off from etcd for {span} ns"));
        self.nodes[node].cut_until = self.crowd.now + span;
    }

    fn stall(&mut self, node: usize) {
        let name = self.crowd.chance.pick(&["engine", "keeper", "snapshots"]);
        let span = self.crowd.chance.within(100 * MS, 9 * SECOND);
        self.stalls(node, name, span);
    }

    /// Revokes all leases in etcd even though they are renewed. A real etcd with two leaders once did that.
    fn revoke(&mut self) {
        self.crowd.note(format_args!("etcd ends every lease"));
        for id in self.etcd.lease_ids() {
            self.etcd.revoke(id);
        }
        self.changed();
    }

    /// Leaves etcd without a leader for a while. Its leases start again with their full TTL when it has one.
    fn elect(&mut self) {
        let span = self.crowd.chance.within(100 * MS, 4 * SECOND);
        self.crowd.note(format_args!("etcd is silent for {span} ns"));
        self.silent_until = self.crowd.now + span;
        self.etcd.renew_all(self.silent_until);
    }

    fn compact(&mut self) {
        let revision = self.etcd.revision();
        self.crowd.note(format_args!("etcd is compacted to {revision}"));
        let compact = crate::etcd::Request::Compact(revision);
        // It might be compacted to that revision already.
        let _ = self.etcd.apply(&compact, self.crowd.now, 0);
    }

    /// Replaces a node by one without any memory. It is always the same node: if all nodes forgot, none could lead.
    fn wipe(&mut self) {
        let node = self.nodes.len() - 1;
        if self.nodes[node].running.is_some() && !self.troubles.is_put_back {
            self.kill(node);
            self.crowd.note(format_args!("n{node} forgets everything"));
            self.nodes[node].folder.wipe();
        }
    }

    /// Handles the end of a process that ended on its own.
    pub(super) fn ended(&mut self, node: usize) {
        let Some((outcome, last)) = self.nodes[node].take_end() else { return };
        match outcome {
            Ok(()) => self.crowd.note(format_args!("n{node} has ended")),
            Err(error) => {
                self.crowd.note(format_args!("n{node} has ended: {}", first_words(&error)))
            }
        }
        last.into_iter().for_each(|(id, answer)| self.crowd.reply(id, answer));
        self.went_down(node);
    }

    /// Handles the loss of a process: its connections break, and it is started again later.
    fn went_down(&mut self, node: usize) {
        self.nodes[node].paused_until = 0;
        let now = self.crowd.now;
        let since = self.nodes[node].troubled_since.take();
        self.crowd.history.pauses.extend(since.map(|since| (since, now)));
        let pending: Vec<_> =
            self.crowd.clients.iter().filter_map(|client| client.pending).collect();
        for id in pending.into_iter().filter(|id| self.asked.get(id) == Some(&node)) {
            if self.crowd.is_healed() || self.crowd.chance.permille(500) {
                let delay = self.crowd.chance.within(MS, 200 * MS);
                self.crowd.after(delay, Asking::Broken(id));
            }
        }
        let is_new_boot = self.crowd.chance.permille(250);
        let downtime = if is_new_boot { 5 * SECOND } else { 2 * SECOND };
        let downtime = self.crowd.chance.within(20 * MS, downtime);
        self.crowd.after(downtime, ClusterEvent::Starts { node, is_new_boot });
    }

    pub(super) fn starts(&mut self, node: usize, is_new_boot: bool) {
        let now = self.crowd.now;
        if is_new_boot {
            let rate = self.crowd.plan.rate(&mut self.crowd.chance);
            self.nodes[node].machine.reboot(now, rate);
        }
        self.crowd.note(format_args!("n{node} starts, new boot: {is_new_boot}"));
        self.n_starts += 1;
        let witness = Some(self.journal.witness(&self.nodes[node].name));
        let name = self.nodes[node].name.clone();
        let usual =
            shared::Options::new(&name, &format!("http://{name}"), self.crowd.plan.limits());
        let seat = shared::Options {
            snapshots: self.troubles.snapshots,
            compact_every: self.troubles.compact_every,
            witness: witness.clone(),
            ..usual
        };
        let engine = engine::Options { witness, ..self.crowd.plan.options() };
        self.nodes[node].start(now, engine, seat);
        self.serve(node);
    }

    /// Keeps a copy of etcd, to which it can be rolled back later.
    pub(super) fn copy(&mut self) {
        self.crowd.after(SECOND, ClusterEvent::Copy);
        self.copies.push((self.journal.seq(), self.etcd.clone()));
        if self.copies.len() > COPIES_MAX {
            self.copies.remove(0);
        }
    }

    /// Rolls etcd back to a copy, including its revisions. The copy is one that every node that could lead knows to be
    /// old, because without that memory the rollback could not be noticed.
    pub(super) fn put_back(&mut self) {
        let known = self.nodes.iter().map(|node| node.remembers()).min().flatten().unwrap_or(0);
        let is_old = |(seq, _): &&(u64, crate::etcd::Etcd)| *seq > 0 && *seq < known;
        let Some((seq, copy)) = self.copies.iter().rev().find(is_old).cloned() else { return };
        let last = self.journal.seq();
        self.crowd.note(format_args!("etcd is put back from record {last} to {seq}"));
        self.etcd = copy;
        self.etcd.renew_all(self.crowd.now);
        self.journal.is_over = true;
        self.put_back_at = Some(self.crowd.now);
        self.end_at = self.crowd.now + NOTICED_WITHIN;
        self.watched = 1;
        self.crowd.plan.heal_at = self.crowd.now;
        self.heals();
        self.changed();
    }

    /// Ends all faults.
    pub(super) fn heals(&mut self) {
        let now = self.crowd.now;
        self.crowd.heal();
        (self.silent_until, self.lies_until) = (now, now);
        self.etcd.is_full = false;
        for node in &mut self.nodes {
            (node.paused_until, node.cut_until) = (now, now);
            let running = node.running.iter_mut().flat_map(|running| &mut running.threads);
            running.for_each(|stands| stands.stalled_until = now);
        }
    }
}

/// Returns the start of an error message, without the random values in it.
fn first_words(error: &leasehold_store::Error) -> String {
    let text = error.to_string();
    text.split('{').next().unwrap_or_default().trim().into()
}
