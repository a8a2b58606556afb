//! One look at a store: the leader, the end of the journal, and the next records, at one moment.

use std::ops::Deref;

use leasehold_base::clock::Clock;
use leasehold_core::mutant;

use super::backend::{Backend, BackendFailure, Entry, Look};
use super::value::{self, Drained};
use crate::{Error, Place};

/// The result of a look, and when the response was received, by this machine's boottime.
pub(super) struct DatedLook {
    look: Look,
    pub(super) received: u64,
}

impl Deref for DatedLook {
    type Target = Look;

    fn deref(&self) -> &Look {
        &self.look
    }
}

impl DatedLook {
    /// Reads the records from `from` on, as many as fit, and everything else that a node checks regularly.
    pub(super) fn take(
        backend: &dyn Backend,
        clock: &dyn Clock,
        from: u64,
    ) -> Result<Self, BackendFailure> {
        let asked = clock.boottime();
        let look = backend.look(from)?;
        let received = if mutant!(ReceivedWhenAsked) { asked } else { clock.boottime() };
        Ok(Self { look, received })
    }

    /// Returns whether the id of the store still has this value.
    pub(super) fn is_of(&self, id: &[u8]) -> bool {
        self.id.as_ref().is_some_and(|found| found == id)
    }

    /// Returns where the store has moved to, if it has.
    pub(super) fn moved_to(&self) -> Option<String> {
        self.closed.as_deref().map(value::moved_to)
    }

    /// Returns how this node is drained, if it is.
    pub(super) fn drained(&self, node: &str) -> Option<Drained> {
        let (_, word) = self.look.drained.iter().find(|(name, _)| name == node)?;
        let is_all = word == Drained::Wholly.word();
        Some(if is_all { Drained::Wholly } else { Drained::OfLeading })
    }

    /// Returns whether records are missing after this place.
    pub(super) fn is_gap(&self, place: Place) -> bool {
        let first = self.records.all.first();
        first.is_some_and(|(first, _)| *first > place.seq + 1) && !mutant!(ApplyOverGap)
    }

    /// Returns whether the look has shown no record.
    pub(super) fn is_without_records(&self) -> bool {
        self.records.all.is_empty()
    }

    /// Returns the position of the journal's head.
    pub(super) fn place(&self, backend: &dyn Backend) -> Result<Place, Error> {
        let wiped = || {
            format!(
                "the store under {} is missing from {}; restore a backup of it (leasehold restore BACKUP --store ...)",
                backend.location(),
                backend.system()
            )
        };
        let unreadable = |why: &String| value::unreadable(backend, Entry::Head, why);
        let head = self.head.as_ref().map_err(|why| Error::Refused(unreadable(why)))?;
        head.map(|head| head.place).ok_or_else(|| Error::Refused(wiped()))
    }

    /// Returns the version of the store in which the head was last put.
    pub(super) fn head_at(&self) -> i64 {
        self.head.as_ref().ok().copied().flatten().map_or(0, |head| head.at)
    }
}
