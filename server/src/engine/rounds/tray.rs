//! Answers on their way from a round to a worker.

use super::{Bell, lock};
use crate::sync::Mutex;

/// The answers for one worker's connections. It is woken once for all that a round has for it.
pub(crate) struct Tray<L> {
    letters: Mutex<Vec<L>>,
    /// Wakes whoever hands them out.
    pub(crate) bell: Bell,
}

impl<L> Default for Tray<L> {
    fn default() -> Self {
        Self { letters: Mutex::new(Vec::new()), bell: Bell::default() }
    }
}

impl<L> Tray<L> {
    /// Empties a list into it.
    pub(crate) fn put(&self, letters: &mut Vec<L>) {
        lock(&self.letters).append(letters);
        self.bell.ring();
    }

    /// Everything in it, into an empty list. The room it has is made use of again.
    pub(crate) fn take(&self, letters: &mut Vec<L>) {
        std::mem::swap(letters, &mut lock(&self.letters));
    }
}
