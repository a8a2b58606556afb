//! What stands between the network and the engine: questions become commands, replies become answers.
//!
//! It does what a handler of the native dialect does, and uses the engine through the same handle.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use leasehold_core::{
    Command, Dialect, Extend, KeepSession, LockKey, OpenSession, Outcome, Owner, Proof, Rejection,
    Release, Renew, Revoke, Secret, SessionDigest, Span, Target, Timestamp, Wait,
};
use leasehold_server::engine::{Call, EngineHandle, Error, Read, Reply};

use crate::chance::Chance;
use crate::history::OperationId;
use crate::message::{Acquire, Answer, Claim, Lock, Request, Seen};

const DIALECT: Dialect = Dialect(1);

/// The questions that were not answered yet. One question can arrive more than once.
pub struct Front {
    handle: EngineHandle,
    calls: BTreeMap<(OperationId, u64), Pending>,
    n_arrived: u64,
    secrets: Chance,
}

struct Pending {
    call: Call,
    received_at: Timestamp,
    about: About,
}

/// What an answer needs to know of its question.
#[derive(Clone, Copy)]
enum About {
    Lock(Lock),
    Session(SessionDigest, u64),
}

impl Front {
    /// In front of this engine.
    pub fn new(handle: EngineHandle, secrets: Chance) -> Self {
        Self { handle, calls: BTreeMap::new(), n_arrived: 0, secrets }
    }

    /// The engine behind it.
    pub fn handle(&self) -> &EngineHandle {
        &self.handle
    }

    /// A question arrives.
    pub fn ask(&mut self, id: OperationId, client: usize, request: &Request) {
        let received_at = self.handle.now();
        let about = self.about(request);
        let call = match request {
            Request::Look(lock) => {
                self.handle.read(Read::Lock { key: key(*lock), n_queue_max: 100 })
            }
            request => {
                let command = self.command(client, request, about);
                self.handle.apply(command)
            }
        };
        self.n_arrived += 1;
        self.calls.insert((id, self.n_arrived), Pending { call, received_at, about });
    }

    /// Whoever asked is gone.
    pub fn close(&mut self, id: OperationId) {
        self.calls.retain(|(asked, _), _| *asked != id);
    }

    /// The answers there are by now, as far as whoever handles each gets to run.
    pub fn answers(&mut self, mut runs: impl FnMut() -> bool) -> Vec<(OperationId, Answer)> {
        let mut answers = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        self.calls.retain(|(id, _), pending| {
            if !runs() {
                return true;
            }
            match Pin::new(&mut pending.call).poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(reply) => {
                    answers.push((*id, render(pending.about, pending.received_at, reply)));
                    false
                }
            }
        });
        answers
    }

    fn about(&mut self, request: &Request) -> About {
        match request {
            Request::Acquire(Acquire { lock, .. })
            | Request::Look(lock)
            | Request::Revoke(lock) => About::Lock(*lock),
            Request::Renew { claim, .. } | Request::Release { claim, .. } => {
                About::Lock(claim.lock)
            }
            Request::OpenSession(ttl_ms) => {
                let mut digest = [0; 32];
                digest[..8].copy_from_slice(&self.secrets.draw().to_le_bytes());
                About::Session(SessionDigest(digest), *ttl_ms)
            }
            Request::KeepSession(digest) | Request::CloseSession(digest) => {
                About::Session(*digest, 0)
            }
        }
    }

    fn command(&mut self, client: usize, request: &Request, about: About) -> Command {
        let request_id = request.request_id().map(|id| format!("r{id}").into());
        let dialect = DIALECT;
        match (request, about) {
            (Request::Renew { claim, extend_ms, .. }, _) => {
                let extend = Extend::AtLeast(Span::from_millis(*extend_ms));
                Command::Renew(Renew { proof: proof(client, claim), dialect, extend, request_id })
            }
            (Request::Release { claim, .. }, _) => {
                Command::Release(Release { proof: proof(client, claim), dialect, request_id })
            }
            (Request::Revoke(lock), _) => {
                let target = Target::Lock(key(*lock));
                Command::Revoke(Revoke { target, reason: "simulated".into() })
            }
            (Request::Acquire(acquire), _) => self.acquire(client, acquire, request_id),
            (Request::OpenSession(_), About::Session(digest, ttl_ms)) => {
                let (owner, ttl) = (owner(client), Span::from_millis(ttl_ms));
                Command::OpenSession(OpenSession { digest, owner, dialect, ttl })
            }
            (Request::KeepSession(session), _) => {
                Command::KeepSession(KeepSession { session: *session, dialect })
            }
            (Request::CloseSession(session), _) => {
                let session = *session;
                Command::CloseSession(leasehold_core::CloseSession { session, dialect })
            }
            (request, _) => unreachable!("not a command: {request:?}"),
        }
    }

    fn acquire(&mut self, client: usize, acquire: &Acquire, id: Option<Box<str>>) -> Command {
        let secret = u128::from(self.secrets.draw()) << 64 | u128::from(self.secrets.draw());
        let secret = Secret(secret.to_le_bytes());
        let plain = leasehold_core::Acquire::new(key(acquire.lock), owner(client), DIALECT, secret);
        Command::Acquire(Box::new(leasehold_core::Acquire {
            mode: acquire.mode,
            ttl: acquire.ttl_ms.map(Span::from_millis),
            grace: Span::from_millis(acquire.grace_ms),
            wait: match acquire.wait_ms {
                0 => Wait::No,
                wait_ms => Wait::Connected(Span::from_millis(wait_ms)),
            },
            session: acquire.session,
            request_id: id,
            ..plain
        }))
    }
}

/// The name of a lock.
pub fn name(lock: Lock) -> String {
    format!("lock-{lock}")
}

fn key(lock: Lock) -> LockKey {
    LockKey::new("default", name(lock))
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

fn render(about: About, received_at: Timestamp, reply: Result<Reply, Error>) -> Answer {
    match (reply, about) {
        (Ok(Reply::Applied(Ok(outcome))), about) => done(about, received_at, outcome),
        (Ok(Reply::Applied(Err(rejection))), _) => refused(rejection),
        (Ok(Reply::WaitOver(_)), _) => Answer::WaitOver,
        (Ok(Reply::Lock(view)), _) => Answer::Seen(Seen {
            last_token: view.last_token,
            holders: view.holders.iter().map(|h| (client(&h.owner), h.token)).collect(),
            n_waiting: view.n_waiting,
        }),
        (Ok(other), _) => unreachable!("not asked for: {other:?}"),
        (Err(Error::Busy), _) => Answer::Busy,
        (Err(Error::Overloaded), _) => Answer::Overloaded,
        (Err(Error::Stopping), _) => Answer::Stopping,
        (Err(Error::Unknown), _) => Answer::Unknown,
    }
}

fn done(about: About, received_at: Timestamp, outcome: Outcome) -> Answer {
    match (outcome, about) {
        (Outcome::Granted(grant), About::Lock(lock)) => {
            let claim = Claim { lock, id: grant.lease.id, token: grant.lease.token };
            let expires_in_ms = grant.lease.remaining(received_at).map(Span::as_millis);
            Answer::Granted { claim, expires_in_ms }
        }
        (Outcome::Renewed(lease), _) => {
            Answer::Renewed { expires_in_ms: lease.remaining(received_at).map(Span::as_millis) }
        }
        (Outcome::Released(_), _) => Answer::Released,
        (Outcome::Revoked(_), _) => Answer::Revoked,
        (Outcome::SessionOpened(_), About::Session(session, ttl_ms)) => {
            Answer::SessionOpened { session, expires_in_ms: ttl_ms }
        }
        (Outcome::SessionKept { deadline }, _) => {
            Answer::SessionKept { expires_in_ms: deadline.since(received_at).as_millis() }
        }
        (Outcome::SessionClosed, _) => Answer::SessionClosed,
        (other, _) => unreachable!("not asked for: {other:?}"),
    }
}

fn refused(rejection: Rejection) -> Answer {
    match rejection {
        Rejection::Held(holding) => Answer::Held(holding.owner.as_ref().map(client)),
        Rejection::Grace { owner, .. } => Answer::InGrace(client(&owner)),
        Rejection::RequestSpent(_) => Answer::Spent,
        Rejection::Ended(_) => Answer::Over,
        Rejection::NoSuchLease | Rejection::NotOwner | Rejection::StillWaiting => Answer::NotYours,
        Rejection::NoSuchSession => Answer::NoSession,
        other => Answer::Refused(format!("{other:?}")),
    }
}
