//! Brings a lock up to date before it is read.

use crate::name::LockKey;
use crate::outcome::Rejection;
use crate::transition::Transition;

pub(crate) fn settle(t: &mut Transition<'_>, key: &LockKey) -> Result<(), Rejection> {
    t.limits.check_key(key)?;
    if let Some(lock) = t.state.find_lock(key) {
        t.settle(lock);
    }
    Ok(())
}
