//! The commands, one to a file: each reads the state, decides, and records what follows.

pub(crate) mod acquire;
pub(crate) mod leave;
pub(crate) mod proof;
pub(crate) mod release;
pub(crate) mod renew;
pub(crate) mod replay;
pub(crate) mod revoke;
pub(crate) mod session;
pub(crate) mod sweep;

use crate::change::Change;
use crate::command::Command;
use crate::mutant;
use crate::outcome::{Outcome, Rejection};
use crate::transition::Transition;

/// By how much a restore raises tokens and numbers: more than any server hands out after one backup.
pub(crate) const RESTORE_RAISE: u64 = 1 << 40;

pub(crate) fn apply(t: &mut Transition<'_>, command: Command) -> Result<Outcome, Rejection> {
    match command {
        Command::Acquire(acquire) => acquire::acquire(t, *acquire),
        Command::Renew(renew) => renew::renew(t, &renew),
        Command::Release(release) => release::release(t, &release),
        Command::Revoke(revoke) => revoke::revoke(t, &revoke),
        Command::Amend(amend) => renew::amend(t, &amend),
        Command::Leave(lease) => Ok(leave::leave(t, lease)),
        Command::OpenSession(open) => session::open(t, open),
        Command::KeepSession(keep) => session::keep(t, &keep),
        Command::CloseSession(close) => session::close(t, &close),
        Command::Settle(lock) => {
            t.limits.check_key(&lock)?;
            if let Some(lock) = t.state.find_lock(&lock) {
                t.settle(lock);
            }
            Ok(Outcome::Done)
        }
        Command::Sweep(n_changes_max) => Ok(Outcome::Swept(sweep::sweep(t, n_changes_max))),
        Command::Resume => Ok(leave::resume(t)),
        Command::Restore => {
            let raise = if mutant!(IdsReusedAfterRestore) { 0 } else { RESTORE_RAISE };
            t.record(Change::Restored { raise });
            Ok(Outcome::Done)
        }
    }
}
