//! What an answer tells of a deadline.

use leasehold_base::clock::Instant;
use leasehold_core::Timestamp;

use super::handle::EngineHandle;

/// How long something lasts, counted from two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// From the moment the answer is made: what whoever reads it expects.
    pub in_ms: u64,
    /// From the moment the request was received: a client that adds it to the time it *sent* the request always gives
    /// up before the server does, also after a long wait in the queue.
    pub after_send_ms: u64,
}

impl EngineHandle {
    /// Of something that ends at `deadline`, in the answer to what was received at this instant, by the lock time of
    /// whoever leads now.
    pub fn expiry(&self, deadline: Timestamp, received_at: Instant) -> Expiry {
        Expiry {
            in_ms: deadline.since(self.now()).as_millis(),
            after_send_ms: deadline.since(self.at(received_at)).as_millis(),
        }
    }
}
