//! Counts the memory that data from clients takes, by purpose. Each purpose has its own budget.
//!
//! Only texts and the structures that grow with them are counted. The fixed size of locks and leases is bounded by
//! limits on their number.

use std::ops::{AddAssign, SubAssign};

use crate::lease::{Lease, Phase};
use crate::request::Request;

/// The approximate size of a waiting lease in its queue.
pub(crate) const WAITER_BYTES: usize = 256;
/// The approximate size of an ended lease without its texts.
pub(crate) const ENDED_BYTES: usize = 192;
/// The approximate size of a remembered request without its id.
const REQUEST_BYTES: usize = 64;

/// Bytes, by purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// The metadata of waiting and active leases.
    pub metadata: usize,
    /// The names of locks, namespaces and owners.
    pub names: usize,
    /// Request ids, and the ended leases kept only to answer repeated requests.
    pub requests: usize,
    /// Waiting leases.
    pub queues: usize,
    /// Ended leases that stay readable.
    pub ended: usize,
}

impl Footprint {
    /// Returns the bytes of a lease without its names, which are counted where they are stored.
    pub(crate) fn of(lease: &Lease) -> Self {
        let mut footprint = Self::default();
        if let Some(extra) = &lease.extra {
            footprint.metadata = extra.metadata.as_ref().map_or(0, |metadata| metadata.len());
            footprint.requests = extra.requests.iter().map(request_bytes).sum();
        }
        match lease.phase {
            Phase::Active => {}
            Phase::Waiting | Phase::Parked => footprint.queues = WAITER_BYTES,
            Phase::Ended(_) if lease.keep => {
                let reason = lease.extra.as_ref().and_then(|extra| extra.reason.as_ref());
                let reason = reason.map_or(0, |reason| reason.len());
                let ended = ENDED_BYTES + footprint.metadata + footprint.requests + reason;
                footprint = Self { ended, ..Self::default() };
            }
            Phase::Ended(_) => footprint.requests += ENDED_BYTES,
        }
        footprint
    }
}

/// Returns the bytes of a remembered request.
pub(crate) fn request_bytes(request: &Request) -> usize {
    REQUEST_BYTES + request.id.len()
}

impl AddAssign for Footprint {
    fn add_assign(&mut self, other: Self) {
        self.metadata += other.metadata;
        self.names += other.names;
        self.requests += other.requests;
        self.queues += other.queues;
        self.ended += other.ended;
    }
}

impl SubAssign for Footprint {
    fn sub_assign(&mut self, other: Self) {
        self.metadata -= other.metadata;
        self.names -= other.names;
        self.requests -= other.requests;
        self.queues -= other.queues;
        self.ended -= other.ended;
    }
}
