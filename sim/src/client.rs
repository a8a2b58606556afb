//! A simulated client: its knowledge, and its next action. Some clients are careful, others are slow, confused or
//! reckless.

use leasehold_core::{Mode, Token};

use crate::chance::Chance;
use crate::front::N_TOGETHER;
use crate::history::OperationId;
use crate::message::{Acquire, Answer, Claim, Lock, Request, SessionId};
use crate::plan::Plan;
use crate::time::{MS, Rate, SECOND, Time};

/// A wait longer than any run. A client that waits this long must be granted the lock.
pub const PATIENT_MS: u64 = 3_600_000;
/// Maximum ended leases that a client remembers, in order to use them by mistake.
const PAST_MAX: usize = 6;

/// The behavior of a client.
#[derive(Clone, Copy, Debug)]
pub struct Character {
    renews: bool,
    gives_back: bool,
    /// Writes without checking its clock.
    is_blind: bool,
    uses_sessions: bool,
    names_requests: bool,
    /// Disappears without notice, even while it waits in a queue.
    vanishes: bool,
    /// Acquires, renews and releases several locks together.
    uses_groups: bool,
    /// Treats a connection as dead after a moment, and repeats its request immediately.
    pub(crate) is_hasty: bool,
}

/// A simulated client.
#[derive(Debug)]
pub struct Client {
    /// The rate of its clock.
    pub rate: Rate,
    /// Its behavior.
    pub character: Character,
    /// The operation whose response it waits for.
    pub pending: Option<OperationId>,
    /// It does nothing until this time.
    pub asleep_until: Time,
    /// The number of its crashes. An action scheduled before a crash does not take place after it.
    pub incarnation: u64,
    again: Option<Request>,
    held: Vec<HeldLease>,
    past: Vec<Claim>,
    session: Option<Session>,
    n_requests: u64,
}

#[derive(Clone, Debug)]
struct HeldLease {
    claim: Claim,
    until: Time,
    acquired_by: Request,
    done_at: Time,
    ttl_ms: u64,
}

#[derive(Clone, Copy, Debug)]
struct Session {
    id: SessionId,
    keep_at: Time,
    ttl_ms: u64,
}

/// The next action of a client.
pub enum Action {
    /// Send a request to the server.
    Send(Request),
    /// Write to the protected resource.
    Write(Claim),
    /// Nothing, for now.
    Idle,
}

impl Client {
    /// Creates a client.
    pub fn new(plan: &Plan, chance: &mut Chance) -> Self {
        Self {
            rate: plan.rate(chance),
            character: Character {
                renews: chance.permille(600),
                gives_back: chance.permille(800),
                is_blind: chance.permille(300),
                uses_sessions: chance.permille(250),
                names_requests: chance.permille(if plan.names_requests { 700 } else { 0 }),
                vanishes: chance.permille(150),
                uses_groups: chance.permille(if plan.uses_groups { 600 } else { 0 }),
                is_hasty: chance.permille(250),
            },
            pending: None,
            asleep_until: 0,
            incarnation: 0,
            again: None,
            held: Vec::new(),
            past: Vec::new(),
            session: None,
            n_requests: 0,
        }
    }

    /// Forgets everything. The ids of later requests are new.
    pub fn crash(&mut self) {
        self.incarnation += 1;
        self.pending = None;
        self.again = None;
        self.held.clear();
        self.session = None;
    }

    /// Returns how long it waits for a response before it treats the connection as dead.
    pub fn timeout(&self, request: &Request, chance: &mut Chance) -> Time {
        match request.wait_ms() {
            _ if self.character.is_hasty && chance.permille(500) => chance.within(3, 40) * MS,
            0 => chance.within(300, 3_000) * MS,
            _ if self.character.vanishes => chance.within(20, 1_000) * MS,
            PATIENT_MS => chance.within(5, 20) * SECOND,
            wait_ms => wait_ms * MS + 2 * SECOND,
        }
    }

    /// Handles a broken connection, over which no response arrives any more. A request with an id can be repeated.
    pub fn broken(&mut self, request: &Request, is_healed: bool, chance: &mut Chance) {
        self.pending = None;
        let repeats = request.request_id().is_some() && !self.character.vanishes;
        if repeats && (is_healed || chance.permille(850)) {
            self.again = Some(request.clone());
        }
    }

    /// Returns its next action at the time `now`.
    pub fn act(&mut self, now: Time, plan: &Plan, chance: &mut Chance) -> Action {
        let is_healed = now >= plan.heal_at;
        if let Some(request) = self.again.take() {
            return Action::Send(request);
        }
        if let Some(at) = self.held.iter().position(|held| held.until <= now) {
            let held = self.held.remove(at);
            self.remember(held.claim);
            if self.character.is_blind {
                return Action::Write(held.claim);
            }
        }
        if is_healed {
            return self.finish(chance);
        }
        match self.session_upkeep(now, chance).or_else(|| self.mistake(chance)) {
            Some(request) => Action::Send(request),
            None if self.held.is_empty() => self.want(plan, chance),
            None => self.hold(now, plan, chance),
        }
    }

    /// Returns its next action after the faults, when it starts nothing new.
    fn finish(&mut self, chance: &mut Chance) -> Action {
        match self.held.first().cloned() {
            Some(held) if self.character.gives_back => Action::Send(Request::Release {
                claims: vec![held.claim],
                request_id: self.request_id(chance),
            }),
            _ => Action::Idle,
        }
    }

    fn hold(&mut self, now: Time, plan: &Plan, chance: &mut Chance) -> Action {
        let n = chance.below(self.held.len() as u64) as usize;
        let HeldLease { claim, done_at, ttl_ms, acquired_by, .. } = self.held[n].clone();
        if now >= done_at && self.character.gives_back {
            return Action::Send(match self.several(chance) {
                Some(claims) => Request::Release { claims, request_id: None },
                None => {
                    let request_id = self.request_id(chance);
                    Request::Release { claims: vec![claim], request_id }
                }
            });
        }
        match chance.below(100) {
            0..35 => Action::Write(claim),
            35..60 if self.character.renews => {
                let extend_ms = ttl_ms.max(100);
                Action::Send(match self.several(chance) {
                    Some(claims) => Request::Renew { claims, extend_ms, request_id: None },
                    None => {
                        let request_id = self.request_id(chance);
                        Request::Renew { claims: vec![claim], extend_ms, request_id }
                    }
                })
            }
            60..68 => Action::Send(acquired_by),
            68..74 => Action::Send(Request::Look(claim.lock)),
            74..78 => self.want(plan, chance),
            _ => Action::Idle,
        }
    }

    /// Returns several of its leases, if it uses groups.
    fn several(&mut self, chance: &mut Chance) -> Option<Vec<Claim>> {
        if !self.character.uses_groups || self.held.len() < 2 || chance.permille(400) {
            return None;
        }
        let mut claims: Vec<_> = self.held.iter().map(|held| held.claim).collect();
        // Sometimes an ended lease is among them. Then no other lease of the group may be renewed either.
        if !self.past.is_empty() && chance.permille(200) {
            claims.push(chance.pick(&self.past));
        }
        Some(claims)
    }

    /// Returns other locks to acquire together with this one.
    fn others(&mut self, lock: Lock, plan: &Plan, chance: &mut Chance) -> Vec<(Lock, Mode)> {
        let n_together = plan.locks.len().min(N_TOGETHER);
        if !self.character.uses_groups || lock >= n_together || chance.permille(300) {
            return Vec::new();
        }
        let others = (0..n_together).filter(|other| *other != lock && chance.permille(700));
        let others: Vec<_> = others.collect();
        let mut others: Vec<_> =
            others.into_iter().map(|other| (other, chance.pick(plan.locks[other]))).collect();
        if chance.permille(500) {
            others.reverse();
        }
        others
    }

    fn want(&mut self, plan: &Plan, chance: &mut Chance) -> Action {
        let lock = chance.below(plan.locks.len() as u64) as usize;
        if chance.permille(120) {
            return Action::Send(Request::Look(lock));
        }
        if plan.revokes && chance.permille(15) {
            return Action::Send(Request::Revoke(lock));
        }
        let session = self.session.filter(|_| chance.permille(800)).map(|session| session.id);
        let ttl_ms =
            Some(chance.within(300, 6_000)).filter(|_| session.is_none() || chance.permille(500));
        let request_id = self.request_id(chance);
        let others = self.others(lock, plan, chance);
        let mode = chance.pick(plan.locks[lock]);
        // Never requests a grace period for a group with a shared lock.
        let is_exclusive = others.is_empty()
            || mode == Mode::Exclusive && others.iter().all(|(_, mode)| *mode == Mode::Exclusive);
        Action::Send(Request::Acquire(Acquire {
            lock,
            mode,
            others,
            ttl_ms,
            grace_ms: if plan.uses_grace && chance.permille(400) && is_exclusive {
                chance.within(200, 3_000)
            } else {
                0
            },
            wait_ms: match chance.below(10) {
                0..3 => 0,
                3..8 => chance.within(50, 4_000),
                _ => PATIENT_MS,
            },
            session,
            request_id,
        }))
    }

    fn session_upkeep(&mut self, now: Time, chance: &mut Chance) -> Option<Request> {
        match self.session {
            None if self.character.uses_sessions && chance.permille(300) => {
                Some(Request::OpenSession(chance.within(800, 5_000)))
            }
            Some(session) if chance.permille(20) => {
                self.session = None;
                Some(Request::CloseSession(session.id))
            }
            Some(session) if now >= session.keep_at => Some(Request::KeepSession(session.id)),
            _ => None,
        }
    }

    /// Returns a request with a mistake: with an ended lease, or with a wrong token.
    fn mistake(&mut self, chance: &mut Chance) -> Option<Request> {
        if !chance.permille(80) {
            return None;
        }
        let of_the_past = !self.past.is_empty() && chance.permille(700);
        let claim = if of_the_past { Some(chance.pick(&self.past)) } else { None };
        let wrong_token = |claim: Claim| Claim {
            token: Token::new(claim.token.get() + 1).unwrap_or(Token::ZERO),
            ..claim
        };
        let claim = claim.or_else(|| self.held.first().map(|held| wrong_token(held.claim)))?;
        let request_id = None;
        let claims = vec![claim];
        Some(match chance.below(3) {
            0 => Request::Release { claims, request_id },
            _ => Request::Renew { claims, extend_ms: 2_000, request_id },
        })
    }

    /// Handles a response at the time `now`, on which the client can rely until `good_until`.
    pub fn told(
        &mut self,
        now: Time,
        request: &Request,
        answer: &Answer,
        good_until: Option<Time>,
        chance: &mut Chance,
    ) {
        self.pending = None;
        let until = good_until.unwrap_or(Time::MAX);
        match (request, answer) {
            (Request::Acquire(acquire), Answer::Granted { claims, .. }) => {
                for claim in claims {
                    // Once granted, each lease of a group is independent.
                    let done_at = now + chance.within(50, 4_000) * MS;
                    self.held.retain(|held| held.claim.id != claim.id);
                    self.held.push(HeldLease {
                        claim: *claim,
                        until,
                        acquired_by: request.clone(),
                        done_at,
                        ttl_ms: acquire.ttl_ms.unwrap_or(2_000),
                    });
                }
            }
            (Request::Renew { claims, .. }, Answer::Renewed { .. }) => {
                let renewed = self.held.iter_mut().filter(|held| claims.contains(&held.claim));
                renewed.for_each(|held| held.until = held.until.max(until));
            }
            (Request::Release { claims, .. }, Answer::ReleasedEach(_)) => {
                claims.iter().for_each(|claim| self.lose(*claim));
            }
            (Request::Renew { claims, .. }, Answer::Member { n, .. }) => self.lose(claims[*n]),
            (Request::Renew { claims, .. } | Request::Release { claims, .. }, _)
                if matches!(answer, Answer::Released | Answer::Over | Answer::NotYours) =>
            {
                claims.iter().for_each(|claim| self.lose(*claim));
            }
            (Request::OpenSession(ttl_ms), Answer::SessionOpened { session, .. }) => {
                let (id, ttl_ms) = (*session, *ttl_ms);
                self.session = Some(Session { id, keep_at: now + ttl_ms * MS / 3, ttl_ms });
            }
            (Request::KeepSession(_), Answer::SessionKept { .. }) => {
                if let Some(session) = &mut self.session {
                    session.keep_at = now + session.ttl_ms * MS / 3;
                }
            }
            (_, Answer::NoSession) => self.session = None,
            (_, Answer::Unknown | Answer::Busy | Answer::Stopping | Answer::Overloaded) => {
                self.broken(request, true, chance);
            }
            _ => {}
        }
    }

    fn lose(&mut self, claim: Claim) {
        self.held.retain(|held| held.claim != claim);
        self.remember(claim);
    }

    fn remember(&mut self, claim: Claim) {
        self.past.push(claim);
        if self.past.len() > PAST_MAX {
            self.past.remove(0);
        }
    }

    fn request_id(&mut self, chance: &mut Chance) -> Option<u64> {
        if !self.character.names_requests || chance.permille(100) {
            return None;
        }
        self.n_requests += 1;
        Some(self.incarnation * 1_000_000 + self.n_requests)
    }
}
