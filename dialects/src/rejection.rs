//! Generic messages for rejections, for dialects that have no specific response.

use leasehold_core::{Ending, Rejection};

/// Returns the reason for a rejection.
pub(super) fn in_words(rejection: &Rejection) -> &'static str {
    match rejection {
        Rejection::Held(_) => "the lock is held by another owner",
        Rejection::Grace { .. } => "the lock is reserved for its last owner",
        Rejection::Member { why, .. } => in_words(why),
        Rejection::Repeated { .. } => "a lock is named twice in the request",
        Rejection::Maintenance => "the server is in maintenance",
        Rejection::QueueFull { .. } => "the queue of this lock is full (queue-max)",
        Rejection::LimitDiffers { .. } => "the holders or waiters of this lock use another limit",
        Rejection::RequestConflict => "request_id was used for another request",
        Rejection::RequestSpent(_) => {
            "request_id was used for this before, and its lease has ended"
        }
        Rejection::NoSuchLease | Rejection::NotOwner => {
            "lease not found, or owned by another client"
        }
        Rejection::Ended(Ending::Expired) => "the lease has expired",
        Rejection::Ended(Ending::Released) => "the lease has been released",
        Rejection::Ended(Ending::Revoked) => "the lease has been revoked",
        Rejection::StillWaiting => "the lease is still waiting for its lock",
        Rejection::NoSuchSession => "session not found, or ended",
        Rejection::Limit(_) => "a limit of the server is reached",
        Rejection::TokensExhausted => "this lock has used every fencing token there is",
    }
}
