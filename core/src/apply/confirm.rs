//! Is a lease active? One that waits is told who is in the way.

use super::acquire::in_the_way;
use super::proof::{check_active, prove};
use crate::command::Confirm;
use crate::lease::LeaseRecord;
use crate::outcome::Rejection;
use crate::transition::Transition;
use crate::view;

/// Whoever is next has its lock already, because the lock was settled: there is nothing to do for one that waits.
pub(crate) fn confirm(
    t: &mut Transition<'_>,
    asked: &Confirm,
) -> Result<Box<LeaseRecord>, Rejection> {
    let slot = prove(t, &asked.proof, asked.dialect)?;
    match check_active(t, slot) {
        Err(Rejection::StillWaiting) => Err(in_the_way(t, t.state.leases[slot].lock)),
        checked => checked.map(|()| Box::new(view::lease_record(t.state, &t.state.leases[slot]))),
    }
}
