//! Maintenance mode: new acquires are refused. Held locks can be renewed and released, and clients that already wait
//! keep their place and their turn.

use crate::change::Change;
use crate::command::{Acquire, Maintain};
use crate::outcome::Rejection;
use crate::share;
use crate::transition::Transition;

pub(crate) fn maintain(t: &mut Transition<'_>, maintain: &Maintain) -> Result<(), Rejection> {
    let Maintain { on } = *maintain;
    if t.state.maintenance != on {
        t.record(Change::Maintenance { on });
    }
    Ok(())
}

/// Refuses an acquire in maintenance mode, except one for shares only: the holder of a lock on a path needs shares to
/// write under that lock.
pub(crate) fn check(t: &Transition<'_>, each: &[Acquire]) -> Result<(), Rejection> {
    let is_new = |acquire: &Acquire| !share::is_share(acquire.dialect, &acquire.lock.name);
    if t.state.maintenance && each.iter().any(is_new) {
        return Err(Rejection::Maintenance);
    }
    Ok(())
}
