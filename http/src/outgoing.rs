//! Tracks which responses the system has accepted.
//!
//! A grant counts as delivered once the system has accepted the last byte of its response, because from then on the
//! client might know of it. Grants whose response was not accepted are released, even if a part of the response is
//! stuck behind others.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use leasehold_base::sync::lock;
use leasehold_engine::Undelivered;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::answers::Sending;

/// The head of an HTTP/2 frame.
const FRAME_HEAD_BYTES: u64 = 9;

/// The pending grants of one connection. Written by the thread that serves it.
#[derive(Default)]
pub(super) struct Outgoing {
    n_accepted: AtomicU64,
    has_grants: AtomicBool,
    grants: Mutex<Grants>,
    is_stalled: AtomicBool,
    stalled_since: Mutex<Option<Instant>>,
    /// Rings when the system stops accepting bytes.
    stall: Notify,
}

#[derive(Default)]
struct Grants {
    handed_over: Vec<PendingGrant>,
    /// Whether the connection has ended.
    is_over: bool,
}

struct PendingGrant {
    kept: Kept,
    accepted: AcceptedAt,
}

/// What is kept until the system has taken an answer.
enum Kept {
    Undelivered(Undelivered),
    Counted(#[allow(dead_code, reason = "its drop gives the bytes back")] Sending),
}

/// How it is known that the system has accepted an answer's last byte.
#[derive(Clone, Copy)]
enum AcceptedAt {
    /// HTTP/1 buffers one response at a time, and its next flush follows only after all of it was written.
    Flushed,
    /// HTTP/2 and pipelines interleave responses. There, a response counts as accepted at this total of bytes: those
    /// accepted before it was handed over, plus its minimum size.
    Counted(u64),
}

impl Outgoing {
    /// Records that the last piece, of this size, of a response with a grant is about to be handed over.
    pub(super) fn hand_over(&self, undelivered: Undelivered, n_bytes: u64, is_shared: bool) {
        let accepted = if is_shared {
            AcceptedAt::Counted(self.n_accepted.load(Relaxed) + FRAME_HEAD_BYTES + n_bytes)
        } else {
            AcceptedAt::Flushed
        };
        self.add(Kept::Undelivered(undelivered), accepted);
    }

    /// Records that the last piece of an HTTP/1 response is about to be handed over. Its bytes count until the system
    /// has accepted them.
    pub(super) fn count(&self, sending: Sending) {
        self.add(Kept::Counted(sending), AcceptedAt::Flushed);
    }

    /// Records that a response with a grant ends after this many further bytes. For protocols that write several
    /// responses in one piece.
    pub(super) fn hand_over_up_to(&self, undelivered: Undelivered, n_bytes: u64) {
        let accepted = AcceptedAt::Counted(self.n_accepted.load(Relaxed) + n_bytes);
        self.add(Kept::Undelivered(undelivered), accepted);
    }

    fn add(&self, kept: Kept, accepted: AcceptedAt) {
        let mut grants = self.grants();
        if grants.is_over {
            return;
        }
        grants.handed_over.push(PendingGrant { kept, accepted });
        self.has_grants.store(true, Relaxed);
    }

    /// Records that the system has accepted this many more bytes.
    pub(super) fn accepted(&self, n_bytes: usize) {
        if n_bytes > 0 && self.is_stalled.load(Relaxed) {
            self.is_stalled.store(false, Relaxed);
            *lock(&self.stalled_since) = None;
        }
        self.n_accepted.store(self.n_accepted.load(Relaxed) + n_bytes as u64, Relaxed);
    }

    /// Records that the system accepts no more bytes, because the client reads none.
    pub(super) fn stalls(&self) {
        if !self.is_stalled.swap(true, Relaxed) {
            *lock(&self.stalled_since) = Some(Instant::now());
            self.stall.notify_one();
        }
    }

    /// Returns when the client has read nothing for this long although bytes were pending.
    pub(super) async fn stalled_for(&self, patience: Duration) {
        loop {
            self.stall.notified().await;
            loop {
                let since = *lock(&self.stalled_since);
                let Some(until) = since.map(|since| since + patience) else { break };
                if until <= Instant::now() {
                    return;
                }
                Box::pin(sleep_until(until)).await;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn n_accepted(&self) -> u64 {
        self.n_accepted.load(Relaxed)
    }

    /// Records that everything handed over to HTTP/1 was written.
    pub(super) fn flushed(&self) {
        if self.has_grants.load(Relaxed) {
            let mut grants = self.grants();
            self.deliver(&mut grants, true);
            self.has_grants.store(!grants.handed_over.is_empty(), Relaxed);
        }
    }

    /// Records the end of the connection. Undelivered grants are released.
    pub(super) fn over(&self) {
        let mut grants = self.grants();
        grants.is_over = true;
        self.deliver(&mut grants, false);
        grants.handed_over.clear();
    }

    fn deliver(&self, grants: &mut Grants, is_flushed: bool) {
        let n_accepted = self.n_accepted.load(Relaxed);
        let is_delivered = |grant: &mut PendingGrant| match grant.accepted {
            AcceptedAt::Flushed => is_flushed,
            AcceptedAt::Counted(n_bytes) => n_accepted >= n_bytes,
        };
        for grant in grants.handed_over.extract_if(.., is_delivered) {
            if let Kept::Undelivered(undelivered) = grant.kept {
                undelivered.delivered();
            }
        }
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        lock(&self.grants)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Options;
    use crate::answers::Answers;
    use leasehold_auth::shares::Client;

    #[test]
    fn a_large_response_counts_until_the_system_has_taken_it() {
        let answers = Answers::new(&Options::default(), Arc::default());
        let whole = |n_bytes| answers.whole(&Client::any(), n_bytes, false).expect("there is room");
        assert!(whole(16 * 1024).is_none(), "small responses do not count");
        for is_taken in [true, false] {
            let outgoing = Outgoing::default();
            outgoing.count(whole(100_000).expect("it counts"));
            assert_eq!(answers.n_long_bytes(), 100_000);
            if is_taken {
                outgoing.flushed()
            } else {
                outgoing.over()
            }
            assert_eq!(answers.n_long_bytes(), 0, "{is_taken}");
        }
    }
}
