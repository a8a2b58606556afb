//! Queued requests.

use std::sync::Arc;
use std::time::Instant;

use leasehold_core::Asker;

use super::ask::Question;
use super::mailbox::ReplyTo;
use super::metrics::Op;

/// A queued request.
pub(crate) struct Asked {
    pub(super) question: Question,
    /// The caller, if changes are recorded with their callers.
    pub(super) asker: Option<Arc<Asker>>,
    pub(super) ticket: Ticket,
    pub(super) reply_to: ReplyTo,
    pub(super) sent_at: Instant,
}

/// Identifies a request while it waits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Ticket(pub(super) u64);

impl Op {
    /// Returns the operation that a request is counted as.
    #[inline]
    pub(super) fn of(question: &Question) -> Option<Self> {
        match question {
            Question::Apply(command) => Op::of_command(command),
            Question::Read(_) => None,
        }
    }
}
