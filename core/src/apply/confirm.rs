//! Checks whether a lease is active.

use super::acquire::in_the_way;
use super::proof::{check_active, prove};
use crate::command::Confirm;
use crate::lease::LeaseRecord;
use crate::outcome::Rejection;
use crate::transition::Transition;
use crate::view;

/// Returns the record of an active lease, or a rejection that names what blocks a waiting one. The lock was settled
/// before, so a lease that still waits cannot be granted yet.
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
