//! The state comes from a backup: nothing handed out since may be handed out again.

use crate::change::Change;
use crate::mutant;
use crate::transition::Transition;

/// By how much a restore raises tokens and numbers: more than any server hands out after one backup.
const RAISE: u64 = 1 << 40;

pub(crate) fn restore(t: &mut Transition<'_>) {
    let raise = if mutant!(IdsReusedAfterRestore) { 0 } else { RAISE };
    t.record(Change::Restored { raise });
}
