//! Semaphores: a limited number of holders, where one client can hold several places.

use leasehold_core::{Acquire, Limits, Mode, Proof, Span};
use leasehold_engine::{Call, Take, Undelivered};

use super::lock::{Asked, Asking, Refusal, span, told};
use super::reply::Reply;

impl Asking<'_, '_> {
    /// Acquires a place in a semaphore, or renews it if the client has it already. The client's clock is ignored.
    pub(super) fn join(&mut self, key: &str, arguments: &[&str]) -> Result<Asked, Refusal> {
        let (limit, ttl) = (limit(arguments[0])?, span(arguments[2])?);
        let acquire = self.place(key, arguments[1], limit, ttl);
        self.take_as(acquire, Reply::Integer(1), Reply::Integer(0))
    }

    /// Acquires several places. Each place is a separate lease. They are requested together; if one is refused, the
    /// others are released.
    pub(super) fn join_many(&mut self, key: &str, arguments: &[&str]) -> Result<Asked, Refusal> {
        let (limit, ttl) = (limit(arguments[0])?, span(arguments[3])?);
        let members = places(arguments[1], arguments[2], self.limits())?;
        if members.len() > limit as usize {
            return Ok(Asked::Told(Reply::Integer(0)));
        }
        let mut takes = Vec::with_capacity(members.len());
        for member in &members {
            let acquire = self.place(key, member, limit, ttl);
            self.limits().check_acquire(&acquire)?;
            takes.push(self.caller.permit(Take(acquire))?);
        }
        Ok(Asked::Places(takes.into_iter().map(|take| self.together.ask(take)).collect()))
    }

    /// Renews places that the client holds, all or none.
    pub(super) fn stay_many(&mut self, key: &str, arguments: &[&str]) -> Result<Asked, Refusal> {
        let proofs = self.proofs(key, arguments[1], arguments[2])?;
        self.renew_each(proofs, span(arguments[3])?, 1)
    }

    /// Releases those of these places that the client holds.
    pub(super) fn leave_many(&mut self, key: &str, arguments: &[&str]) -> Result<Asked, Refusal> {
        let proofs = self.proofs(key, arguments[0], arguments[1])?;
        self.release(proofs)
    }

    fn proofs(&self, key: &str, n: &str, who: &str) -> Result<Vec<Proof>, Refusal> {
        places(n, who, self.limits())?.iter().map(|member| self.proof(key, member)).collect()
    }

    fn place(&self, key: &str, member: &str, limit: u32, ttl: Span) -> Acquire {
        let mode = Mode::Counted(limit);
        Acquire { mode, ttl: Some(ttl), sticky: true, ..self.acquire(key, member) }
    }

    fn limits(&self) -> &Limits {
        &self.party.app.limits
    }
}

/// Parses the maximum number of holders of a semaphore.
fn limit(text: &str) -> Result<u32, Reply> {
    let limit = text.parse().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| Reply::error("the limit is not a positive number"))
}

/// Returns the names of several places of one client, in the form that redis-semaphore uses.
fn places(n: &str, who: &str, limits: &Limits) -> Result<Vec<String>, Refusal> {
    let n = n.parse().ok().filter(|n: &usize| *n > 0);
    let n = n.ok_or_else(|| Reply::error("the number of permits is not a positive number"))?;
    if n > limits.group_max {
        return Err(limits.exceeded(leasehold_core::Limit::Group).into());
    }
    Ok((0..n).map(|place| format!("{who}_{place}")).collect())
}

/// Returns the reply to a request for several places. If one was refused, the guards of the granted ones are dropped,
/// which releases them.
pub(super) async fn joined(calls: Vec<Call<Take>>) -> (Reply, Vec<Undelivered>) {
    let (mut guards, mut refused) = (Vec::new(), None);
    for call in calls {
        match call.await {
            Ok(Ok(granted)) => guards.extend(granted.undelivered),
            Ok(Err(rejection)) => _ = refused.get_or_insert(told(rejection, Reply::Integer(0))),
            Err(error) => _ = refused.get_or_insert(error.into()),
        }
    }
    match refused {
        Some(reply) => (reply, Vec::new()),
        None => (Reply::Integer(1), guards),
    }
}
