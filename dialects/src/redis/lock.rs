//! Lock commands: each is one call to the engine, and its result becomes a Redis reply.

use leasehold_auth::{Caller, Denied};
use leasehold_core::{
    Acquire, AcquireAll, Extend, LeaseView, LockKey, LockView, Mode, Other, Owner, Proof,
    Rejection, Release, ReleaseAll, Renew, RenewAll, Secret, Span, Timestamp,
};
use leasehold_engine::{
    self as engine, Call, ReadLock, Take, Together, Undelivered, WaitForAll, WaitedAll,
};

use super::command::{Command, lasting};
use super::party::Party;
use super::refusal::is_no;
use super::reply::Reply;
use super::revoke::Revoking;
use super::script::Script;
use super::semaphore::joined;
use crate::counted::Counted;
use crate::{Dialect, name_of, owner};

/// The reason why a command is not passed to the engine.
pub(super) enum Refusal {
    /// The command is invalid; this is the reply.
    Wrong(Reply),
    /// The caller lacks the right to do this.
    Denied(Denied),
}

impl From<Reply> for Refusal {
    fn from(reply: Reply) -> Self {
        Refusal::Wrong(reply)
    }
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        Refusal::Wrong(rejection.into())
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Refusal::Denied(denied)
    }
}

/// A command that was sent to the engine, and how to turn its result into a reply.
pub(super) enum Asked {
    /// The reply is known without the engine.
    Told(Reply),
    /// An acquire, with the replies if it is granted and if not.
    Taken(Call<Take>, Reply, Reply),
    TakenAll(Call<WaitForAll>, i64),
    /// Places in a semaphore. If one is refused, those granted are released.
    Places(Vec<Call<Take>>),
    Renewed(Call<Renew>),
    RenewedAll(Call<RenewAll>, i64),
    Released(Call<Release>),
    ReleasedAll(Call<ReleaseAll>),
    Looked(Call<ReadLock>, Look),
    Counted(Vec<Call<ReadLock>>),
    Revoked(Box<Revoking>),
}

/// What a read reports about a lock.
pub(super) enum Look {
    Value,
    /// The time left, in units of this many milliseconds.
    Remaining(u64),
    /// The time left in milliseconds, if the lock is held by the owner in this variant.
    Own(Owner),
}

/// The connection and the caller of a command, and the engine batch that the command joins.
pub(super) struct Asking<'a, 'e> {
    pub(super) party: &'a Party,
    pub(super) caller: &'a Caller,
    pub(super) together: &'a mut Together<'e>,
}

impl Asking<'_, '_> {
    /// Sends a command to the engine. Commands that are not about locks never get here: [`super::connection`] answers
    /// them.
    pub(super) fn ask(mut self, command: Command<'_>) -> Result<Asked, Refusal> {
        match command {
            Command::Set(key, value, ttl) => self.take(key, value, ttl),
            Command::SetNew(key, value) => {
                let acquire = self.acquire(key, value);
                self.take_as(acquire, Reply::Integer(1), Reply::Integer(0))
            }
            Command::Get(key) => self.look(key, Look::Value),
            Command::Remaining(key, unit_ms) => self.look(key, Look::Remaining(unit_ms)),
            Command::Exists(keys) => self.count(&keys),
            Command::Delete(keys) => self.revoke(&keys),
            Command::Leave(key, members) => {
                let proofs = members.iter().map(|member| self.proof(key, member));
                let proofs = proofs.collect::<Result<Vec<_>, _>>()?;
                self.release(proofs)
            }
            Command::Run(script, keys, arguments) => self.run(script, &keys, &arguments),
            _ => Ok(Asked::Told(Reply::Nil)),
        }
    }

    fn run(&mut self, script: Script, keys: &[&str], arguments: &[&str]) -> Result<Asked, Refusal> {
        let (key, value) = (keys[0], arguments[0]);
        match script {
            Script::Delete | Script::DeleteAll => {
                let proofs = keys.iter().map(|key| self.proof(key, value));
                let proofs = proofs.collect::<Result<Vec<_>, _>>()?;
                self.release(proofs)
            }
            Script::Remaining => {
                let owner = self.owner(value);
                self.look(key, Look::Own(owner))
            }
            Script::Expire => self.renew(key, value, Extend::Exactly(span(arguments[1])?)),
            Script::Extend => self.renew(key, value, Extend::By(span(arguments[1])?)),
            Script::TakeAll => self.take_all(keys, value, span(arguments[1])?),
            Script::ExpireAll => self.renew_all(keys, value, span(arguments[1])?),
            Script::Join => self.join(key, arguments),
            Script::JoinMany => self.join_many(key, arguments),
            Script::StayMany => self.stay_many(key, arguments),
            Script::LeaveMany => self.leave_many(key, arguments),
            Script::Stay => self.renew(key, arguments[1], Extend::Exactly(span(arguments[2])?)),
        }
    }

    fn take(&mut self, key: &str, value: &str, ttl: Option<Span>) -> Result<Asked, Refusal> {
        let acquire = Acquire { ttl, ..self.acquire(key, value) };
        self.take_as(acquire, Reply::OK, Reply::Nil)
    }

    pub(super) fn take_as(
        &mut self,
        acquire: Acquire,
        yes: Reply,
        no: Reply,
    ) -> Result<Asked, Refusal> {
        // A malformed request is reported as such before rights are checked.
        self.party.app.limits.check_acquire(&acquire)?;
        let take = self.caller.permit(Take(acquire))?;
        Ok(Asked::Taken(self.together.ask(take), yes, no))
    }

    fn take_all(&mut self, keys: &[&str], value: &str, ttl: Span) -> Result<Asked, Refusal> {
        let first = Acquire { ttl: Some(ttl), ..self.acquire(keys[0], value) };
        if keys.len() == 1 {
            return self.take_as(first, Reply::Integer(1), Reply::Integer(0));
        }
        let limits = &self.party.app.limits;
        limits.check_acquire(&first)?;
        for key in keys {
            limits.check_key(&self.party.lock(key))?;
        }
        let other = |name: &&str| {
            let secret = Secret(leasehold_base::random::bytes());
            Other { name: (*name).into(), mode: Mode::Exclusive, secret }
        };
        let others = keys[1..].iter().map(other).collect();
        let acquire = AcquireAll { first, others };
        let all = self.caller.permit(WaitForAll { acquire, wait: Span::ZERO })?;
        Ok(Asked::TakenAll(self.together.ask(all), keys.len() as i64))
    }

    fn renew(&mut self, key: &str, value: &str, extend: Extend) -> Result<Asked, Refusal> {
        let (proof, dialect) = (self.proof(key, value)?, Dialect::Redis.number());
        let renew = Renew { proof, dialect, extend, request_id: None };
        Ok(Asked::Renewed(self.together.ask(self.caller.permit(renew)?)))
    }

    fn renew_all(&mut self, keys: &[&str], value: &str, ttl: Span) -> Result<Asked, Refusal> {
        if let [key] = keys {
            return self.renew(key, value, Extend::Exactly(ttl));
        }
        let proofs = keys.iter().map(|key| self.proof(key, value)).collect::<Result<_, _>>()?;
        self.renew_each(proofs, ttl, keys.len() as i64)
    }

    /// Renews all of these leases or none. The reply is `yes` or 0.
    pub(super) fn renew_each(
        &mut self,
        proofs: Vec<Proof>,
        ttl: Span,
        yes: i64,
    ) -> Result<Asked, Refusal> {
        let (dialect, extend) = (Dialect::Redis.number(), Extend::Exactly(ttl));
        let renew = self.caller.permit(RenewAll { proofs, dialect, extend })?;
        Ok(Asked::RenewedAll(self.together.ask(renew), yes))
    }

    pub(super) fn release(&mut self, mut proofs: Vec<Proof>) -> Result<Asked, Refusal> {
        let dialect = Dialect::Redis.number();
        if proofs.len() > 1 {
            let release = self.caller.own(ReleaseAll { proofs, dialect });
            return Ok(Asked::ReleasedAll(self.together.ask(release)));
        }
        let Some(proof) = proofs.pop() else { return Ok(Asked::Told(Reply::Integer(0))) };
        let release = self.caller.own(Release { proof, dialect, request_id: None });
        Ok(Asked::Released(self.together.ask(release)))
    }

    fn look(&mut self, key: &str, look: Look) -> Result<Asked, Refusal> {
        Ok(Asked::Looked(self.read(key)?, look))
    }

    fn count(&mut self, keys: &[&str]) -> Result<Asked, Refusal> {
        self.check_number(keys)?;
        Ok(Asked::Counted(keys.iter().map(|key| self.read(key)).collect::<Result<_, _>>()?))
    }

    fn read(&mut self, key: &str) -> Result<Call<ReadLock>, Refusal> {
        let key = self.party.lock(key);
        self.party.app.limits.check_key(&key)?;
        let read = self.caller.permit(ReadLock { key, n_queue_max: 0 })?;
        Ok(self.together.ask(read))
    }

    pub(super) fn check_number(&self, keys: &[&str]) -> Result<(), Refusal> {
        let limits = &self.party.app.limits;
        let exceeded = limits.exceeded(leasehold_core::Limit::Group);
        if keys.len() > limits.group_max { Err(exceeded.into()) } else { Ok(()) }
    }

    pub(super) fn acquire(&self, key: &str, value: &str) -> Acquire {
        let Counted(peer) = Counted::from(self.caller, || self.party.address());
        let (lock, owner) = (self.party.lock(key), self.owner(value));
        let secret = Secret(leasehold_base::random::bytes());
        Acquire { peer, ..Acquire::new(lock, owner, Dialect::Redis.number(), secret) }
    }

    fn owner(&self, value: &str) -> Owner {
        owner::of(self.caller, value)
    }

    pub(super) fn proof(&self, key: &str, value: &str) -> Result<Proof, Refusal> {
        let (lock, owner) = (self.party.lock(key), self.owner(value));
        let limits = &self.party.app.limits;
        limits.check_key(&lock)?;
        limits.check_owner(&owner)?;
        Ok(Proof::Owner { lock, owner })
    }
}

pub(super) fn span(ms: &str) -> Result<Span, Reply> {
    lasting(ms, 1, "pexpire")
}

impl Asked {
    /// Waits for the result. Returns the reply and the guards of the leases it grants.
    pub(super) async fn answer(self, party: &Party) -> (Reply, Vec<Undelivered>) {
        let guard = |undelivered: Option<Undelivered>| undelivered.into_iter().collect();
        match self {
            Asked::Taken(call, yes, no) => match call.await {
                Ok(Ok(granted)) => (yes, guard(granted.undelivered)),
                Ok(Err(rejection)) => (told(rejection, no), Vec::new()),
                Err(error) => (error.into(), Vec::new()),
            },
            Asked::TakenAll(call, n) => match call.await {
                Ok(Ok(WaitedAll::Granted { undelivered, .. })) => {
                    (Reply::Integer(n), guard(undelivered))
                }
                Ok(Ok(WaitedAll::Over { .. })) => (Reply::Integer(0), Vec::new()),
                Ok(Err(rejection)) => (told(rejection, Reply::Integer(0)), Vec::new()),
                Err(error) => (error.into(), Vec::new()),
            },
            Asked::Places(calls) => joined(calls).await,
            other => (other.reply(party).await, Vec::new()),
        }
    }

    async fn reply(self, party: &Party) -> Reply {
        match self {
            Asked::Told(reply) => reply,
            // A lease without a deadline cannot be extended.
            Asked::Renewed(call) => {
                answered(call.await, |lease| i64::from(lease.deadline.is_some()))
            }
            Asked::RenewedAll(call, n) => answered(call.await, |_| n),
            Asked::Released(call) => answered(call.await, |_| 1),
            Asked::ReleasedAll(call) => answered(call.await, |each| {
                each.iter().filter(|released| released.is_ok()).count() as i64
            }),
            Asked::Looked(call, look) => match call.await {
                Ok(Ok(view)) => look.told(&view, party),
                Ok(Err(rejection)) => rejection.into(),
                Err(error) => error.into(),
            },
            Asked::Counted(calls) => sum(calls, |view| i64::from(view.n_holders > 0)).await,
            Asked::Revoked(revoking) => revoking.answer(party).await,
            Asked::Taken(..) | Asked::TakenAll(..) | Asked::Places(_) => Reply::Nil,
        }
    }
}

pub(super) type Answered<T> = Result<Result<T, Rejection>, engine::Error>;

/// Returns a number computed from the result, or 0 if the caller does not hold the lock.
pub(super) fn answered<T>(answered: Answered<T>, number: impl FnOnce(T) -> i64) -> Reply {
    match answered {
        Ok(Ok(answer)) => Reply::Integer(number(answer)),
        Ok(Err(rejection)) => told(rejection, Reply::Integer(0)),
        Err(error) => error.into(),
    }
}

pub(super) fn told(rejection: Rejection, no: Reply) -> Reply {
    if is_no(&rejection) { no } else { rejection.into() }
}

/// Adds up the numbers of several calls. The first error becomes the reply.
async fn sum<A, T>(calls: Vec<Call<A>>, number: impl Fn(T) -> i64) -> Reply
where
    A: engine::Ask<Answer = Result<T, Rejection>>,
{
    let mut sum = 0;
    for call in calls {
        match answered(call.await, &number) {
            Reply::Integer(n) => sum += n,
            other => return other,
        }
    }
    Reply::Integer(sum)
}

impl Look {
    fn told(self, view: &LockView, party: &Party) -> Reply {
        let now = party.app.engine.now();
        match self {
            Look::Value => value(view, party.caller()),
            Look::Remaining(unit_ms) => match remaining_ms(view, now) {
                None => Reply::Integer(-2),
                Some(None) => Reply::Integer(-1),
                Some(Some(ms)) => Reply::Integer(((ms + unit_ms / 2) / unit_ms) as i64),
            },
            Look::Own(owner) => {
                let own = view.holders.iter().find(|lease| is_ours(lease) && lease.owner == owner);
                let left = own.and_then(|lease| lease.remaining(now));
                Reply::Integer(left.map_or(0, |left| left.as_millis() as i64))
            }
        }
    }
}

pub(super) fn is_ours(lease: &LeaseView) -> bool {
    lease.dialect == Dialect::Redis.number()
}

/// Returns the value that the key was set to. A lock held through another dialect has no value that any client could
/// have set; the reply then names the holder.
fn value(view: &LockView, caller: Result<Caller, Denied>) -> Reply {
    match view.holders.first() {
        None => Reply::Nil,
        Some(lease) if !is_ours(lease) => {
            let who = owner::called(lease.dialect, &lease.owner, lease.metadata.as_deref());
            Reply::Text(format!("held through {} by {who}", name_of(lease.dialect)))
        }
        Some(lease) if lease.mode == Mode::Exclusive => {
            // The value proves ownership of the lock, so other principals get a shortened form.
            let is_theirs = caller.is_ok_and(|c| !c.is_asked() || c.is(&lease.owner.principal));
            Reply::Text(match is_theirs {
                true => lease.owner.instance.to_string(),
                false => owner::shown(lease.dialect, &lease.owner).into(),
            })
        }
        Some(_) => Reply::Error(
            "WRONGTYPE Operation against a key holding the wrong kind of value: a semaphore".into(),
        ),
    }
}

/// Returns the time left of the lease that lasts longest. The outer `None` means that the lock is free, the inner one
/// that a lease never expires.
fn remaining_ms(view: &LockView, now: Timestamp) -> Option<Option<u64>> {
    if view.n_holders == 0 {
        return None;
    }
    let each = view.holders.iter().map(|lease| lease.remaining(now).map(Span::as_millis));
    // A lease without a deadline lasts longest.
    Some(each.collect::<Option<Vec<_>>>().and_then(|each| each.into_iter().max()))
}

/// Starts reading the lock of a key.
pub(super) fn read(
    party: &Party,
    caller: &Caller,
    key: &str,
) -> Result<(LockKey, Call<ReadLock>), Refusal> {
    let lock = party.lock(key);
    party.app.limits.check_key(&lock)?;
    let read = caller.permit(ReadLock { key: lock.clone(), n_queue_max: 0 })?;
    Ok((lock, party.app.engine.ask(read)))
}
