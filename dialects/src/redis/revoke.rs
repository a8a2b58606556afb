//! `DEL`, which revokes locks, and its record in the audit files.

use leasehold_auth::Caller;
use leasehold_core::{LeaseView, LockKey, Revoke, Target};
use leasehold_engine::Call;

use super::lock::{Asked, Asking, Refusal, answered};
use super::party::Party;
use super::reply::Reply;
use crate::grip;
use crate::operator;

/// The reason that is kept with a lease that a caller other than its owner deleted.
const DELETED: &str = "deleted by DEL through the redis dialect";

impl Asking<'_, '_> {
    /// Deletes keys. `DEL` does not prove ownership with the value, so the caller needs the right to revoke.
    pub(super) fn revoke(&mut self, keys: &[&str]) -> Result<Asked, Refusal> {
        self.check_number(keys)?;
        let revoke = |key: &&str| {
            let lock = self.party.lock(key);
            self.party.app.limits.check_key(&lock)?;
            grip::check_revocable(&self.party.app, &lock).map_err(Reply::error)?;
            let revoke = Revoke { target: Target::Lock(lock.clone()), reason: DELETED.into() };
            Ok((lock, self.caller.permit(revoke)?))
        };
        let all = keys.iter().map(revoke).collect::<Result<Vec<_>, Refusal>>()?;
        let ask = |(lock, revoke)| (lock, self.together.ask(revoke));
        let calls = all.into_iter().map(ask).collect();
        Ok(Asked::Revoked(Box::new(Revoking { caller: self.caller.clone(), calls })))
    }
}

/// Revocations that were sent to the engine, each with its lock.
pub(super) struct Revoking {
    caller: Caller,
    calls: Vec<(LockKey, Call<Revoke>)>,
}

impl Revoking {
    /// Returns the number of locks that were held, or the first error.
    pub(super) async fn answer(self, party: &Party) -> Reply {
        let (mut n_held, mut wrong) = (0, None);
        for (lock, call) in self.calls {
            let number = |ended: Vec<_>| {
                note(party, &self.caller, (&lock, &ended), DELETED);
                i64::from(!ended.is_empty())
            };
            match answered(call.await, number) {
                Reply::Integer(n) => n_held += n,
                other => wrong = wrong.or(Some(other)),
            }
        }
        wrong.unwrap_or(Reply::Integer(n_held))
    }
}

/// Writes to the audit files that these leases of a lock were revoked, if one of them belongs to another principal.
pub(super) fn note(
    party: &Party,
    caller: &Caller,
    (lock, of): (&LockKey, &[LeaseView]),
    reason: &str,
) {
    if operator::is_from_others(caller, of) {
        operator::note_revoked(&party.app, caller, lock, reason);
    }
}
