//! The model's commands.

use leasehold_core::*;

use super::{Lapse, Lease, Model, Session};

impl Model {
    pub(super) fn acquire(&mut self, asked: &Acquire) -> Result<String, String> {
        if let Some(id) = &asked.request_id
            && let Some(found) = self.replay(asked, Operation::Acquire, id, &body(asked))?
        {
            match self.leases[found].phase {
                Phase::Active => {
                    self.leases[found].is_known_elsewhere = true;
                    return Ok(self.granted(found, GrantKind::Replayed));
                }
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
                Ok(format!("queued {:?}", LeaseNumber(self.leases[n].number)))
            }
        }
    }

    pub(super) fn check_count(&self, asked: &Acquire) -> Result<(), String> {
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

    pub(super) fn refusal(&self, asked: &Acquire) -> Option<String> {
        if let Some(lapse) = self.grace(&asked.lock) {
            let is_last = lapse.owner == asked.owner && lapse.dialect == asked.dialect;
            let Lapse { owner, expired_at, until, .. } = lapse;
            return (!is_last).then(|| {
                format!("Grace {{ owner: {owner:?}, expired_at: {expired_at:?}, grace_until: {until:?} }}")
            });
        }
        let waiters = self.waiters(&asked.lock);
        let is_others_turn = waiters.iter().any(|n| self.leases[*n].phase == Phase::Waiting);
        (is_others_turn || !self.admits(asked)).then(|| format!("held, {} waiting", waiters.len()))
    }

    pub(super) fn add(
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
            group: None,
            phase,
            token,
            version: 1,
            ttl: asked.ttl,
            deadline,
            session,
            requests: requests.collect(),
            is_known_elsewhere: false,
            is_gone: false,
        });
        self.leases.len() - 1
    }

    pub(super) fn granted(&self, n: usize, kind: GrantKind) -> String {
        let lease = &self.leases[n];
        format!(
            "{kind:?} {:?} {:?} {:?}",
            LeaseNumber(lease.number),
            lease.token,
            self.deadline(lease)
        )
    }

    /// Returns the lease that an earlier request affected, on a settled lock. The request must have the same owner,
    /// dialect and namespace as `asked`.
    pub(super) fn replay(
        &mut self,
        asked: &Acquire,
        op: Operation,
        id: &str,
        body: &str,
    ) -> Result<Option<usize>, String> {
        let find = |model: &Self| {
            (0..model.leases.len()).find(|n| {
                let lease = &model.leases[*n];
                !lease.is_gone
                    && lease.asked.owner == asked.owner
                    && lease.asked.dialect == asked.dialect
                    && lease.asked.lock.namespace == asked.lock.namespace
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
        let is_acquire = op == Operation::Acquire;
        let settled = if is_acquire { self.together(found) } else { vec![found] };
        self.settle_all(&settled);
        let Some(found) = find(self) else { return Ok(None) };
        if self.leases[found].phase.is_queued() && self.expire_if_due(found) {
            return Ok(None);
        }
        Ok(Some(found))
    }

    pub(super) fn prove(&mut self, proof: &Proof, dialect: Dialect) -> Result<usize, String> {
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
            Proof::Session { lock, session, .. } => {
                let session = self.live_session(session, dialect, None)?;
                self.settle(lock);
                let mut holders = self.holders(lock).into_iter().rev();
                holders.find(|n| self.leases[*n].session == Some(session)).ok_or("NotOwner".into())
            }
        }
    }

    pub(super) fn find(&self, number: u64) -> Option<usize> {
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

    pub(super) fn check_active(&mut self, n: usize) -> Result<(), String> {
        if self.leases[n].phase == Phase::Active && self.overdue(&self.leases[n]).is_some() {
            self.settle(&self.leases[n].asked.lock.clone());
        }
        match self.leases[n].phase {
            Phase::Active => Ok(()),
            Phase::Ended(how) => Err(format!("Ended({how:?})")),
            _ => Err("StillWaiting".into()),
        }
    }

    pub(super) fn renew(&mut self, renew: &Renew) -> Result<String, String> {
        let n = self.prove(&renew.proof, renew.dialect)?;
        let body = format!("{} {:?}", self.leases[n].number, renew.extend);
        let asked = self.leases[n].asked.clone();
        if let Some(id) = &renew.request_id
            && let Some(found) = self.replay(&asked, Operation::Renew, id, &body)?
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
        lease.deadline = extended(lease.deadline, now, renew.extend);
        lease.version += 1;
        lease
            .requests
            .extend(renew.request_id.iter().map(|id| (Operation::Renew, id.clone(), body.clone())));
        Ok(self.renewed(n))
    }

    pub(super) fn renewed(&self, n: usize) -> String {
        let lease = &self.leases[n];
        format!("renewed {:?} {:?}", LeaseNumber(lease.number), self.deadline(lease))
    }

    pub(super) fn release(&mut self, release: &Release) -> Result<String, String> {
        let n = self.prove(&release.proof, release.dialect)?;
        let body = self.leases[n].number.to_string();
        let asked = self.leases[n].asked.clone();
        let told = format!("released {:?}", LeaseNumber(self.leases[n].number));
        if let Some(id) = &release.request_id
            && self.replay(&asked, Operation::Release, id, &body)?.is_some()
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

    pub(super) fn revoke(&mut self, revoke: &Revoke) -> Result<String, String> {
        let leases = match &revoke.target {
            Target::Lock(lock) => {
                self.settle(lock);
                self.holders(lock)
            }
            Target::Leases(numbers) => numbers.iter().filter_map(|n| self.find(n.0)).collect(),
            Target::Lease(proof, dialect) => {
                let n = self.prove(proof, *dialect)?;
                if let Phase::Ended(how) = self.leases[n].phase {
                    return Err(format!("Ended({how:?})"));
                }
                vec![n]
            }
        };
        let forgone = match &revoke.target {
            Target::Lock(lock) => Some(lock),
            _ => None,
        };
        Ok(format!("revoked {}", self.take_away(leases, forgone)))
    }

    pub(super) fn confirm(&mut self, asked: &Confirm) -> Result<String, String> {
        let n = self.prove(&asked.proof, asked.dialect)?;
        let number = LeaseNumber(self.leases[n].number);
        let lock = self.leases[n].asked.lock.clone();
        match self.check_active(n) {
            Ok(()) => Ok(format!("active {number:?}")),
            Err(why) if why == "StillWaiting" => Err(match self.grace(&lock) {
                Some(Lapse { owner, expired_at, until, .. }) => {
                    format!(
                        "Grace {{ owner: {owner:?}, expired_at: {expired_at:?}, grace_until: {until:?} }}"
                    )
                }
                None => format!("held, {} waiting", self.waiters(&lock).len()),
            }),
            Err(why) => Err(why),
        }
    }

    pub(super) fn amend(&mut self, amend: &Amend) -> Result<String, String> {
        let n = self.prove(&amend.proof, amend.dialect)?;
        if let Phase::Ended(how) = self.leases[n].phase {
            return Err(format!("Ended({how:?})"));
        }
        let amended = if self.leases[n].phase.is_queued() { self.together(n) } else { vec![n] };
        for n in amended {
            self.leases[n].ttl = Some(amend.ttl);
            self.leases[n].version += 1;
        }
        Ok(format!("amended {:?} {:?}", LeaseNumber(self.leases[n].number), Some(amend.ttl)))
    }

    pub(super) fn give_up(&mut self, asked: &GiveUp) -> Result<String, String> {
        let GiveUp { lock, owner, dialect } = asked;
        let proof = Proof::Owner { lock: lock.clone(), owner: owner.clone() };
        if let Ok(n) = self.prove(&proof, *dialect) {
            self.check_active(n)?;
            self.end(n, Ending::Released, self.now);
        } else {
            let lapse = self.lapses.get(lock).ok_or("NotOwner")?;
            if lapse.owner != *owner || lapse.dialect != *dialect {
                return Err("NotOwner".into());
            }
            self.lapses.remove(lock);
        }
        self.promote(lock);
        Ok("given up".into())
    }

    pub(super) fn live_session(
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

    pub(super) fn open(&mut self, open: &OpenSession) -> Result<String, String> {
        if self.sessions.iter().any(|s| s.open.digest == open.digest) {
            return Err("RequestConflict".into());
        }
        let deadline = self.now + open.ttl;
        self.sessions.push(Session { open: open.clone(), deadline, ended: None });
        let number = self.sessions.len() as u64 + self.sessions_before;
        Ok(format!("opened s{number} {deadline:?}"))
    }

    pub(super) fn keep(&mut self, keep: &KeepSession) -> Result<String, String> {
        let session = self.live_session(&keep.session, keep.dialect, None)?;
        let deadline = self.now + self.sessions[session].open.ttl;
        self.sessions[session].deadline = deadline;
        Ok(format!("kept {deadline:?}"))
    }

    pub(super) fn close(&mut self, close: &CloseSession) -> Result<String, String> {
        let session = self.live_session(&close.session, close.dialect, None)?;
        self.sessions[session].ended = Some(Ending::Released);
        self.sessions[session].deadline = self.now;
        Ok("closed".into())
    }
}

pub(super) fn extended(deadline: Timestamp, now: Timestamp, extend: Extend) -> Timestamp {
    match extend {
        Extend::AtLeast(by) => deadline.max(now + by),
        Extend::Exactly(by) => now + by,
        Extend::By(by) => deadline + by,
    }
}

pub(super) fn wait_of(wait: Wait) -> Span {
    match wait {
        Wait::No => Span::ZERO,
        Wait::Connected(span) | Wait::Unattended(span) => span,
    }
}

/// Returns the whole request except its wait.
pub(super) fn body(asked: &Acquire) -> String {
    let Acquire { lock, mode, ttl, grace, session, metadata, .. } = asked;
    let session = session.map(|s| s.0);
    format!("{lock:?} {mode:?} {ttl:?} {grace:?} {session:?} {metadata:?}")
}
