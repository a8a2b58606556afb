//! Leases from their owners' point of view, derived from all responses about each.

use std::collections::BTreeMap;

use leasehold_core::{LeaseNumber, Token};
use leasehold_server::engine::Expiry;

use crate::history::{History, Operation};
use crate::message::{Acquire, Answer, Claim, Lock, Request, SessionId};
use crate::plan::{DELAY_MAX, Plan};
use crate::time::{MS, Time};

/// An acknowledged lease.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) claim: Claim,
    pub(super) client: usize,
    /// The request that acquired it.
    pub(super) acquire: Acquire,
    /// The lease was granted between these two times.
    pub(super) first_sent_at: Time,
    pub(super) first_told_at: Time,
    /// Whether its owner acquired it with a single request, so that it kept its place in the queue.
    pub(super) is_one_attempt: bool,
    /// The promise of each response: when the client received it, and until when the client can rely on it.
    pub(super) good: Vec<(Time, Time)>,
    /// From this time on its owner does not rely on it, or must not, because the lease was released or revoked.
    pub(super) cut_at: Time,
    /// The lease was released or reported as ended at this time at the latest.
    pub(super) over_at: Option<Time>,
    /// The latest time at which the lease has ended by the server's clock, apart from outages. Unknown if a renewal has
    /// no response.
    pub(super) latest: Option<Time>,
}

/// All acknowledged leases.
pub(super) struct Leases {
    by_number: BTreeMap<LeaseNumber, Lease>,
    /// The second grants, where a number was granted twice.
    pub(super) doubles: Vec<(LeaseNumber, Token)>,
}

/// The first time and the number of attempts of each request with an id.
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

    /// Returns the lease of a claim, or `None` if the claim mixes two leases.
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

    /// Notes everything that ends a lease or might end it, or that moves its latest end.
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

    /// Cuts leases off at a restore from a backup. From then on their holders are protected only by their tokens.
    fn restored(&mut self, history: &History) {
        for lease in self.by_number.values_mut() {
            // A lease requested before the restore might have been acknowledged after it.
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
    /// Returns until when its owner could rely on it at the time `at`, if it could.
    pub(super) fn good_at(&self, at: Time) -> Option<Time> {
        let good = self.good.iter().filter(|(told_at, until)| *told_at <= at && at < *until);
        good.map(|(_, until)| (*until).min(self.cut_at)).max().filter(|until| at < *until)
    }

    /// Notes the promise in a response. `at` is a time after the request, from which the remaining time counts.
    fn lasts(&mut self, plan: &Plan, at: Time, left_ms: Option<u64>) {
        let until = left_ms.map(|ms| at + plan.at_most((ms + 1) * MS));
        self.latest = self.latest.zip(until).map(|(latest, until)| latest.max(until));
    }

    /// Notes a renewal request. Unless it was certainly rejected, the lease might last longer.
    fn is_renewed(&mut self, plan: &Plan, operation: &Operation, extend_ms: u64) {
        let is_single = operation.n_copies == 1;
        match &operation.answer {
            Some((at, Answer::Renewed { expiry })) => {
                // A copy of the request might have arrived later than the one that the response belongs to.
                let at = if is_single { *at } else { (operation.sent_at + DELAY_MAX).max(*at) };
                // In a group, each lease lasts as long as requested, or until its earlier deadline if that is later.
                self.lasts(plan, at, after_send(*expiry).map(|ms| ms.max(extend_ms)));
            }
            Some((_, Answer::Over | Answer::NotYours | Answer::Busy | Answer::Spent))
                if is_single => {}
            // All leases of a group are renewed, or none.
            Some((_, Answer::Member { .. })) if is_single => {}
            _ => self.latest = None,
        }
    }

    fn is_told_over(&mut self, answer: Option<&(Time, Answer)>) {
        let Some((at, answer)) = answer else { return };
        let is_over = match answer {
            Answer::Released | Answer::Over => true,
            // The response can concern a session, with all its leases. For a request, its lease might be another one.
            Answer::SessionClosed | Answer::NoSession => self.acquire.session.is_some(),
            _ => false,
        };
        if is_over {
            self.over_at = Some(self.over_at.map_or(*at, |over_at| over_at.min(*at)));
        }
    }
}

/// Returns the response for the lease at index `n` of a group.
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
