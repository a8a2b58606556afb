//! Ends the owner's own wait.

use super::replay;
use crate::command::Cancel;
use crate::lease::Ending;
use crate::name::LockKey;
use crate::outcome::Rejection;
use crate::request::Operation;
use crate::state::Scope;
use crate::transition::{End, Transition};

/// Ends a waiting lease immediately, together with its group. A lease that was granted in the meantime stays.
pub(crate) fn cancel(t: &mut Transition<'_>, cancel: &Cancel) -> Result<bool, Rejection> {
    t.limits.check_request_id(Some(&cancel.request_id))?;
    t.limits.check_owner(&cancel.owner)?;
    if let Some(name) = &cancel.lock {
        t.limits.check_key(&LockKey::new(cancel.namespace.clone(), &**name))?;
    }
    let scope = Scope {
        namespace: &cancel.namespace,
        owner: &cancel.owner,
        dialect: cancel.dialect,
        operation: Operation::Acquire,
        id: &cancel.request_id,
    };
    let found = t.state.find_request(&scope).map(|(slot, _)| slot);
    let found = found.and_then(|slot| replay::settled(t, slot, &scope));
    let Some(slot) = found.filter(|slot| t.state.is_queued(*slot)) else {
        return Ok(false);
    };
    if let Some(name) = &cancel.lock {
        let mut locks = t.state.together(slot).into_iter().map(|lease| t.state.leases[lease].lock);
        // The lease waits, but not for this lock.
        if !locks.any(|lock| t.state.locks[lock].name == *name) {
            return Ok(false);
        }
    }
    let lock = t.state.leases[slot].lock;
    t.end(slot, End::new(Ending::Released, t.now));
    t.promote(lock);
    Ok(true)
}
