//! The commands of one round and their answers, held back until they are durable.

use std::time::Instant;

use leasehold_core::Effects;

use super::ask::Reply;
use super::error::Error;
use super::mailbox::ReplyTo;
use super::metrics::Op;

/// What a batch changed, and the answers that wait until it is durable.
#[derive(Default)]
pub struct Batch {
    pub(super) effects: Effects,
    pub(super) answers: Vec<Answer>,
    /// About how long its record will be.
    pub(super) n_bytes: usize,
}

/// The answer to one question.
pub(super) struct Answer {
    pub(super) reply_to: ReplyTo,
    pub(super) content: Reply,
    pub(super) op: Option<Op>,
    pub(super) sent_at: Instant,
}

impl Batch {
    /// Answers every question with this error.
    pub(super) fn tell_all(self, error: Error) {
        tell(self.answers, error);
    }

    /// The batch may or may not be durable. Reads changed nothing, so they get an error of their own.
    pub(super) fn tell_unknown(self, lookers: Error) {
        tell_unknown(self.answers, lookers);
    }
}

/// The same for answers without their batch.
pub(super) fn tell_unknown(answers: Vec<Answer>, lookers: Error) {
    let has_looked = |answer: &Answer| matches!(answer.content, Reply::Found(_));
    let (looked, changed) = answers.into_iter().partition(has_looked);
    tell(looked, lookers);
    tell(changed, Error::Unknown);
}

/// Answers with an error.
pub(super) fn tell(answers: Vec<Answer>, error: Error) {
    for answer in answers {
        answer.reply_to.tell(Err(error));
    }
}
