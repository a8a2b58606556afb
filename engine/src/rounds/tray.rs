//! Replies on their way from a round to a worker.

use super::Bell;
use crate::sync::{Mutex, lock};

/// The replies for one worker's connections. The worker is woken once for all replies of a round.
pub(crate) struct Tray<A> {
    answers: Mutex<Vec<A>>,
    /// Wakes the task that delivers the replies.
    pub bell: Bell,
}

impl<A> Default for Tray<A> {
    fn default() -> Self {
        Self { answers: Mutex::new(Vec::new()), bell: Bell::default() }
    }
}

impl<A> Tray<A> {
    /// Adds the replies and empties the list.
    pub(crate) fn put(&self, answers: &mut Vec<A>) {
        lock(&self.answers).append(answers);
        self.bell.ring();
    }

    /// Moves all replies into an empty list, whose memory is reused.
    pub(crate) fn take(&self, answers: &mut Vec<A>) {
        std::mem::swap(answers, &mut lock(&self.answers));
    }
}
