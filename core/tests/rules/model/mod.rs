//! A reference model of the same rules, written to be obvious instead of fast. It keeps every lease ever created in one
//! list, and answers every request by searching the whole list.

mod ask;
pub(crate) mod step;
mod summary;
mod together;

use std::collections::BTreeMap;

use leasehold_core::*;

pub(crate) use summary::{summary, visible};

/// Returns limits so high that nothing is forgotten or rejected for its size, because the model has no limits.
pub(crate) fn generous() -> Limits {
    let forever = Span::from_secs(1_000_000_000);
    Limits {
        request_retention: forever,
        ended_retention: forever,
        idle_retention: forever,
        ..Limits::default()
    }
}

/// Returns limits so low that data is soon forgotten and work is done in small steps.
pub(crate) fn tight() -> Limits {
    Limits {
        request_retention: Span::from_secs(3),
        ended_retention: Span::from_secs(5),
        idle_retention: Span::from_secs(4),
        answered_max: 3,
        ended_max: 2,
        idle_max: 1,
        lease_requests_max: 2,
        promote_steps_max: 1,
        queue_max: 3,
        holders_max: 2,
        principal_leases_max: 6,
        principal_namespaces_max: 1,
        locks_max: 2,
        metadata_total_bytes_max: 2,
        names_total_bytes_max: 1000,
        requests_total_bytes_max: 900,
        queues_total_bytes_max: 3 * 256,
        ended_total_bytes_max: 600,
        ..Limits::default()
    }
}

#[derive(Clone)]
struct Lease {
    number: u64,
    asked: Acquire,
    /// The number of the first lease of its group.
    group: Option<u64>,
    phase: Phase,
    token: u64,
    version: u32,
    ttl: Option<Span>,
    deadline: Timestamp,
    /// Index into the model's sessions.
    session: Option<usize>,
    /// The requests with ids: kind, id and body.
    requests: Vec<(Operation, Box<str>, String)>,
    /// Whether a connection other than the one it was granted to knows the lease.
    is_known_elsewhere: bool,
    is_gone: bool,
}

struct Session {
    open: OpenSession,
    deadline: Timestamp,
    ended: Option<Ending>,
}

struct Lapse {
    owner: Owner,
    dialect: Dialect,
    expired_at: Timestamp,
    until: Timestamp,
}

pub(crate) struct Model {
    now: Timestamp,
    limits: Limits,
    leases: Vec<Lease>,
    sessions: Vec<Session>,
    last_tokens: BTreeMap<LockKey, u64>,
    lapses: BTreeMap<LockKey, Lapse>,
    /// The token floor of each known namespace.
    floors: BTreeMap<String, u64>,
    /// The token floor of all other namespaces.
    floor: u64,
    /// How far restores have raised the numbers.
    leases_before: u64,
    sessions_before: u64,
}

impl Model {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            now: Timestamp::ZERO,
            limits,
            leases: vec![],
            sessions: vec![],
            last_tokens: BTreeMap::new(),
            lapses: BTreeMap::new(),
            floors: BTreeMap::new(),
            floor: 0,
            leases_before: 0,
            sessions_before: 0,
        }
    }

    pub(crate) fn n_leases(&self) -> u64 {
        self.leases.len() as u64 + self.leases_before
    }

    pub(crate) fn visible(&self) -> Vec<String> {
        let is_true = |l: &&Lease| self.overdue(l).is_none();
        let locks = (0..step::N_LOCKS).map(step::key).map(|key| {
            let on_it = || self.leases.iter().filter(|l| l.asked.lock == key && !l.is_gone);
            let held = on_it().filter(|l| l.phase == Phase::Active).filter(is_true);
            let holders: Vec<_> = held.map(|l| (l.number, l.token, self.deadline(l))).collect();
            let waiting = on_it().filter(|l| l.phase.is_queued()).filter(is_true);
            let queue: Vec<_> = waiting.map(|l| (l.number, l.phase, l.deadline.finite())).collect();
            let lapse = self.lapses.get(&key);
            let lapse = lapse.map(|l| (l.owner.clone(), l.dialect, l.expired_at, l.until));
            let last_token = self.last_tokens.get(&key).copied();
            let last_token = last_token.unwrap_or_else(|| self.floor_of(&key));
            format!("{key:?} {holders:?} {queue:?} {last_token:?} {lapse:?}")
        });
        let leases = self
            .leases
            .iter()
            .filter(|l| !l.is_gone)
            .map(|l| format!("{:?} {:?} {:?}", LeaseNumber(l.number), l.phase, l.version));
        locks.chain(leases).collect()
    }

    pub(crate) fn apply(&mut self, now: Timestamp, command: &Command) -> String {
        self.now = self.now.max(now);
        let told = match command {
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::AcquireAll(acquire) => self.acquire_all(acquire),
            Command::Cancel(cancel) => self.cancel(cancel),
            Command::Renew(renew) => self.renew(renew),
            Command::RenewAll(renew) => self.renew_all(renew),
            Command::Release(release) => self.release(release),
            Command::GiveUp(asked) => self.give_up(asked),
            Command::EndSession(_) | Command::Prove(_) | Command::Maintain(_) => {
                unreachable!("no step is one of these")
            }
            Command::ReleaseAll(release) => self.release_all(release),
            Command::Revoke(revoke) => self.revoke(revoke),
            Command::Amend(amend) => self.amend(amend),
            Command::Confirm(asked) => self.confirm(asked),
            Command::Leave(Leave(lease)) => self.leave(lease.0),
            Command::StepAside(StepAside(lease)) => {
                self.part(lease.0, true);
                Ok("done".into())
            }
            Command::OpenSession(open) => self.open(open),
            Command::KeepSession(keep) => self.keep(keep),
            Command::CloseSession(close) => self.close(close),
            Command::Settle(Settle(lock)) => {
                self.settle(lock);
                Ok("done".into())
            }
            Command::Sweep(_) => {
                self.sweep();
                self.forget_namespaces();
                Ok("done".into())
            }
            Command::Resume(_) => {
                let is_away = |l: &Lease| {
                    l.phase == Phase::Waiting && matches!(l.asked.wait, Wait::Connected(_))
                };
                let away: Vec<_> =
                    (0..self.leases.len()).filter(|n| is_away(&self.leases[*n])).collect();
                let stay = self.limits.resume_park_max;
                away.iter().for_each(|n| self.step_aside(*n, stay));
                away.iter().for_each(|n| self.promote(&self.leases[*n].asked.lock.clone()));
                Ok("done".into())
            }
            Command::Restore(_) => {
                self.restore();
                Ok("done".into())
            }
        };
        told.unwrap_or_else(|refused| refused)
    }

    fn deadline(&self, lease: &Lease) -> Option<Timestamp> {
        let session = lease.session.map_or(Timestamp::NEVER, |s| self.sessions[s].deadline);
        lease.deadline.min(session).finite()
    }

    fn overdue(&self, lease: &Lease) -> Option<(Ending, Timestamp)> {
        let mut endings = vec![];
        if self.now >= lease.deadline {
            endings.push((lease.deadline, Ending::Expired));
        }
        if let Some(session) = lease.session.map(|s| &self.sessions[s]) {
            if let Some(how) = session.ended {
                endings.push((session.deadline, how));
            } else if self.now >= session.deadline {
                endings.push((session.deadline, Ending::Expired));
            }
        }
        endings.into_iter().min_by_key(|(at, _)| *at).map(|(at, how)| (how, at))
    }

    fn holders(&self, lock: &LockKey) -> Vec<usize> {
        let holds = |l: &Lease| l.asked.lock == *lock && l.phase == Phase::Active;
        (0..self.leases.len()).filter(|n| holds(&self.leases[*n])).collect()
    }

    fn waiters(&self, lock: &LockKey) -> Vec<usize> {
        let waits = |l: &Lease| l.asked.lock == *lock && l.phase.is_queued();
        (0..self.leases.len()).filter(|n| waits(&self.leases[*n])).collect()
    }

    fn admits(&self, asked: &Acquire) -> bool {
        let holders = self.holders(&asked.lock);
        match (holders.first().map(|h| self.leases[*h].asked.mode), asked.mode) {
            (None, _) | (Some(Mode::Shared), Mode::Shared) => true,
            (Some(Mode::Counted(_)), Mode::Counted(limit)) => {
                holders.len() < limit as usize || is_share(asked.dialect, &asked.lock.name)
            }
            _ => false,
        }
    }

    fn grace(&self, lock: &LockKey) -> Option<&Lapse> {
        self.lapses.get(lock).filter(|lapse| self.now < lapse.until)
    }

    fn settle(&mut self, lock: &LockKey) {
        self.expire_holders(lock);
        self.promote(lock);
    }

    fn expire_holders(&mut self, lock: &LockKey) {
        for holder in self.holders(lock).into_iter().rev() {
            self.expire_if_due(holder);
        }
    }

    fn expire_if_due(&mut self, n: usize) -> bool {
        let overdue = self.overdue(&self.leases[n]);
        if let Some((how, at)) = overdue {
            self.end_whole(n, how, at);
        }
        overdue.is_some()
    }

    /// Ends a lease together with its group, and grants the locks they leave to the next waiters.
    fn end_whole(&mut self, n: usize, how: Ending, at: Timestamp) {
        let over = self.end_together(n, how, at);
        for other in over.into_iter().filter(|other| *other != n) {
            self.promote(&self.leases[other].asked.lock.clone());
        }
    }

    /// Returns the next waiter to grant.
    fn next(&self, lock: &LockKey) -> Option<usize> {
        let mut waiters = self.waiters(lock).into_iter();
        let is_ready = |n: &usize| self.leases[*n].phase == Phase::Waiting;
        match self.grace(lock) {
            None => waiters.find(is_ready),
            Some(lapse) => waiters.find(|n| {
                let asked = &self.leases[*n].asked;
                is_ready(n) && asked.owner == lapse.owner && asked.dialect == lapse.dialect
            }),
        }
    }

    fn promote(&mut self, lock: &LockKey) {
        while let Some(next) = self.next(lock) {
            if self.expire_if_due(next) {
                continue;
            }
            let together = self.together(next);
            if !together.iter().all(|n| self.can_go(*n)) {
                return;
            }
            for n in &together {
                let token = self.mint(&self.leases[*n].asked.lock.clone());
                let now = self.now;
                let lease = &mut self.leases[*n];
                lease.phase = Phase::Active;
                lease.token = token;
                lease.deadline = lease.ttl.map_or(Timestamp::NEVER, |ttl| now + ttl);
            }
            for n in together.into_iter().filter(|n| *n != next) {
                self.promote(&self.leases[n].asked.lock.clone());
            }
        }
    }

    fn mint(&mut self, lock: &LockKey) -> u64 {
        self.lapses.remove(lock);
        let floor = self.floor_of(lock);
        self.floors.insert(lock.namespace.to_string(), floor);
        let last = self.last_tokens.entry(lock.clone()).or_insert(floor);
        *last += 1;
        *last
    }

    fn floor_of(&self, lock: &LockKey) -> u64 {
        self.floors.get(&*lock.namespace).copied().unwrap_or(self.floor)
    }

    /// Forgets namespaces without a lock, and raises the floor of unknown namespaces to theirs.
    fn forget_namespaces(&mut self) {
        let has_lock = |name: &str| self.last_tokens.keys().any(|lock| *lock.namespace == *name);
        let empty: Vec<_> = self.floors.keys().filter(|name| !has_lock(name)).cloned().collect();
        for name in empty {
            let floor = self.floors.remove(&name).unwrap_or_default();
            self.floor = self.floor.max(floor);
        }
    }

    fn end(&mut self, n: usize, how: Ending, at: Timestamp) {
        let lease = &mut self.leases[n];
        let was_active = lease.phase == Phase::Active;
        lease.phase = Phase::Ended(how);
        lease.version += 1;
        lease.session = None;
        if !was_active {
            lease.requests.clear();
        }
        let is_answered = was_active && (how != Ending::Released || !lease.requests.is_empty());
        lease.is_gone = !lease.asked.keep && !is_answered;
        if was_active && how == Ending::Expired && lease.asked.mode == Mode::Exclusive {
            let Acquire { lock, owner, dialect, grace, .. } = lease.asked.clone();
            self.lapses.insert(lock, Lapse { owner, dialect, expired_at: at, until: at + grace });
        }
    }

    fn sweep(&mut self) {
        for session in &mut self.sessions {
            if session.ended.is_none() && self.now >= session.deadline {
                session.ended = Some(Ending::Expired);
            }
        }
        for n in 0..self.leases.len() {
            if matches!(self.leases[n].phase, Phase::Ended(_)) {
                continue;
            }
            self.expire_if_due(n);
        }
        for lock in (0..step::N_LOCKS).map(step::key) {
            self.promote(&lock);
        }
        // A lease with a TTL of zero ends as soon as it starts, and so can the next one.
        let is_due = |l: &Lease| !matches!(l.phase, Phase::Ended(_)) && self.overdue(l).is_some();
        if self.leases.iter().any(is_due) {
            self.sweep();
        }
        self.sessions.iter_mut().for_each(|s| {
            if s.ended.is_some() {
                s.open.digest = SessionDigest([99; 32])
            }
        });
    }

    /// Forgets all connections, so that no client other than the owner knows of a lease. Only some tests restart the
    /// machine.
    pub(crate) fn restart(&mut self) {
        self.leases.iter_mut().for_each(|lease| lease.is_known_elsewhere = false);
    }

    fn restore(&mut self) {
        for (lock, last) in &self.last_tokens {
            let floor = self.floors.entry(lock.namespace.to_string()).or_default();
            *floor = (*floor).max(*last);
        }
        self.floors.values_mut().for_each(|floor| *floor += 1 << 40);
        self.floor += 1 << 40;
        self.leases_before += self.leases.len() as u64 + (1 << 40);
        self.sessions_before += self.sessions.len() as u64 + (1 << 40);
        self.leases.clear();
        self.sessions.clear();
        self.last_tokens.clear();
        self.lapses.clear();
    }
}
