//! Answers on their way from a round to a worker.

use super::Bell;
use crate::sync::{Mutex, lock};

/// The answers for one worker's connections. It is woken once for all that a round has for it.
pub(crate) struct Tray<A> {
    answers: Mutex<Vec<A>>,
    /// Wakes whoever hands them out.
    pub bell: Bell,
}

impl<A> Default for Tray<A> {
    fn default() -> Self {
        Self { answers: Mutex::new(Vec::new()), bell: Bell::default() }
    }
}

impl<A> Tray<A> {
    /// Empties a list into it.
    pub(crate) fn put(&self, answers: &mut Vec<A>) {
        lock(&self.answers).append(answers);
        self.bell.ring();
    }

    /// Everything in it, into an empty list. The room it has is made use of again.
    pub(crate) fn take(&self, answers: &mut Vec<A>) {
        std::mem::swap(answers, &mut lock(&self.answers));
    }
}
