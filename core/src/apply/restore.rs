//! Resets the state after a restore from a backup, so that no token or number issued since the backup is issued again.

use crate::change::Change;
use crate::mutant;
use crate::transition::Transition;

/// The amount by which a restore raises tokens and numbers. No server issues that many after one backup.
const RAISE: u64 = 1 << 40;

pub(crate) fn restore(t: &mut Transition<'_>) {
    let raise = if mutant!(IdsReusedAfterRestore) { 0 } else { RAISE };
    t.record(Change::Restored { raise });
}
