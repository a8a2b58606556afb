//! The model's groups, and its handling of closed connections.

use leasehold_core::*;

use super::ask::{body, extended, wait_of};
use super::{Lease, Model};

impl Model {
    pub(super) fn acquire_all(&mut self, all: &AcquireAll) -> Result<String, String> {
        if all.others.is_empty() {
            return self.acquire(&all.first);
        }
        let each = each(all);
        for n in 0..each.len() {
            if each[..n].iter().any(|other| other.lock == each[n].lock) {
                return Err(format!("Repeated {{ n: {n} }}"));
            }
        }
        let first = &each[0];
        let body = whole_body(&each);
        if let Some(id) = &first.request_id
            && let Some(found) = self.replay(first, Operation::Acquire, id, &body)?
        {
            return self.replay_all(found, first.wait);
        }
        let session = match &first.session {
            Some(digest) => Some(self.live_session(digest, first.dialect, Some(&first.owner))?),
            None => None,
        };
        let settled = each.iter().filter(|asked| !self.joins(asked)).map(|asked| &asked.lock);
        let settled: Vec<_> = settled.cloned().collect();
        settled.iter().for_each(|lock| self.expire_holders(lock));
        settled.iter().for_each(|lock| self.promote(lock));
        let mut refusal = None;
        for (n, asked) in each.iter().enumerate() {
            self.check_count(asked).map_err(|why| format!("{n}: {why}"))?;
            refusal = refusal.or_else(|| Some(format!("{n}: {}", self.refusal(asked)?)));
        }
        match (refusal, wait_of(first.wait)) {
            (Some(refusal), Span::ZERO) => Err(refusal),
            (Some(_), wait) => {
                let deadline = self.now + wait;
                let added = self.add_all(&each, session, Phase::Waiting, deadline, &body);
                Ok(format!("queued {:?}", LeaseNumber(self.leases[added[0]].number)))
            }
            (None, _) => {
                let deadline = first.ttl.map_or(Timestamp::NEVER, |ttl| self.now + ttl);
                let added = self.add_all(&each, session, Phase::Active, deadline, &body);
                each.iter().for_each(|asked| self.promote(&asked.lock));
                Ok(self.all_granted(&added, GrantKind::New))
            }
        }
    }

    /// Returns whether the lease would join the present holders. Then it makes no difference which of them are overdue.
    fn joins(&self, asked: &Acquire) -> bool {
        let holders = self.holders(&asked.lock);
        holders.first().is_some_and(|holder| self.leases[*holder].asked.mode == asked.mode)
            && self.waiters(&asked.lock).is_empty()
            && self.admits(asked)
    }

    fn add_all(
        &mut self,
        each: &[Acquire],
        session: Option<usize>,
        phase: Phase,
        deadline: Timestamp,
        body: &str,
    ) -> Vec<usize> {
        let first = self.n_leases() + 1;
        let add = |asked: &Acquire| {
            let token = if phase == Phase::Active { self.mint(&asked.lock) } else { 0 };
            let n = self.add(asked, session, phase, token, deadline);
            self.leases[n].group = Some(first);
            let requests = &mut self.leases[n].requests;
            requests.iter_mut().for_each(|(_, _, asked)| *asked = body.into());
            n
        };
        each.iter().map(add).collect()
    }

    fn all_granted(&self, leases: &[usize], kind: GrantKind) -> String {
        leases.iter().map(|n| self.granted(*n, kind)).collect::<Vec<_>>().join(", ")
    }

    fn replay_all(&mut self, found: usize, wait: Wait) -> Result<String, String> {
        if self.leases[found].phase.is_queued() {
            return self.come_back(found, wait);
        }
        let together = self.together(found);
        for n in &together {
            if let Phase::Ended(how) = self.leases[*n].phase {
                return Err(format!("RequestSpent({how:?})"));
            }
        }
        self.leases[found].is_known_elsewhere = true;
        Ok(self.all_granted(&together, GrantKind::Replayed))
    }

    pub(super) fn come_back(&mut self, n: usize, wait: Wait) -> Result<String, String> {
        let together = self.together(n);
        if wait_of(wait) == Span::ZERO {
            let at = together.iter().position(|n| !self.can_go(*n)).unwrap_or(0);
            let n_waiting = self.waiters(&self.leases[together[at]].asked.lock).len();
            let is_one = together.len() == 1;
            let place = if is_one { String::new() } else { format!("{at}: ") };
            return Err(format!("{place}held, {n_waiting} waiting"));
        }
        for n in &together {
            self.leases[*n].phase = Phase::Waiting;
            self.leases[*n].deadline = self.now + wait_of(wait);
        }
        for n in &together {
            self.promote(&self.leases[*n].asked.lock.clone());
        }
        Ok(match self.leases[n].phase {
            Phase::Active => self.all_granted(&together, GrantKind::New),
            _ => format!("queued {:?}", LeaseNumber(self.leases[n].number)),
        })
    }

    /// Returns whether a waiter is next on its lock and the lock admits it.
    pub(super) fn can_go(&self, n: usize) -> bool {
        let asked = &self.leases[n].asked;
        self.next(&asked.lock) == Some(n) && self.admits(asked)
    }

    /// Returns a lease and the other leases of its group, in order.
    pub(super) fn together(&self, n: usize) -> Vec<usize> {
        let Some(group) = self.leases[n].group else { return vec![n] };
        (0..self.leases.len()).filter(|m| self.leases[*m].group == Some(group)).collect()
    }

    pub(super) fn settle_all(&mut self, leases: &[usize]) {
        // The lock of a forgotten lease is unknown.
        let known = leases.iter().filter(|n| !self.leases[**n].is_gone);
        let locks: Vec<_> = known.map(|n| self.leases[*n].asked.lock.clone()).collect();
        locks.iter().for_each(|lock| self.expire_holders(lock));
        locks.iter().for_each(|lock| self.promote(lock));
    }

    pub(super) fn renew_all(&mut self, renew: &RenewAll) -> Result<String, String> {
        let mut renewed = vec![];
        for (n, proof) in renew.proofs.iter().enumerate() {
            let active = self.active(proof, renew.dialect);
            renewed.push(active.map_err(|why| format!("{n}: {why}"))?);
        }
        let deadlines: Vec<_> = renewed
            .iter()
            .map(|n| extended(self.leases[*n].deadline, self.now, renew.extend))
            .collect();
        for (n, deadline) in renewed.iter().zip(deadlines) {
            self.leases[*n].deadline = deadline;
            self.leases[*n].version += 1;
        }
        Ok(renewed.iter().map(|n| self.renewed(*n)).collect::<Vec<_>>().join(", "))
    }

    pub(super) fn release_all(&mut self, release: &ReleaseAll) -> Result<String, String> {
        let mut released = vec![];
        let mut locks = vec![];
        for proof in &release.proofs {
            released.push(match self.active(proof, release.dialect) {
                Ok(n) => {
                    self.end(n, Ending::Released, self.now);
                    locks.push(self.leases[n].asked.lock.clone());
                    format!("released {:?}", LeaseNumber(self.leases[n].number))
                }
                Err(why) => why,
            });
        }
        locks.iter().for_each(|lock| self.promote(lock));
        Ok(released.join(", "))
    }

    fn active(&mut self, proof: &Proof, dialect: Dialect) -> Result<usize, String> {
        let n = self.prove(proof, dialect)?;
        self.check_active(n)?;
        Ok(n)
    }

    pub(super) fn cancel(&mut self, cancel: &Cancel) -> Result<String, String> {
        let is_it = |l: &Lease| {
            !l.is_gone
                && l.asked.owner == cancel.owner
                && l.asked.dialect == cancel.dialect
                && l.asked.lock.namespace == cancel.namespace
                && l.requests
                    .iter()
                    .any(|(op, id, _)| *op == Operation::Acquire && *id == cancel.request_id)
        };
        let Some(found) = self.leases.iter().position(is_it) else {
            return Ok("cancelled false".into());
        };
        let together = self.together(found);
        self.settle_all(&together);
        if !self.leases[found].phase.is_queued() || self.expire_if_due(found) {
            return Ok("cancelled false".into());
        }
        let is_named = |n: &usize| {
            cancel.lock.as_ref().is_none_or(|name| *name == self.leases[*n].asked.lock.name)
        };
        if !together.iter().any(is_named) {
            return Ok("cancelled false".into());
        }
        self.end_whole(found, Ending::Released, self.now);
        self.promote(&self.leases[found].asked.lock.clone());
        Ok("cancelled true".into())
    }

    /// Ends a lease and, if it waits, its group. Returns the ended leases.
    pub(super) fn end_together(&mut self, n: usize, how: Ending, at: Timestamp) -> Vec<usize> {
        let over = if self.leases[n].phase.is_queued() { self.together(n) } else { vec![n] };
        over.iter().for_each(|n| self.end(*n, how, at));
        over
    }

    /// Ends these leases with their groups, and optionally the grace period of a lock, before any waiter is granted a
    /// lock. Returns how many leases were revoked.
    pub(super) fn take_away(&mut self, leases: Vec<usize>, forgone: Option<&LockKey>) -> usize {
        let mut n_taken = 0;
        let mut over = leases.clone();
        for n in leases {
            if matches!(self.leases[n].phase, Phase::Ended(_)) {
                continue;
            }
            if let Some((how, at)) = self.overdue(&self.leases[n]) {
                over.extend(self.end_together(n, how, at));
                continue;
            }
            let ended = self.end_together(n, Ending::Revoked, self.now);
            n_taken += ended.len();
            over.extend(ended);
        }
        if let Some(lock) = forgone {
            self.lapses.remove(lock);
        }
        over.iter().for_each(|n| self.promote(&self.leases[*n].asked.lock.clone()));
        if let Some(lock) = forgone {
            self.promote(lock);
        }
        n_taken
    }

    pub(super) fn leave(&mut self, number: u64) -> Result<String, String> {
        for n in self.part(number, false) {
            self.promote(&self.leases[n].asked.lock.clone());
        }
        Ok("done".into())
    }

    /// Handles a closed connection and returns the leases that ended or were parked. If `aside` is set, an active lease
    /// with a request id is kept.
    pub(super) fn part(&mut self, number: u64, aside: bool) -> Vec<usize> {
        let Some(n) = self.find(number) else { return vec![] };
        let mut together = self.together(n);
        let stay = if aside { self.limits.resume_park_max } else { self.limits.park_max };
        let can_return = !self.leases[together[0]].requests.is_empty();
        let lease = &self.leases[n];
        if lease.phase == Phase::Waiting && matches!(lease.asked.wait, Wait::Connected(_)) {
            together.iter().for_each(|n| self.step_aside(*n, stay));
        } else if lease.phase.is_queued() || aside && can_return {
            return vec![];
        } else {
            let is_known = |l: &Lease| {
                !l.is_gone && (l.is_known_elsewhere || l.phase == Phase::Active && l.version > 1)
            };
            if together.iter().any(|n| is_known(&self.leases[*n])) {
                return vec![];
            }
            together.retain(|n| self.leases[*n].phase == Phase::Active);
            for n in &together {
                self.leases[*n].requests.clear();
                self.end(*n, Ending::Released, self.now);
                self.leases[*n].is_gone = true;
            }
        }
        together
    }

    pub(super) fn step_aside(&mut self, n: usize, stay: Span) {
        let first = self.together(n)[0];
        if self.leases[first].requests.is_empty() {
            self.end(n, Ending::Released, self.now);
        } else {
            let lease = &mut self.leases[n];
            lease.phase = Phase::Parked;
            lease.deadline = lease.deadline.min(self.now + stay);
        }
    }
}

/// Splits the request into one acquire per lock.
fn each(all: &AcquireAll) -> Vec<Acquire> {
    let other = |other: &Other| Acquire {
        lock: LockKey::new(all.first.lock.namespace.clone(), other.name.clone()),
        mode: other.mode,
        secret: other.secret,
        request_id: None,
        ..all.first.clone()
    };
    std::iter::once(all.first.clone()).chain(all.others.iter().map(other)).collect()
}

fn whole_body(each: &[Acquire]) -> String {
    each.iter().map(body).collect::<Vec<_>>().join(" and ")
}
