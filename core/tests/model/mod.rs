//! The same semantics, written to be seen through instead of to be fast: every lease ever made in one list,
//! every question answered by looking at all of them.

pub(crate) mod step;

use std::collections::BTreeMap;

use leasehold_core::*;

/// Nothing is ever forgotten or refused for its size: the model knows no limits.
pub(crate) fn generous() -> Limits {
    let forever = Span::from_secs(1_000_000_000);
    Limits {
        request_retention: forever,
        ended_retention: forever,
        idle_retention: forever,
        ..Limits::default()
    }
}

/// Everything is soon forgotten and done in small steps.
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
        owner_leases_max: 4,
        locks_max: 2,
        ..Limits::default()
    }
}

#[derive(Clone)]
struct Lease {
    number: u64,
    asked: Acquire,
    phase: Phase,
    token: u64,
    version: u32,
    ttl: Option<Span>,
    deadline: Timestamp,
    /// Index into the model's sessions.
    session: Option<usize>,
    /// What was asked under which id.
    requests: Vec<(Operation, Box<str>, String)>,
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
    floor: u64,
    /// How far numbers were moved by restores.
    leases_before: u64,
    sessions_before: u64,
}

/// What a client is told, as far as it is the same however it was found out.
pub(crate) fn summary(outcome: &Result<Outcome, Rejection>) -> String {
    match outcome {
        Ok(Outcome::Granted(grant)) => {
            let lease = &grant.lease;
            format!("{:?} {:?} {:?} {:?}", grant.kind, lease.id.number, lease.token, lease.deadline)
        }
        Ok(Outcome::Renewed(lease)) => {
            format!("renewed {:?} {:?}", lease.id.number, lease.deadline)
        }
        Ok(Outcome::Released(lease)) => format!("released {:?}", lease.id.number),
        Ok(Outcome::Amended(lease)) => format!("amended {:?} {:?}", lease.id.number, lease.ttl),
        Ok(Outcome::Revoked(leases)) => format!("revoked {}", leases.len()),
        Ok(Outcome::Swept(_)) => "Done".into(),
        Ok(other) => format!("{other:?}"),
        Err(Rejection::Held(holding)) => format!("held, {} waiting", holding.n_waiting),
        Err(other) => format!("{other:?}"),
    }
}

/// Everything that can be seen, one line each.
pub(crate) fn visible(machine: &Machine, n_leases: u64) -> Vec<String> {
    let locks = (0..3).map(step::key).map(|key| {
        let view = machine.lock(&key, usize::MAX);
        let mut holders: Vec<_> =
            view.holders.iter().map(|h| (h.id.number.0, h.token.get(), h.deadline)).collect();
        holders.sort_unstable();
        let queue: Vec<_> =
            view.queue.iter().map(|w| (w.id.number.0, w.phase, w.deadline)).collect();
        let lapse = view.lapse.map(|l| (l.owner, l.dialect, l.expired_at, l.grace_until));
        format!("{key:?} {holders:?} {queue:?} {:?} {lapse:?}", view.last_token.get())
    });
    let leases = (n_leases.saturating_sub(300)..=n_leases)
        .filter_map(|n| machine.lease(LeaseNumber(n)))
        .map(|lease| format!("{:?} {:?} {:?}", lease.id.number, lease.phase, lease.version));
    locks.chain(leases).collect()
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
        let locks = (0..3).map(step::key).map(|key| {
            let on_it = || self.leases.iter().filter(|l| l.asked.lock == key && !l.is_gone);
            let held = on_it().filter(|l| l.phase == Phase::Active).filter(is_true);
            let holders: Vec<_> = held.map(|l| (l.number, l.token, self.deadline(l))).collect();
            let waiting = on_it().filter(|l| l.phase.is_queued()).filter(is_true);
            let queue: Vec<_> = waiting.map(|l| (l.number, l.phase, l.deadline.finite())).collect();
            let lapse = self.lapses.get(&key);
            let lapse = lapse.map(|l| (l.owner.clone(), l.dialect, l.expired_at, l.until));
            let last_token = self.last_tokens.get(&key).copied().unwrap_or(self.floor);
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
            Command::Renew(renew) => self.renew(renew),
            Command::Release(release) => self.release(release),
            Command::Revoke(revoke) => self.revoke(revoke),
            Command::Amend(amend) => self.amend(amend),
            Command::Forgo(forgo) => self.forgo(forgo),
            Command::Leave(lease) => self.leave(lease.0),
            Command::OpenSession(open) => self.open(open),
            Command::KeepSession(keep) => self.keep(keep),
            Command::CloseSession(close) => self.close(close),
            Command::Settle(lock) => {
                self.settle(lock);
                Ok("Done".into())
            }
            Command::Sweep(_) => {
                self.sweep();
                Ok("Done".into())
            }
            Command::Resume => {
                let is_away = |l: &Lease| {
                    l.phase == Phase::Waiting && matches!(l.asked.wait, Wait::Connected(_))
                };
                let away: Vec<_> =
                    (0..self.leases.len()).filter(|n| is_away(&self.leases[*n])).collect();
                away.iter().for_each(|n| self.step_aside(*n));
                away.iter().for_each(|n| self.promote(&self.leases[*n].asked.lock.clone()));
                Ok("Done".into())
            }
            Command::Restore => {
                self.restore();
                Ok("Done".into())
            }
        };
        told.unwrap_or_else(|refused| refused)
    }

    // --- what is true ---

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

    fn admits(&self, lock: &LockKey, mode: Mode) -> bool {
        let holders = self.holders(lock);
        match (holders.first().map(|h| self.leases[*h].asked.mode), mode) {
            (None, _) | (Some(Mode::Shared), Mode::Shared) => true,
            (Some(Mode::Counted(_)), Mode::Counted(limit)) => holders.len() < limit as usize,
            _ => false,
        }
    }

    fn grace(&self, lock: &LockKey) -> Option<&Lapse> {
        self.lapses.get(lock).filter(|lapse| self.now < lapse.until)
    }

    // --- what happens by itself ---

    fn settle(&mut self, lock: &LockKey) {
        for holder in self.holders(lock).into_iter().rev() {
            self.expire_if_due(holder);
        }
        self.promote(lock);
    }

    fn expire_if_due(&mut self, n: usize) -> bool {
        let overdue = self.overdue(&self.leases[n]);
        if let Some((how, at)) = overdue {
            self.end(n, how, at);
        }
        overdue.is_some()
    }

    fn promote(&mut self, lock: &LockKey) {
        loop {
            let mut waiters = self.waiters(lock).into_iter();
            let is_ready = |n: &usize| self.leases[*n].phase == Phase::Waiting;
            let next = match self.grace(lock) {
                None => waiters.find(is_ready),
                Some(lapse) => waiters.find(|n| {
                    let asked = &self.leases[*n].asked;
                    is_ready(n) && asked.owner == lapse.owner && asked.dialect == lapse.dialect
                }),
            };
            let Some(next) = next else { return };
            if self.expire_if_due(next) {
                continue;
            }
            if !self.admits(lock, self.leases[next].asked.mode) {
                return;
            }
            let token = self.mint(lock);
            let now = self.now;
            let lease = &mut self.leases[next];
            lease.phase = Phase::Active;
            lease.token = token;
            lease.deadline = lease.ttl.map_or(Timestamp::NEVER, |ttl| now + ttl);
        }
    }

    fn mint(&mut self, lock: &LockKey) -> u64 {
        self.lapses.remove(lock);
        let last = self.last_tokens.entry(lock.clone()).or_insert(self.floor);
        *last += 1;
        *last
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
        for lock in (0..3).map(step::key) {
            self.promote(&lock);
        }
        // A ttl of nothing is over as soon as it starts, and the next one may be too.
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

    fn restore(&mut self) {
        let highest = self.last_tokens.values().copied().max().unwrap_or(0);
        self.floor = if self.last_tokens.is_empty() && self.floor == 0 {
            0
        } else {
            highest.max(self.floor) + (1 << 40)
        };
        self.leases_before += self.leases.len() as u64 + (1 << 40);
        self.sessions_before += self.sessions.len() as u64 + (1 << 40);
        self.leases.clear();
        self.sessions.clear();
        self.last_tokens.clear();
        self.lapses.clear();
    }

    // --- what is asked ---

    fn acquire(&mut self, asked: &Acquire) -> Result<String, String> {
        if let Some(id) = &asked.request_id
            && let Some(found) =
                self.replay(asked.dialect, &asked.owner, Operation::Acquire, id, &body(asked))?
        {
            match self.leases[found].phase {
                Phase::Active => return Ok(self.granted(found, GrantKind::Replayed)),
                Phase::Ended(how) => return Err(format!("RequestSpent({how:?})")),
                _ => return self.come_back(found, asked.wait),
            }
        }
        let session = match &asked.session {
            Some(digest) => Some(self.live_session(digest, asked.dialect, Some(&asked.owner))?),
            None => None,
        };
        let lock = &asked.lock;
        self.settle(lock);
        let mine = |l: &Lease| l.asked.owner == asked.owner && l.asked.dialect == asked.dialect;
        if asked.sticky
            && let Some(held) =
                self.holders(lock).into_iter().rev().find(|n| mine(&self.leases[*n]))
        {
            self.leases[held].deadline = asked.ttl.map_or(Timestamp::NEVER, |ttl| self.now + ttl);
            self.leases[held].version += 1;
            return Ok(self.granted(held, GrantKind::Renewed));
        }
        self.check_count(asked)?;
        let refusal = self.refusal(asked);
        match (&refusal, wait_of(asked.wait)) {
            (None, _) => {
                let token = self.mint(lock);
                let deadline = asked.ttl.map_or(Timestamp::NEVER, |ttl| self.now + ttl);
                let n = self.add(asked, session, Phase::Active, token, deadline);
                self.promote(lock);
                Ok(self.granted(n, GrantKind::New))
            }
            (Some(refusal), Span::ZERO) => Err(refusal.clone()),
            (Some(_), wait) => {
                let n = self.add(asked, session, Phase::Waiting, 0, self.now + wait);
                Ok(format!("Queued({:?})", LeaseNumber(self.leases[n].number)))
            }
        }
    }

    fn check_count(&self, asked: &Acquire) -> Result<(), String> {
        let Mode::Counted(wanted) = asked.mode else { return Ok(()) };
        let others = self.holders(&asked.lock).into_iter().chain(self.waiters(&asked.lock));
        for other in others {
            if let Mode::Counted(limit) = self.leases[other].asked.mode
                && limit != wanted
            {
                return Err(format!("LimitDiffers {{ limit: {limit} }}"));
            }
        }
        Ok(())
    }

    fn refusal(&self, asked: &Acquire) -> Option<String> {
        if let Some(lapse) = self.grace(&asked.lock) {
            let is_last = lapse.owner == asked.owner && lapse.dialect == asked.dialect;
            let Lapse { owner, expired_at, until, .. } = lapse;
            return (!is_last).then(|| {
                format!("Grace {{ owner: {owner:?}, expired_at: {expired_at:?}, grace_until: {until:?} }}")
            });
        }
        let waiters = self.waiters(&asked.lock);
        let is_others_turn = waiters.iter().any(|n| self.leases[*n].phase == Phase::Waiting);
        (is_others_turn || !self.admits(&asked.lock, asked.mode))
            .then(|| format!("held, {} waiting", waiters.len()))
    }

    fn come_back(&mut self, n: usize, wait: Wait) -> Result<String, String> {
        let lock = self.leases[n].asked.lock.clone();
        if wait_of(wait) == Span::ZERO {
            return Err(format!("held, {} waiting", self.waiters(&lock).len()));
        }
        self.leases[n].phase = Phase::Waiting;
        self.leases[n].deadline = self.now + wait_of(wait);
        self.promote(&lock);
        Ok(match self.leases[n].phase {
            Phase::Active => self.granted(n, GrantKind::New),
            _ => format!("Queued({:?})", LeaseNumber(self.leases[n].number)),
        })
    }

    fn add(
        &mut self,
        asked: &Acquire,
        session: Option<usize>,
        phase: Phase,
        token: u64,
        deadline: Timestamp,
    ) -> usize {
        let requests =
            asked.request_id.iter().map(|id| (Operation::Acquire, id.clone(), body(asked)));
        self.leases.push(Lease {
            number: self.n_leases() + 1,
            asked: asked.clone(),
            phase,
            token,
            version: 1,
            ttl: asked.ttl,
            deadline,
            session,
            requests: requests.collect(),
            is_gone: false,
        });
        self.leases.len() - 1
    }

    fn granted(&self, n: usize, kind: GrantKind) -> String {
        let lease = &self.leases[n];
        format!(
            "{kind:?} {:?} {:?} {:?}",
            LeaseNumber(lease.number),
            lease.token,
            self.deadline(lease)
        )
    }

    /// The lease an earlier request had its effect on, on a settled lock.
    fn replay(
        &mut self,
        dialect: Dialect,
        owner: &Owner,
        op: Operation,
        id: &str,
        body: &str,
    ) -> Result<Option<usize>, String> {
        let find = |model: &Self| {
            (0..model.leases.len()).find(|n| {
                let lease = &model.leases[*n];
                !lease.is_gone
                    && lease.asked.owner == *owner
                    && lease.asked.dialect == dialect
                    && lease.requests.iter().any(|(o, i, _)| *o == op && **i == *id)
            })
        };
        let Some(found) = find(self) else { return Ok(None) };
        let same = self.leases[found]
            .requests
            .iter()
            .any(|(o, i, b)| *o == op && **i == *id && *b == body);
        if !same {
            return Err("RequestConflict".into());
        }
        let lock = self.leases[found].asked.lock.clone();
        self.settle(&lock);
        let Some(found) = find(self) else { return Ok(None) };
        if self.leases[found].phase.is_queued() && self.expire_if_due(found) {
            return Ok(None);
        }
        Ok(Some(found))
    }

    fn prove(&mut self, proof: &Proof, dialect: Dialect) -> Result<usize, String> {
        match proof {
            Proof::Id { id, owner, .. } => {
                let n = self.find(id.number.0).ok_or("NoSuchLease")?;
                let lease = &self.leases[n];
                if lease.asked.secret != id.secret {
                    return Err("NoSuchLease".into());
                }
                if lease.asked.owner != *owner || lease.asked.dialect != dialect {
                    return Err("NotOwner".into());
                }
                self.settled(n)
            }
            Proof::Number { number, .. } => {
                let n = self.find(number.0).ok_or("NoSuchLease")?;
                if self.leases[n].asked.dialect != dialect {
                    return Err("NoSuchLease".into());
                }
                self.settled(n)
            }
            Proof::Owner { lock, owner } => {
                self.settle(lock);
                let mine = |l: &Lease| l.asked.owner == *owner && l.asked.dialect == dialect;
                let mut holders = self.holders(lock).into_iter().rev();
                holders.find(|n| mine(&self.leases[*n])).ok_or("NotOwner".into())
            }
            Proof::Session { lock, session } => {
                let session = self.live_session(session, dialect, None)?;
                self.settle(lock);
                let mut holders = self.holders(lock).into_iter().rev();
                holders.find(|n| self.leases[*n].session == Some(session)).ok_or("NotOwner".into())
            }
        }
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.leases.iter().position(|l| l.number == number && !l.is_gone)
    }

    fn settled(&mut self, n: usize) -> Result<usize, String> {
        let lock = self.leases[n].asked.lock.clone();
        self.settle(&lock);
        if self.leases[n].phase.is_queued() {
            self.expire_if_due(n);
        }
        if self.leases[n].is_gone { Err("NoSuchLease".into()) } else { Ok(n) }
    }

    fn check_active(&mut self, n: usize) -> Result<(), String> {
        if self.leases[n].phase == Phase::Active && self.overdue(&self.leases[n]).is_some() {
            self.settle(&self.leases[n].asked.lock.clone());
        }
        match self.leases[n].phase {
            Phase::Active => Ok(()),
            Phase::Ended(how) => Err(format!("Ended({how:?})")),
            _ => Err("StillWaiting".into()),
        }
    }

    fn renew(&mut self, renew: &Renew) -> Result<String, String> {
        let n = self.prove(&renew.proof, renew.dialect)?;
        let body = format!("{} {:?}", self.leases[n].number, renew.extend);
        let owner = self.leases[n].asked.owner.clone();
        if let Some(id) = &renew.request_id
            && let Some(found) = self.replay(renew.dialect, &owner, Operation::Renew, id, &body)?
        {
            match self.leases[found].phase {
                Phase::Active => return Ok(self.renewed(found)),
                Phase::Ended(how) => return Err(format!("RequestSpent({how:?})")),
                _ => {}
            }
        }
        self.check_active(n)?;
        let now = self.now;
        let lease = &mut self.leases[n];
        lease.deadline = match renew.extend {
            Extend::AtLeast(by) => lease.deadline.max(now + by),
            Extend::Exactly(by) => now + by,
        };
        lease.version += 1;
        lease
            .requests
            .extend(renew.request_id.iter().map(|id| (Operation::Renew, id.clone(), body.clone())));
        Ok(self.renewed(n))
    }

    fn renewed(&self, n: usize) -> String {
        let lease = &self.leases[n];
        format!("renewed {:?} {:?}", LeaseNumber(lease.number), self.deadline(lease))
    }

    fn release(&mut self, release: &Release) -> Result<String, String> {
        let n = self.prove(&release.proof, release.dialect)?;
        let body = self.leases[n].number.to_string();
        let owner = self.leases[n].asked.owner.clone();
        let told = format!("released {:?}", LeaseNumber(self.leases[n].number));
        if let Some(id) = &release.request_id
            && self.replay(release.dialect, &owner, Operation::Release, id, &body)?.is_some()
        {
            return Ok(told);
        }
        self.check_active(n)?;
        let request =
            release.request_id.iter().map(|id| (Operation::Release, id.clone(), body.clone()));
        self.leases[n].requests.extend(request);
        self.end(n, Ending::Released, self.now);
        self.promote(&self.leases[n].asked.lock.clone());
        Ok(told)
    }

    fn revoke(&mut self, revoke: &Revoke) -> Result<String, String> {
        let (lock, leases) = match &revoke.target {
            Target::Lock(lock) => {
                self.settle(lock);
                (lock.clone(), self.holders(lock))
            }
            Target::Lease(proof, dialect) => {
                let n = self.prove(proof, *dialect)?;
                if let Phase::Ended(how) = self.leases[n].phase {
                    return Err(format!("Ended({how:?})"));
                }
                (self.leases[n].asked.lock.clone(), vec![n])
            }
        };
        leases.iter().for_each(|n| self.end(*n, Ending::Revoked, self.now));
        self.promote(&lock);
        Ok(format!("revoked {}", leases.len()))
    }

    fn amend(&mut self, amend: &Amend) -> Result<String, String> {
        let n = self.prove(&amend.proof, amend.dialect)?;
        if let Phase::Ended(how) = self.leases[n].phase {
            return Err(format!("Ended({how:?})"));
        }
        self.leases[n].ttl = Some(amend.ttl);
        self.leases[n].version += 1;
        Ok(format!("amended {:?} {:?}", LeaseNumber(self.leases[n].number), Some(amend.ttl)))
    }

    fn forgo(&mut self, forgo: &Forgo) -> Result<String, String> {
        self.settle(&forgo.lock);
        let lapse = self.grace(&forgo.lock).ok_or("NotOwner")?;
        if lapse.owner != forgo.owner || lapse.dialect != forgo.dialect {
            return Err("NotOwner".into());
        }
        self.lapses.remove(&forgo.lock);
        self.promote(&forgo.lock);
        Ok("Forgone".into())
    }

    fn leave(&mut self, number: u64) -> Result<String, String> {
        let Some(n) = self.find(number) else { return Ok("Done".into()) };
        match self.leases[n].phase {
            Phase::Waiting if matches!(self.leases[n].asked.wait, Wait::Connected(_)) => {
                self.step_aside(n)
            }
            Phase::Active => {
                self.leases[n].requests.clear();
                self.end(n, Ending::Released, self.now);
                self.leases[n].is_gone = true;
            }
            _ => return Ok("Done".into()),
        }
        self.promote(&self.leases[n].asked.lock.clone());
        Ok("Done".into())
    }

    fn step_aside(&mut self, n: usize) {
        if self.leases[n].requests.is_empty() {
            self.end(n, Ending::Released, self.now);
        } else {
            let lease = &mut self.leases[n];
            lease.phase = Phase::Parked;
            lease.deadline = lease.deadline.min(self.now + self.limits.park_max);
        }
    }

    fn live_session(
        &self,
        digest: &SessionDigest,
        dialect: Dialect,
        owner: Option<&Owner>,
    ) -> Result<usize, String> {
        let is_it = |s: &Session| {
            s.open.digest == *digest
                && s.open.dialect == dialect
                && s.ended.is_none()
                && self.now < s.deadline
                && owner.is_none_or(|owner| *owner == s.open.owner)
        };
        self.sessions.iter().position(is_it).ok_or("NoSuchSession".into())
    }

    fn open(&mut self, open: &OpenSession) -> Result<String, String> {
        if self.sessions.iter().any(|s| s.open.digest == open.digest) {
            return Err("RequestConflict".into());
        }
        let deadline = self.now + open.ttl;
        self.sessions.push(Session { open: open.clone(), deadline, ended: None });
        let number = self.sessions.len() as u64 + self.sessions_before;
        Ok(format!("SessionOpened(s{number})"))
    }

    fn keep(&mut self, keep: &KeepSession) -> Result<String, String> {
        let session = self.live_session(&keep.session, keep.dialect, None)?;
        let deadline = self.now + self.sessions[session].open.ttl;
        self.sessions[session].deadline = deadline;
        Ok(format!("SessionKept {{ deadline: {deadline:?} }}"))
    }

    fn close(&mut self, close: &CloseSession) -> Result<String, String> {
        let session = self.live_session(&close.session, close.dialect, None)?;
        self.sessions[session].ended = Some(Ending::Released);
        self.sessions[session].deadline = self.now;
        Ok("SessionClosed".into())
    }
}

fn wait_of(wait: Wait) -> Span {
    match wait {
        Wait::No => Span::ZERO,
        Wait::Connected(span) | Wait::Unattended(span) => span,
    }
}

/// All of a question but its wait.
fn body(asked: &Acquire) -> String {
    let Acquire { lock, mode, ttl, grace, session, metadata, .. } = asked;
    let session = session.map(|s| s.0);
    format!("{lock:?} {mode:?} {ttl:?} {grace:?} {session:?} {metadata:?}")
}
