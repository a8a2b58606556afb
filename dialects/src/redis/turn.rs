//! Commands that read before they write: no other command of the connection is sent to the engine in the meantime.

use leasehold_auth::{Caller, Right};
use leasehold_core::{Extend, LeaseView, LockKey, Mode, Proof, Renew, Revoke, Span, Target};

use super::command::Command;
use super::lock::{Refusal, is_ours, read, span};
use super::party::Party;
use super::refusal::is_no;
use super::reply::Reply;
use super::revoke;
use super::script::Script;
use crate::{Dialect, grip, name_of, owner};

/// The reason that is kept with a lease that a caller other than its owner let expire immediately.
const EXPIRED: &str = "expired by PEXPIRE through the redis dialect";
/// The reason in the audit files for a lease whose expiry was set by a caller other than its owner.
const SHORTENED: &str = "expiry set by PEXPIRE through the redis dialect";

impl Command<'_> {
    /// Returns whether the command must run alone on its connection.
    pub(super) fn takes_turn(&self) -> bool {
        match self {
            Command::Auth(_) | Command::Hello(..) | Command::Expire(..) => true,
            // Replacing an expiry requires a read first, to check that there is one.
            Command::Run(Script::Extend, _, arguments) => arguments[2] != "0",
            _ => false,
        }
    }
}

/// Runs a command that reads first.
pub(super) async fn take(
    party: &Party,
    caller: &Caller,
    command: Command<'_>,
) -> Result<Reply, Refusal> {
    match command {
        Command::Expire(key, ttl) => expire(party, caller, key, ttl).await,
        Command::Run(Script::Extend, keys, arguments) => {
            replace(party, caller, keys[0], &arguments).await
        }
        _ => Ok(Reply::Nil),
    }
}

/// `PEXPIRE`: it does not prove ownership with the value, so the caller needs the right to revoke.
async fn expire(
    party: &Party,
    caller: &Caller,
    key: &str,
    ttl: Option<Span>,
) -> Result<Reply, Refusal> {
    let (lock, holders) = match holders(party, caller, key).await? {
        Ok(found) => found,
        Err(reply) => return Ok(reply),
    };
    let Some(lease) = holders.first() else { return Ok(Reply::Integer(0)) };
    let Some(ttl) = ttl else {
        grip::check_revocable(&party.app, &lock).map_err(Reply::error)?;
        let revoke = Revoke { target: Target::Lock(lock.clone()), reason: EXPIRED.into() };
        return Ok(match party.app.engine.ask(caller.permit(revoke)?).await {
            Ok(Ok(ended)) => {
                revoke::note(party, caller, (&lock, &ended), EXPIRED);
                Reply::Integer(i64::from(!ended.is_empty()))
            }
            Ok(Err(rejection)) => rejection.into(),
            Err(error) => error.into(),
        });
    };
    if !is_ours(lease) {
        let dialect = name_of(lease.dialect);
        return Ok(Reply::error(format_args!(
            "this lock is held through {dialect}, where its holder renews it"
        )));
    }
    if lease.mode != Mode::Exclusive {
        return Ok(Reply::error("each holder of a semaphore renews its own place"));
    }
    let proof = Proof::Number { number: lease.id.number, principal: None };
    let permitted = caller.permit_on(Right::Revoke, [&lock], renew(proof, ttl))?;
    Ok(match party.app.engine.ask(permitted).await {
        Ok(Ok(lease)) => {
            revoke::note(party, caller, (&lock, &[*lease]), SHORTENED);
            Reply::Integer(1)
        }
        Ok(Err(rejection)) if is_no(&rejection) => Reply::Integer(0),
        Ok(Err(rejection)) => rejection.into(),
        Err(error) => error.into(),
    })
}

/// Extends a lock that the client holds and that has an expiry. In between, other clients can change the lease only
/// by ending it.
async fn replace(
    party: &Party,
    caller: &Caller,
    key: &str,
    arguments: &[&str],
) -> Result<Reply, Refusal> {
    let (owner, ttl) = (owner::of(caller, arguments[0]), span(arguments[1])?);
    party.app.limits.check_owner(&owner)?;
    let (lock, holders) = match holders(party, caller, key).await? {
        Ok(found) => found,
        Err(reply) => return Ok(reply),
    };
    let mut own = holders.iter().filter(|lease| is_ours(lease) && lease.owner == owner);
    if !own.any(|lease| lease.deadline.is_some()) {
        return Ok(Reply::Integer(0));
    }
    let permitted = caller.permit(renew(Proof::Owner { lock, owner }, ttl))?;
    Ok(match party.app.engine.ask(permitted).await {
        Ok(Ok(_)) => Reply::Integer(1),
        Ok(Err(rejection)) if is_no(&rejection) => Reply::Integer(0),
        Ok(Err(rejection)) => rejection.into(),
        Err(error) => error.into(),
    })
}

fn renew(proof: Proof, ttl: Span) -> Renew {
    let (dialect, extend) = (Dialect::Redis.number(), Extend::Exactly(ttl));
    Renew { proof, dialect, extend, request_id: None }
}

/// Returns the lock and its holders, or the reply if they cannot be read.
async fn holders(
    party: &Party,
    caller: &Caller,
    key: &str,
) -> Result<Result<(LockKey, Vec<LeaseView>), Reply>, Refusal> {
    let (lock, call) = read(party, caller, key)?;
    Ok(match call.await {
        Ok(Ok(view)) => Ok((lock, view.holders)),
        Ok(Err(rejection)) => Err(rejection.into()),
        Err(error) => Err(error.into()),
    })
}
