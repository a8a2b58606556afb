//! A question on its way.

use std::sync::Arc;
use std::time::Instant;

use leasehold_core::Asker;

use super::ask::Question;
use super::mailbox::ReplyTo;
use super::metrics::Op;

/// One question on its way.
pub(crate) struct Asked {
    pub(super) question: Question,
    /// On whose word, if that is written down.
    pub(super) asker: Option<Arc<Asker>>,
    pub(super) ticket: Ticket,
    pub(super) reply_to: ReplyTo,
    pub(super) sent_at: Instant,
}

/// Tells requests apart while they wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Ticket(pub(super) u64);

impl Op {
    /// Which operation a question counts as.
    #[inline]
    pub(super) fn of(question: &Question) -> Option<Self> {
        match question {
            Question::Apply(command) => Op::of_command(command),
            Question::Read(_) => None,
        }
    }
}
