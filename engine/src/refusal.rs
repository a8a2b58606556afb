//! What is refused before it is applied: nothing more is taken while there is no room for it, or nobody could write it
//! down.

use leasehold_core::{Acquire, Command};

use super::ask::Question;
use super::message::Error;
use super::writer::Writer;

impl Writer {
    /// Why nothing more can be taken, if that is so.
    pub(super) fn no_room(&self) -> Option<Error> {
        if self.health.n_bytes() >= self.options.journal_bytes_max {
            return Some(Error::JournalFull);
        }
        self.health.is_short().then(|| match self.is_remote {
            false => Error::DiskFull,
            true if self.health.room().is_out => Error::StoreAlarmed,
            true => Error::StoreFull,
        })
    }

    /// Would it do what has to be in the audit file, while nothing can be written there?
    pub(super) fn is_unaudited(&self, question: &Question) -> bool {
        let Some((audit, _)) = &self.options.audit else { return false };
        audit.refuses() && question.must_be_told() && !self.is_renewal(question)
    }

    /// Does whoever asks have it already? Where a lock is sticky, asking again is renewing.
    pub(super) fn is_renewal(&self, question: &Question) -> bool {
        let Question::Apply(Command::Acquire(acquire)) = question else { return false };
        let Acquire { lock, owner, dialect, sticky, .. } = acquire;
        *sticky && self.machine.is_held_by(lock, owner, *dialect)
    }
}
