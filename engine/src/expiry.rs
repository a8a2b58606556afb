//! The remaining time of a lease or session, as responses report it.

use leasehold_base::clock::Instant;
use leasehold_core::Timestamp;

use super::handle::EngineHandle;

/// The time until a deadline, counted from two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expiry {
    /// Counted from when the response is made. This is what people expect.
    pub in_ms: u64,
    /// Counted from when the request was received. A client that adds it to the time at which it *sent* the request
    /// always gives up before the server does, even after a long wait in the queue.
    pub after_send_ms: u64,
}

impl EngineHandle {
    /// Returns the remaining time of something that ends at `deadline`, for the response to a request received at this
    /// instant. Uses the leader's lock time.
    pub fn expiry(&self, deadline: Timestamp, received_at: Instant) -> Expiry {
        Expiry {
            in_ms: deadline.since(self.now()).as_millis(),
            after_send_ms: deadline.since(self.at(received_at)).as_millis(),
        }
    }
}
