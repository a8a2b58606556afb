//! The part between the network and the engine: it converts requests to commands, and results to responses.
//!
//! Some clients use HTTP through the server's own front. For the others, this code does what a handler of the native
//! dialect does, through the same engine handle.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use leasehold_base::clock::Instant;
use leasehold_core::{
    AcquireAll, CloseSession, Dialect, Extend, KeepSession, LeaseView, LockKey, LockView,
    OpenSession, Other, Owner, Proof, Rejection, Release, ReleaseAll, Renew, RenewAll, Revoke,
    Secret, SessionDigest, Span, Target,
};
use leasehold_server::door::Door;
use leasehold_server::engine::{
    Ask, EngineHandle, Error, Expiry, ReadLock, WaitFor, WaitForAll, Waited, WaitedAll,
};

use crate::chance::Chance;
use crate::history::OperationId;
use crate::http;
use crate::message::{Acquire, Answer, Claim, Lock, Request, Seen, SessionId};

/// The native dialect, as in the HTTP front.
const DIALECT: Dialect = Dialect(0);
/// The number of locks in the first namespace, which can be acquired together.
pub const N_TOGETHER: usize = 3;
/// The percentage of clients that use HTTP. The others use the engine directly.
const AT_THE_DOOR_PERCENT: usize = 50;

/// The pending requests of one worker. One request can arrive more than once.
pub struct Front {
    handle: EngineHandle,
    door: Door,
    calls: BTreeMap<(OperationId, u64), Pending>,
    n_arrived: u64,
    secrets: Chance,
}

/// A pending response. Dropping it closes the client's connection.
type Pending = Pin<Box<dyn Future<Output = Answer>>>;

impl Front {
    /// Creates a front for this engine.
    pub fn new(handle: EngineHandle, door: Door, secrets: Chance) -> Self {
        Self { handle, door, calls: BTreeMap::new(), n_arrived: 0, secrets }
    }

    /// Handles a request that arrives.
    pub fn ask(&mut self, id: OperationId, client: usize, request: &Request) {
        let is_at_the_door = client * 37 % 100 < AT_THE_DOOR_PERCENT && http::can_ask(request);
        let pending = if is_at_the_door {
            Box::pin(http::ask(self.door.clone(), client, request.clone()))
        } else {
            self.pending(client, request)
        };
        self.n_arrived += 1;
        self.calls.insert((id, self.n_arrived), pending);
    }

    /// Handles the closed connection of a client.
    pub fn close(&mut self, id: OperationId) {
        self.calls.retain(|(asked, _), _| *asked != id);
    }

    /// Returns the responses that are ready. `runs` decides for each request whether its handler runs now. The others
    /// wake this waker.
    pub fn answers(
        &mut self,
        waker: &Waker,
        mut runs: impl FnMut() -> bool,
    ) -> Vec<(OperationId, Answer)> {
        let mut answers = Vec::new();
        let mut context = Context::from_waker(waker);
        self.calls.retain(|(id, _), pending| {
            if !runs() {
                return true;
            }
            match pending.as_mut().poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(answer) => {
                    answers.push((*id, answer));
                    false
                }
            }
        });
        answers
    }

    fn pending(&mut self, client: usize, request: &Request) -> Pending {
        let (handle, now) = (self.handle.clone(), self.handle.instant());
        let dialect = DIALECT;
        let request_id = request.request_id().map(|id| format!("r{id}").into());
        match request {
            Request::Acquire(acquire) => self.ask_for(client, acquire, request_id),
            Request::Renew { claims, extend_ms, .. } => {
                let extend = Extend::AtLeast(Span::from_millis(*extend_ms));
                let mut proofs = claims.iter().map(|claim| proof(client, claim));
                if claims.len() > 1 {
                    let ask = RenewAll { proofs: proofs.collect(), dialect, extend };
                    return self.call(ask, move |leases| {
                        let first = leases.iter().min_by_key(|lease| lease.deadline);
                        let expiry = first.and_then(|lease| expiry(&handle, lease, now));
                        Answer::Renewed { expiry }
                    });
                }
                let proof = proofs.next().expect("one claim at least");
                let ask = Renew { proof, dialect, extend, request_id };
                self.call(ask, move |lease| Answer::Renewed {
                    expiry: expiry(&handle, &lease, now),
                })
            }
            Request::Release { claims, .. } => self.give_back(client, claims, request_id),
            Request::Revoke(lock) => {
                let target = Target::Lock(key(*lock));
                self.call(Revoke { target, reason: "simulated".into() }, |_| Answer::Revoked)
            }
            Request::Look(lock) => {
                self.call(ReadLock { key: key(*lock), n_queue_max: 100 }, |view| seen(&view))
            }
            Request::OpenSession(ttl_ms) => {
                let mut digest = [0; 32];
                self.secrets.fill(&mut digest);
                let session = SessionId(digest);
                let (owner, ttl) = (owner(client), Span::from_millis(*ttl_ms));
                let ask = OpenSession {
                    digest: SessionDigest(digest),
                    owner,
                    dialect,
                    ttl,
                    peer: None,
                    credential: None,
                };
                self.call(ask, move |opened| Answer::SessionOpened {
                    session,
                    expiry: handle.expiry(opened.deadline, now),
                })
            }
            Request::KeepSession(session) => {
                let ask =
                    KeepSession { session: SessionDigest(session.0), principal: None, dialect };
                self.call(ask, move |deadline| Answer::SessionKept {
                    expiry: handle.expiry(deadline, now),
                })
            }
            Request::CloseSession(session) => {
                let ask =
                    CloseSession { session: SessionDigest(session.0), principal: None, dialect };
                self.call(ask, |()| Answer::SessionClosed)
            }
        }
    }

    fn call<A, T>(&self, ask: A, done: impl FnOnce(T) -> Answer + 'static) -> Pending
    where
        A: Ask<Answer = Result<T, Rejection>> + 'static,
    {
        // The command is sent now, and only the response is awaited later.
        let call = self.handle.ask_unchecked(ask);
        Box::pin(async move {
            match call.await {
                Ok(Ok(answer)) => done(answer),
                Ok(Err(rejection)) => refused(rejection),
                Err(Error::Busy | Error::StoreSilent) => Answer::Busy,
                Err(
                    Error::Overloaded
                    | Error::JournalFull
                    | Error::DiskFull
                    | Error::StoreFull
                    | Error::StoreAlarmed
                    | Error::AuditFailed,
                ) => Answer::Overloaded,
                Err(Error::Stopping | Error::NotLeading) => Answer::Stopping,
                Err(Error::Unknown) => Answer::Unknown,
            }
        })
    }

    fn give_back(&self, client: usize, claims: &[Claim], request_id: Option<Box<str>>) -> Pending {
        let dialect = DIALECT;
        let mut proofs = claims.iter().map(|claim| proof(client, claim));
        if claims.len() > 1 {
            let ask = ReleaseAll { proofs: proofs.collect(), dialect };
            return self
                .call(ask, |each| Answer::ReleasedEach(each.iter().map(Result::is_ok).collect()));
        }
        let proof = proofs.next().expect("one claim at least");
        self.call(Release { proof, dialect, request_id }, |_| Answer::Released)
    }

    fn ask_for(&mut self, client: usize, asked: &Acquire, id: Option<Box<str>>) -> Pending {
        let (handle, now) = (self.handle.clone(), self.handle.instant());
        let wait = Span::from_millis(asked.wait_ms);
        let acquire = self.acquire(client, asked, id);
        let claim = |lock, lease: &LeaseView| Claim { lock, id: lease.id, token: lease.token };
        if asked.others.is_empty() {
            let lock = asked.lock;
            return self.call(WaitFor { acquire, wait }, move |waited| match waited {
                Waited::Granted(granted) => {
                    // The network accepts every response.
                    let lease = granted.deliver().lease;
                    let claims = vec![claim(lock, &lease)];
                    Answer::Granted { claims, expiry: expiry(&handle, &lease, now) }
                }
                Waited::Over(_) => Answer::WaitOver,
            });
        }
        let others = asked.others.iter().map(|(lock, mode)| {
            let (name, mode, secret) = (name(*lock).into(), *mode, self.secret());
            Other { name, mode, secret }
        });
        let acquire = AcquireAll { first: acquire, others: others.collect() };
        let locks: Vec<_> = asked.each().map(|(lock, _)| lock).collect();
        self.call(WaitForAll { acquire, wait }, move |waited| match waited {
            WaitedAll::Granted { grants, undelivered } => {
                if let Some(undelivered) = undelivered {
                    undelivered.delivered();
                }
                // The lock of a lease is known only by its index.
                let leases = locks.iter().zip(&grants);
                let claims = leases.map(|(lock, grant)| claim(*lock, &grant.lease)).collect();
                let first = grants.iter().map(|grant| &grant.lease).min_by_key(|l| l.deadline);
                let expiry = first.and_then(|lease| expiry(&handle, lease, now));
                Answer::Granted { claims, expiry }
            }
            WaitedAll::Over { .. } => Answer::WaitOver,
        })
    }

    fn secret(&mut self) -> Secret {
        let secret = u128::from(self.secrets.draw()) << 64 | u128::from(self.secrets.draw());
        Secret(secret.to_le_bytes())
    }

    fn acquire(
        &mut self,
        client: usize,
        asked: &Acquire,
        request_id: Option<Box<str>>,
    ) -> leasehold_core::Acquire {
        let secret = self.secret();
        leasehold_core::Acquire {
            mode: asked.mode,
            ttl: asked.ttl_ms.map(Span::from_millis),
            grace: Span::from_millis(asked.grace_ms),
            session: asked.session.map(|session| SessionDigest(session.0)),
            request_id,
            ..leasehold_core::Acquire::new(key(asked.lock), owner(client), DIALECT, secret)
        }
    }
}

/// Returns the name of a lock.
pub fn name(lock: Lock) -> String {
    format!("lock-{lock}")
}

/// Returns the namespace of a lock. The first locks share one, so that they can be acquired together. Every other lock
/// has a separate namespace, which is forgotten with its lock after a time without use.
pub fn namespace(lock: Lock) -> String {
    format!("tenant-{}", if lock < N_TOGETHER { 0 } else { lock })
}

fn key(lock: Lock) -> LockKey {
    LockKey::new(namespace(lock), name(lock))
}

fn owner(client: usize) -> Owner {
    Owner::new("anonymous", format!("{client}"))
}

fn client(owner: &Owner) -> usize {
    owner.instance.parse().expect("owners are named after clients")
}

fn proof(client: usize, claim: &Claim) -> Proof {
    let (owner, lock) = (owner(client), Some(key(claim.lock)));
    Proof::Id { id: claim.id, owner, token: Some(claim.token), lock }
}

fn expiry(handle: &EngineHandle, lease: &LeaseView, received_at: Instant) -> Option<Expiry> {
    lease.deadline.map(|deadline| handle.expiry(deadline, received_at))
}

fn seen(view: &LockView) -> Answer {
    Answer::Seen(Seen {
        last_token: view.last_token,
        holders: view.holders.iter().map(|h| (client(&h.owner), h.token)).collect(),
        n_waiting: view.n_waiting,
    })
}

fn refused(rejection: Rejection) -> Answer {
    match rejection {
        Rejection::Member { n, why } => Answer::Member { n, why: Box::new(refused(*why)) },
        Rejection::Held(holding) => Answer::Held(holding.owner.as_ref().map(client)),
        Rejection::Grace { owner, .. } => Answer::InGrace(client(&owner)),
        Rejection::RequestSpent(_) => Answer::Spent,
        Rejection::Ended(_) => Answer::Over,
        Rejection::NoSuchLease | Rejection::NotOwner | Rejection::StillWaiting => Answer::NotYours,
        Rejection::NoSuchSession => Answer::NoSession,
        other => Answer::Refused(format!("{other:?}")),
    }
}
