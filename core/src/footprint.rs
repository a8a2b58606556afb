//! How much memory what clients send takes up, by what it is for: each kind has a budget of its own.
//!
//! Counted are texts and what grows with them. What a lock or a lease takes by itself is bounded by how many there
//! may be.

use std::ops::{AddAssign, SubAssign};

use crate::lease::{Lease, Phase};
use crate::request::Request;

/// What a waiting lease takes up in its queue, about.
pub(crate) const WAITER_BYTES: usize = 256;
/// What an ended lease takes up beside its texts, about.
pub(crate) const ENDED_BYTES: usize = 192;
/// What a remembered request takes up beside its id, about.
const REQUEST_BYTES: usize = 64;

/// Bytes, by what they are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Metadata of waiting and active leases.
    pub metadata: usize,
    /// Names of locks, namespaces and owners.
    pub names: usize,
    /// Request ids, and the ended leases that only answer for them.
    pub requests: usize,
    /// Waiting leases.
    pub queues: usize,
    /// Ended leases that stay readable.
    pub ended: usize,
}

impl Footprint {
    /// What a lease takes up. Its names are counted where they are kept.
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

/// What a remembered request takes up.
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
