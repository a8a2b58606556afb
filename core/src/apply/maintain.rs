//! Maintenance: nothing new is granted to whoever asks from now on. What is held can be renewed and released, and
//! whoever
//! waits already keeps its place and its turn.

use crate::change::Change;
use crate::command::Maintain;
use crate::outcome::Rejection;
use crate::transition::Transition;

pub(crate) fn maintain(t: &mut Transition<'_>, maintain: &Maintain) -> Result<(), Rejection> {
    let Maintain { on } = *maintain;
    if t.state.maintenance != on {
        t.record(Change::Maintenance { on });
    }
    Ok(())
}

/// That an acquire may take or queue for anything.
pub(crate) fn check(t: &Transition<'_>) -> Result<(), Rejection> {
    if t.state.maintenance { Err(Rejection::Maintenance) } else { Ok(()) }
}
