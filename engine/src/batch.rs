//! The commands of one round and their replies, which wait until the commands are durable.

use std::time::Instant;

use leasehold_core::Effects;

use super::ask::Reply;
use super::error::Error;
use super::mailbox::ReplyTo;
use super::metrics::Op;

/// The effects of a batch, and the replies that wait until it is durable.
#[derive(Default)]
pub struct Batch {
    pub(super) effects: Effects,
    pub(super) answers: Vec<Answer>,
    /// The approximate size of its journal record.
    pub(super) n_bytes: usize,
}

/// The reply to one request.
pub(super) struct Answer {
    pub(super) reply_to: ReplyTo,
    pub(super) content: Reply,
    pub(super) op: Option<Op>,
    pub(super) sent_at: Instant,
}

impl Batch {
    /// Replies to every request with this error.
    pub(super) fn tell_all(self, error: Error) {
        tell(self.answers, error);
    }

    /// Fails all requests because the batch might or might not be durable. Reads changed nothing, so they fail with the
    /// error `lookers`.
    pub(super) fn tell_unknown(self, lookers: Error) {
        tell_unknown(self.answers, lookers);
    }
}

/// Fails the requests of these replies, because their batch might or might not be durable. Reads fail with the error
/// `lookers`.
pub(super) fn tell_unknown(answers: Vec<Answer>, lookers: Error) {
    let has_looked = |answer: &Answer| matches!(answer.content, Reply::Found(_));
    let (looked, changed) = answers.into_iter().partition(has_looked);
    tell(looked, lookers);
    tell(changed, Error::Unknown);
}

/// Fails the requests with this error.
pub(super) fn tell(answers: Vec<Answer>, error: Error) {
    for answer in answers {
        answer.reply_to.tell(Err(error));
    }
}
