//! Every bound there is, in one place. Nothing in the machine grows past one of these.

use crate::command::{Acquire, OpenSession};
use crate::name::{LockKey, Owner};
use crate::outcome::{Limit, Rejection};
use crate::time::Span;

/// What a machine allows. [`Limits::default`] suits a server that strangers may talk to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Longest namespace, in bytes.
    pub namespace_bytes_max: usize,
    /// Longest lock name, in bytes.
    pub name_bytes_max: usize,
    /// Longest principal and longest instance of an owner, in bytes each.
    pub owner_bytes_max: usize,
    /// Longest request id, in bytes.
    pub request_id_bytes_max: usize,
    /// Largest metadata, in bytes.
    pub metadata_bytes_max: usize,
    /// Longest reason of a revocation, in bytes.
    pub reason_bytes_max: usize,
    /// Longest ttl of a lease.
    pub ttl_max: Span,
    /// Longest ttl of a session.
    pub session_ttl_max: Span,
    /// Longest grace period.
    pub grace_max: Span,
    /// Longest wait in a queue.
    pub wait_max: Span,
    /// How long a parked waiter keeps its place, if its wait lasts that long.
    pub park_max: Span,
    /// Most namespaces.
    pub namespaces_max: usize,
    /// Most locks that are held, waited for or remembered.
    pub locks_max: usize,
    /// Most leases waiting or active of one owner.
    pub owner_leases_max: u32,
    /// Most sessions of one owner.
    pub owner_sessions_max: u32,
    /// Most sessions.
    pub sessions_max: usize,
    /// Most waiters for one lock.
    pub queue_max: usize,
    /// Most holders of one lock, and so the largest count of a counted one.
    pub holders_max: u32,
    /// Most request ids remembered with one lease; the oldest renewals make room.
    pub lease_requests_max: usize,
    /// How long an ended lease answers repeated request ids.
    pub request_retention: Span,
    /// Most ended leases kept only to answer repeated request ids.
    pub answered_max: usize,
    /// How long an ended lease whose command asked for it stays readable.
    pub ended_retention: Span,
    /// Most ended leases kept readable.
    pub ended_max: usize,
    /// How long a lock nobody uses is remembered by name.
    pub idle_retention: Span,
    /// Most locks nobody uses that are remembered by name.
    pub idle_max: usize,
    /// Most waiters one command grants or gives up; the rest is for the next sweep.
    pub promote_steps_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const HOUR: Span = Span::from_secs(3600);
        const DAY: Span = Span::from_secs(24 * 3600);
        Self {
            namespace_bytes_max: 128,
            name_bytes_max: 512,
            owner_bytes_max: 256,
            request_id_bytes_max: 128,
            metadata_bytes_max: 16 * 1024,
            reason_bytes_max: 1024,
            ttl_max: DAY,
            session_ttl_max: Span::from_secs(30 * 24 * 3600),
            grace_max: HOUR,
            wait_max: DAY,
            park_max: Span::from_secs(10),
            namespaces_max: 10_000,
            locks_max: 10_000_000,
            owner_leases_max: 2_000_000,
            owner_sessions_max: 10_000,
            sessions_max: 1_000_000,
            queue_max: 100_000,
            holders_max: 10_000,
            lease_requests_max: 64,
            request_retention: Span::from_secs(600),
            answered_max: 1_000_000,
            ended_retention: HOUR,
            ended_max: 100_000,
            idle_retention: DAY,
            idle_max: 100_000,
            promote_steps_max: 256,
        }
    }
}

impl Limits {
    pub(crate) fn check_acquire(&self, acquire: &Acquire) -> Result<(), Rejection> {
        self.check_key(&acquire.lock)?;
        self.check_owner(&acquire.owner)?;
        within(Limit::Ttl, acquire.ttl.unwrap_or_default() <= self.ttl_max)?;
        let grace_ms = u32::try_from(acquire.grace.as_millis());
        within(Limit::Grace, acquire.grace <= self.grace_max && grace_ms.is_ok())?;
        within(Limit::Wait, acquire.wait.span() <= self.wait_max)?;
        let metadata_bytes = acquire.metadata.as_ref().map_or(0, |metadata| metadata.len());
        within(Limit::Metadata, metadata_bytes <= self.metadata_bytes_max)?;
        self.check_request_id(acquire.request_id.as_deref())?;
        match acquire.mode {
            crate::lease::Mode::Counted(n) => {
                within(Limit::Holders, (1..=self.holders_max).contains(&n))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_session(&self, open: &OpenSession) -> Result<(), Rejection> {
        self.check_owner(&open.owner)?;
        within(Limit::SessionTtl, open.ttl > Span::ZERO && open.ttl <= self.session_ttl_max)
    }

    pub(crate) fn check_request_id(&self, id: Option<&str>) -> Result<(), Rejection> {
        within(Limit::RequestId, id.is_none_or(|id| fits(id, self.request_id_bytes_max)))
    }

    pub(crate) fn check_key(&self, key: &LockKey) -> Result<(), Rejection> {
        within(Limit::Namespace, fits(&key.namespace, self.namespace_bytes_max))?;
        within(Limit::Name, fits(&key.name, self.name_bytes_max))
    }

    fn check_owner(&self, owner: &Owner) -> Result<(), Rejection> {
        let fits = |name| fits(name, self.owner_bytes_max);
        within(Limit::Owner, fits(&owner.principal) && fits(&owner.instance))
    }
}

pub(crate) fn within(limit: Limit, holds: bool) -> Result<(), Rejection> {
    if holds { Ok(()) } else { Err(Rejection::Limit(limit)) }
}

fn fits(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len())
}
