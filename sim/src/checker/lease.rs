//! Leases as their owners know them: put together from every answer about each.

use std::collections::BTreeMap;

use leasehold_core::{LeaseNumber, Token};
use leasehold_engine::Expiry;

use crate::history::{History, Operation};
use crate::message::{Acquire, Answer, Claim, Lock, Request, SessionId};
use crate::plan::{DELAY_MAX, Plan};
use crate::time::{MS, Time};

/// One lease that was acknowledged.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) claim: Claim,
    pub(super) client: usize,
    /// As it was asked for.
    pub(super) acquire: Acquire,
    /// It was granted at some time between these two.
    pub(super) first_sent_at: Time,
    pub(super) first_told_at: Time,
    /// Its owner asked for it in one go: nobody took its place in the queue from it.
    pub(super) is_one_attempt: bool,
    /// Each answer's promise: when it was told, and until when it can be relied on.
    pub(super) good: Vec<(Time, Time)>,
    /// From here on its owner does not rely on it any more, or must not: it was given back, or taken away.
    pub(super) cut_at: Time,
    /// It was given back with success, or said to be over, at the latest here.
    pub(super) over_at: Option<Time>,
    /// At the latest then it is over by the server's clock, outages aside; unknown if a renewal was not answered.
    pub(super) latest: Option<Time>,
}

/// All of them.
pub(super) struct Leases {
    by_number: BTreeMap<LeaseNumber, Lease>,
    /// Two grants under one number: the second ones.
    pub(super) doubles: Vec<(LeaseNumber, Token)>,
}

/// Who was there first, when a question was repeated.
type Attempts = BTreeMap<(usize, u64), (Time, u64)>;

impl Leases {
    pub(super) fn of(history: &History) -> Self {
        let mut leases = Self { by_number: BTreeMap::new(), doubles: Vec::new() };
        let mut attempts = Attempts::new();
        for operation in &history.operations {
            if let (Request::Acquire(_), Some(id)) =
                (&operation.request, operation.request.request_id())
            {
                attempts.entry((operation.client, id)).or_insert((operation.sent_at, 0)).1 += 1;
            }
        }
        let mut told: Vec<_> = history.operations.iter().filter(|op| op.answer.is_some()).collect();
        told.sort_by_key(|op| op.answer.as_ref().map(|(at, _)| *at));
        for operation in told {
            leases.granted(&history.plan, operation, &attempts);
            leases.renewed(operation);
        }
        for operation in &history.operations {
            leases.ended(&history.plan, operation);
        }
        leases.restored(history);
        leases
    }

    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.by_number.values()
    }

    /// The lease of a claim; nothing if the claim mixes up two.
    pub(super) fn get(&self, claim: &Claim) -> Option<&Lease> {
        self.by_number.get(&claim.id.number).filter(|lease| lease.claim == *claim)
    }

    pub(super) fn of_token(&self, lock: Lock, token: Token) -> impl Iterator<Item = &Lease> {
        self.iter().filter(move |lease| lease.claim.lock == lock && lease.claim.token == token)
    }

    fn granted(&mut self, plan: &Plan, operation: &Operation, attempts: &Attempts) {
        let Request::Acquire(acquire) = &operation.request else { return };
        let Some((told_at, Answer::Granted { claims, expiry })) = &operation.answer else {
            return;
        };
        for (claim, (lock, mode)) in claims.iter().zip(acquire.each()) {
            let acquire = Acquire { lock, mode, ..acquire.clone() };
            self.granted_one(plan, operation, attempts, &acquire, claim, (*told_at, *expiry));
        }
    }

    fn granted_one(
        &mut self,
        plan: &Plan,
        operation: &Operation,
        attempts: &Attempts,
        acquire: &Acquire,
        claim: &Claim,
        (told_at, expiry): (Time, Option<Expiry>),
    ) {
        let attempt = acquire.request_id.and_then(|id| attempts.get(&(operation.client, id)));
        let (first_sent_at, n_attempts) = attempt.copied().unwrap_or((operation.sent_at, 1));
        let lease = self.by_number.entry(claim.id.number).or_insert_with(|| Lease {
            claim: *claim,
            client: operation.client,
            acquire: acquire.clone(),
            first_sent_at,
            first_told_at: told_at,
            is_one_attempt: n_attempts == 1,
            good: Vec::new(),
            cut_at: Time::MAX,
            over_at: None,
            latest: Some(0),
        });
        if lease.claim != *claim || lease.client != operation.client {
            return self.doubles.push((claim.id.number, claim.token));
        }
        lease.good.push((told_at, operation.good_until.unwrap_or(Time::MAX)));
        lease.lasts(plan, told_at, after_send(expiry));
    }

    fn renewed(&mut self, operation: &Operation) {
        let Request::Renew { claims, .. } = &operation.request else { return };
        let Some((told_at, Answer::Renewed { .. })) = &operation.answer else { return };
        for claim in claims {
            let Some(lease) = self.get_mut(claim) else { continue };
            lease.good.push((*told_at, operation.good_until.unwrap_or(Time::MAX)));
        }
    }

    /// Everything that ends a lease or may, or moves its latest end.
    fn ended(&mut self, plan: &Plan, operation: &Operation) {
        let (sent_at, answer) = (operation.sent_at, operation.answer.as_ref());
        let told_at = answer.map_or(Time::MAX, |(at, _)| *at);
        match &operation.request {
            Request::Release { claims, .. } => {
                for (n, claim) in claims.iter().enumerate() {
                    let Some(lease) = self.get_mut(claim) else { continue };
                    lease.cut_at = lease.cut_at.min(sent_at);
                    lease.is_told_over(answer_about(answer, n).as_ref());
                }
            }
            Request::Renew { claims, extend_ms, .. } => {
                for (n, claim) in claims.iter().enumerate() {
                    let Some(lease) = self.get_mut(claim) else { continue };
                    lease.is_told_over(answer_about(answer, n).as_ref());
                    lease.is_renewed(plan, operation, *extend_ms);
                }
            }
            Request::CloseSession(session) => self.in_session(session).for_each(|lease| {
                lease.cut_at = lease.cut_at.min(sent_at);
                lease.is_told_over(answer);
            }),
            Request::Acquire(Acquire { session: Some(session), .. }) => {
                self.in_session(session).for_each(|lease| lease.is_told_over(answer));
            }
            Request::KeepSession(session) => self.in_session(session).for_each(|lease| {
                lease.is_told_over(answer);
                match answer {
                    Some((at, Answer::SessionKept { expiry })) if operation.n_copies == 1 => {
                        lease.lasts(plan, *at, Some(expiry.after_send_ms));
                    }
                    Some((_, Answer::NoSession)) if operation.n_copies == 1 => {}
                    _ => lease.latest = None,
                }
            }),
            Request::Revoke(lock) => {
                let on_lock = self.by_number.values_mut().filter(|lease| lease.claim.lock == *lock);
                for lease in on_lock.filter(|lease| lease.first_sent_at <= told_at) {
                    lease.cut_at = lease.cut_at.min(sent_at);
                }
            }
            _ => {}
        }
    }

    /// Holders since a backup are protected by their tokens only.
    fn restored(&mut self, history: &History) {
        for lease in self.by_number.values_mut() {
            // A lease whose owner asked before the restore may have been told of it after.
            let end = history.restores.iter().find(|at| lease.first_sent_at <= **at);
            lease.cut_at = lease.cut_at.min(end.copied().unwrap_or(Time::MAX));
        }
    }

    fn get_mut(&mut self, claim: &Claim) -> Option<&mut Lease> {
        self.by_number.get_mut(&claim.id.number).filter(|lease| lease.claim == *claim)
    }

    fn in_session(&mut self, session: &SessionId) -> impl Iterator<Item = &mut Lease> {
        let session = *session;
        self.by_number.values_mut().filter(move |lease| lease.acquire.session == Some(session))
    }
}

impl Lease {
    /// Until when its owner could rely on it at `at`, if it could.
    pub(super) fn good_at(&self, at: Time) -> Option<Time> {
        let good = self.good.iter().filter(|(told_at, until)| *told_at <= at && at < *until);
        good.map(|(_, until)| (*until).min(self.cut_at)).max().filter(|until| at < *until)
    }

    /// It was told at `at` that it lasts this long from when that was asked, which was before.
    fn lasts(&mut self, plan: &Plan, at: Time, left_ms: Option<u64>) {
        let until = left_ms.map(|ms| at + plan.at_most((ms + 1) * MS));
        self.latest = self.latest.zip(until).map(|(latest, until)| latest.max(until));
    }

    /// A renewal was asked for: if it was not refused for certain, the lease may last longer.
    fn is_renewed(&mut self, plan: &Plan, operation: &Operation, extend_ms: u64) {
        let is_single = operation.n_copies == 1;
        match &operation.answer {
            Some((at, Answer::Renewed { expiry })) => {
                // A copy of it may have come later than the one that was answered.
                let at = if is_single { *at } else { (operation.sent_at + DELAY_MAX).max(*at) };
                // Of several each lasts as long as was asked for, or longer: as long as it did before.
                self.lasts(plan, at, after_send(*expiry).map(|ms| ms.max(extend_ms)));
            }
            Some((_, Answer::Over | Answer::NotYours | Answer::Busy | Answer::Spent))
                if is_single => {}
            // All or none.
            Some((_, Answer::Member { .. })) if is_single => {}
            _ => self.latest = None,
        }
    }

    fn is_told_over(&mut self, answer: Option<&(Time, Answer)>) {
        let Some((at, answer)) = answer else { return };
        let is_over = match answer {
            Answer::Released | Answer::Over => true,
            // Of a session, with all its leases. Of a request, whose lease may be another.
            Answer::SessionClosed | Answer::NoSession => self.acquire.session.is_some(),
            _ => false,
        };
        if is_over {
            self.over_at = Some(self.over_at.map_or(*at, |over_at| over_at.min(*at)));
        }
    }
}

/// What an answer about several says of the one in this place.
pub(super) fn answer_about(answer: Option<&(Time, Answer)>, n: usize) -> Option<(Time, Answer)> {
    let (at, answer) = answer?;
    match answer {
        Answer::ReleasedEach(each) if each[n] => Some((*at, Answer::Released)),
        Answer::ReleasedEach(_) => Some((*at, Answer::NotYours)),
        Answer::Member { n: lost, why } if *lost == n => Some((*at, (**why).clone())),
        Answer::Member { .. } => None,
        other => Some((*at, other.clone())),
    }
}

fn after_send(expiry: Option<Expiry>) -> Option<u64> {
    expiry.map(|expiry| expiry.after_send_ms)
}
