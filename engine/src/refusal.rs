//! What is refused before it is applied: nothing more is taken while there is no room for it, or nobody could write it
//! down.

use leasehold_core::{Command, LeaseView};

use super::ask::Question;
use super::error::Error;
use super::writer::Writer;

impl Writer {
    /// Why nothing more can be taken, if that is so.
    pub(super) fn no_room(&self) -> Option<Error> {
        if self.health.n_bytes() >= self.options.journal_bytes_max {
            return Some(Error::JournalFull);
        }
        self.health.is_short().then(|| self.durability.out_of_space(self.health.room()))
    }

    /// Would it do what has to be in the audit file, while nothing can be written there?
    pub(super) fn is_unaudited(&self, question: &Question) -> bool {
        let Some((audit, _)) = &self.options.audit else { return false };
        audit.refuses() && question.must_be_told() && !self.is_renewal(question)
    }

    /// Does whoever asks have it already? Where a lock is sticky, asking again is renewing.
    pub(super) fn is_renewal(&self, question: &Question) -> bool {
        let Question::Apply(Command::Acquire(acquire)) = question else { return false };
        let is_theirs =
            |holder: &LeaseView| holder.owner == acquire.owner && holder.dialect == acquire.dialect;
        acquire.sticky && self.machine.lock(&acquire.lock, 0).holders.iter().any(is_theirs)
    }
}
