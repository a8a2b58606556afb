//! Refusals before a command is applied: no new locks while the store is full, and no changes while they cannot be
//! audited.

use leasehold_core::{Acquire, Command};

use super::ask::Question;
use super::error::Error;
use super::writer::Writer;

impl Writer {
    /// Returns why no new locks can be granted; `None` if they can.
    pub(super) fn no_room(&self) -> Option<Error> {
        if self.health.n_bytes() >= self.options.journal_bytes_max {
            return Some(Error::JournalFull);
        }
        self.health.is_short().then(|| self.durability.out_of_space(self.health.room()))
    }

    /// Returns whether the request must be audited but the audit file cannot be written.
    pub(super) fn is_unaudited(&self, question: &Question) -> bool {
        let Some((audit, _)) = &self.options.audit else { return false };
        audit.refuses() && question.must_be_told() && !self.is_renewal(question)
    }

    /// Returns whether the request only renews a lease. For a sticky lock, acquiring it again renews it.
    pub(super) fn is_renewal(&self, question: &Question) -> bool {
        let Question::Apply(Command::Acquire(acquire)) = question else { return false };
        let Acquire { lock, owner, dialect, sticky, .. } = acquire;
        *sticky && self.machine.is_held_by(lock, owner, *dialect)
    }
}
