//! Simulates faults of the server and of clients, and their end.

use leasehold_store::Error;

use crate::crowd::Asking;
use crate::history::Outage;
use crate::plan::TICK;
use crate::store::{Fate, Settling};
use crate::time::{MS, SECOND, Time};
use crate::world::{Event, World};

/// The maximum time between two records while anything can expire: one tick and a little more.
const WRITTEN_WITHIN: Time = TICK + 20 * MS;
/// The possible fates of an append that fails.
const FAILURES: [Fate; 4] =
    [Fate::FailedNotApplied, Fate::FailedButApplied, Fate::CrashBefore, Fate::CrashAfter];

impl World {
    pub(crate) fn server_fault(&mut self) {
        if self.is_healed() {
            return;
        }
        let next = self.crowd.chance.within(1, 2 * self.crowd.plan.fault_every);
        self.after(next, Event::ServerFault);
        if !self.node.is_up() || self.crowd.now < self.paused_until {
            return;
        }
        self.crowd.history.n_faults += 1;
        match self.crowd.chance.below(100) {
            0..25 => self.kill(),
            25..50 => {
                let fate = self.fate();
                self.note(format_args!("the next append is {fate:?}"));
                self.node.disk.lock().fate = fate;
            }
            50..65 => self.pause(),
            65..80 => self.busy(),
            80..87 => {
                self.note(format_args!("server is asked to stop"));
                self.node.stop();
                self.serve();
            }
            87..93 => {
                let by_ms = self.crowd.chance.within(0, 200_000_000) as i64 - 100_000_000;
                self.note(format_args!("the wall clock is set by {by_ms} ms"));
                self.node.machine.set_wall(by_ms);
            }
            _ => {
                let by_ms = self.crowd.chance.within(1, 60_000) as i64;
                self.note(format_args!("the wall clock is set by {by_ms} ms"));
                self.node.machine.set_wall(by_ms);
            }
        }
    }

    /// Draws the fate of an append that does not simply succeed.
    fn fate(&mut self) -> Fate {
        match self.crowd.chance.below(10) {
            0..5 => self.crowd.chance.pick(&FAILURES),
            5 => Fate::Fenced,
            _ => Fate::Unsettled(Settling {
                is_written: self.crowd.chance.permille(500),
                n_tries: self.crowd.chance.pick(&[0, 1, 4, 15, 60]),
                is_fenced: self.crowd.chance.permille(300),
            }),
        }
    }

    fn kill(&mut self) {
        self.note(format_args!("server is killed"));
        let keeps_unsynced = self.crowd.chance.permille(500);
        for (id, answer) in self.node.kill(keeps_unsynced) {
            if self.crowd.chance.permille(500) {
                self.crowd.reply(id, answer);
            }
        }
        self.went_down();
    }

    /// Handles the loss of the process: its connections break, and it is started again later.
    pub(crate) fn went_down(&mut self) {
        self.down_since = self.stalled_since.take().unwrap_or(self.crowd.now);
        self.crowd
            .history
            .pauses
            .extend(self.held_since.take().map(|since| (since, self.crowd.now)));
        self.node.disk.lock().is_busy = false;
        self.paused_until = 0;
        let pending: Vec<_> =
            self.crowd.clients.iter().filter_map(|client| client.pending).collect();
        for id in pending {
            if self.crowd.chance.permille(500) {
                let delay = self.crowd.chance.within(MS, 200 * MS);
                self.crowd.after(delay, Asking::Broken(id));
            }
        }
        let is_new_boot = self.crowd.chance.permille(250);
        let downtime = if is_new_boot { 5 * SECOND } else { 2 * SECOND };
        let downtime = self.crowd.chance.within(20 * MS, downtime);
        self.after(downtime, Event::Starts { is_new_boot });
    }

    pub(crate) fn starts(&mut self, is_new_boot: bool) {
        self.is_boot_unwritten |= is_new_boot;
        let mut is_frozen = self.is_boot_unwritten;
        let mut from = self.down_since.saturating_sub(WRITTEN_WITHIN);
        if is_new_boot {
            let rate = self.crowd.plan.rate(&mut self.crowd.chance);
            self.node.machine.reboot(self.crowd.now, rate);
        } else if !self.is_healed() && self.crowd.chance.permille(30) {
            let by = self.crowd.chance.within(MS, 3 * SECOND);
            self.note(format_args!("time since boot goes back by {by} ns"));
            self.node.machine.step_back(by);
            is_frozen = true;
            from = from.saturating_sub(by);
        }
        self.note(format_args!("server starts, new boot: {is_new_boot}"));
        if !self.is_healed() && self.crowd.chance.permille(50) {
            self.node.disk.lock().fate = self.crowd.chance.pick(&FAILURES);
        }
        if self.crowd.chance.permille(200) {
            let unseen = self.node.disk.lock().unseen_damage(&mut self.crowd.chance);
            self.crowd.history.unseen.extend(unseen.map(|what| (self.crowd.now, what)));
        }
        let started =
            self.node.start(self.crowd.now, self.crowd.plan.options(), self.crowd.plan.n_workers);
        if let Some(recovery) = self.node.disk.lock().recovery.take() {
            self.crowd.history.recoveries.push((self.crowd.now, recovery));
        }
        self.crowd.history.outages.push(Outage { from, to: self.crowd.now, is_frozen });
        match started {
            Ok(()) => {
                self.is_boot_unwritten = false;
                // The engine's thread and the workers' tasks start automatically.
                self.round_within(MS);
                self.serve();
            }
            Err(Error::Refused(why)) => {
                self.note(format_args!("it refuses to start: {why}"));
                self.crowd.history.refusals.push((self.crowd.now, why));
            }
            Err(error) => {
                self.note(format_args!("it does not start: {error}"));
                self.node.disk.lock().crash(false);
                // It has written nothing since it last ran.
                self.stalled_since = Some(self.down_since);
                self.went_down();
            }
        }
    }

    fn pause(&mut self) {
        let span = self.crowd.chance.within(20 * MS, 4 * SECOND);
        self.note(format_args!("server stands still for {span} ns"));
        self.paused_until = self.crowd.now + span;
        self.stalled_since.get_or_insert(self.crowd.now);
        self.crowd.history.pauses.push((self.crowd.now, self.paused_until));
        self.after(span, Event::BusyEnds);
    }

    fn busy(&mut self) {
        let span = self.crowd.chance.within(20 * MS, 2 * SECOND);
        self.note(format_args!("another process holds the database for {span} ns"));
        self.node.disk.lock().is_busy = true;
        self.stalled_since.get_or_insert(self.crowd.now);
        self.after(span, Event::BusyEnds);
    }

    pub(crate) fn busy_ends(&mut self) {
        self.node.disk.lock().is_busy = false;
    }

    pub(crate) fn backs_up(&mut self) {
        self.note(format_args!("backup"));
        self.backup = Some(self.node.disk.lock().backup());
    }

    pub(crate) fn restore(&mut self) {
        let Some(backup) = self.backup.take().filter(|_| self.node.is_up()) else { return };
        self.note(format_args!("server is put back to its backup"));
        self.node.kill(false);
        self.node.restore(backup);
        self.crowd.history.restores.push(self.crowd.now);
        self.went_down();
    }

    pub(crate) fn folds(&mut self, begins: bool) {
        if !begins {
            self.node.disk.lock().sync();
            return;
        }
        let next = self.crowd.chance.within(MS, 2 * self.crowd.plan.fold_every);
        if !self.is_healed() {
            self.after(next, Event::Fold);
        }
        if self.node.is_up() {
            if let Err(error) = self.node.disk.lock().fold() {
                self.crowd.history.refusals.push((self.crowd.now, error.to_string()));
            }
            let sync = self.crowd.chance.within(MS, 300 * MS);
            self.after(sync, Event::FoldSynced);
        }
    }

    pub(crate) fn client_fault(&mut self) {
        if self.is_healed() {
            return;
        }
        let next = self.crowd.chance.within(1, 2 * self.crowd.plan.client_fault_every);
        self.after(next, Event::ClientFault);
        self.crowd.client_fault();
    }

    /// Ends all faults.
    pub(crate) fn heals(&mut self) {
        let mut disk = self.node.disk.lock();
        disk.heal();
        drop(disk);
        self.paused_until = self.crowd.now;
        self.stalled_since = None;
        self.crowd.heal();
    }
}
