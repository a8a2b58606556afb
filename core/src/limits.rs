//! Every bound there is, in one place. Nothing in the machine grows past one of these.

use crate::command::{Acquire, OpenSession};
use crate::lease::Mode;
use crate::name::{LockKey, Owner};
use crate::outcome::{Exceeded, Limit, Rejection};
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
    /// Deepest nesting of metadata. The core does not look into it: whoever knows its format keeps this.
    pub metadata_depth_max: usize,
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
    /// The same after a restart or a leader change, which parks every waiter.
    pub resume_park_max: Span,
    /// Most namespaces.
    pub namespaces_max: usize,
    /// Most locks that are held, waited for or remembered.
    pub locks_max: usize,
    /// Most leases waiting or active of one principal; of those nobody vouches for, from one peer.
    pub principal_leases_max: u32,
    /// Most namespaces one principal, or peer, brought up.
    pub principal_namespaces_max: u32,
    /// Most sessions of one principal, or peer, in one dialect.
    pub principal_sessions_max: u32,
    /// Most sessions in one dialect: none takes the room of another.
    pub sessions_max: usize,
    /// Most bytes of metadata of all waiting and active leases.
    pub metadata_total_bytes_max: usize,
    /// Most bytes of names of locks, namespaces and owners.
    pub names_total_bytes_max: usize,
    /// Most bytes of request ids and of the ended leases that answer for them; the oldest of these make room.
    pub requests_total_bytes_max: usize,
    /// Most bytes of waiting leases.
    pub queues_total_bytes_max: usize,
    /// Maximum bytes of metadata of the leases of one principal, or peer.
    pub principal_metadata_bytes_max: usize,
    /// Maximum bytes of names that the leases of one principal, or peer, need; its ended leases make room.
    pub principal_names_bytes_max: usize,
    /// Maximum bytes of request ids of one principal, or peer, and of the ended leases that answer for them; the oldest
    /// make room.
    pub principal_requests_bytes_max: usize,
    /// Maximum bytes of waiting leases of one principal, or peer.
    pub principal_queues_bytes_max: usize,
    /// Maximum ended leases of one principal, or peer, that are kept only to answer repeated request ids.
    pub principal_answered_max: usize,
    /// Maximum ended leases of one principal, or peer, that stay readable.
    pub principal_ended_max: usize,
    /// Maximum bytes of ended leases of one principal, or peer, that stay readable; the oldest make room.
    pub principal_ended_bytes_max: usize,
    /// Most waiters for one lock.
    pub queue_max: usize,
    /// Most holders of one lock, and so the largest count of a counted one.
    pub holders_max: u32,
    /// Most locks or leases in one request.
    pub group_max: usize,
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
    /// Most bytes of ended leases kept readable; the oldest make room.
    pub ended_total_bytes_max: usize,
    /// How long a lock nobody uses is remembered by name.
    pub idle_retention: Span,
    /// Most locks nobody uses that are remembered by name.
    pub idle_max: usize,
    /// Most waiters one command grants or gives up; the rest is for the next sweep.
    pub promote_steps_max: usize,
    /// A lease held for so long is noted; zero: none is.
    pub held_warn: Span,
    /// A lease that has waited for so long is noted; zero: none is.
    pub wait_warn: Span,
    /// A lease that has waited for so long is looked at for a deadlock, and again each time its wait has doubled; zero:
    /// none is.
    pub deadlock_after: Span,
    /// Most waits that are followed for one such look.
    pub deadlock_edges_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        const HOUR: Span = Span::from_secs(3600);
        const DAY: Span = Span::from_secs(24 * 3600);
        const MIB: usize = 1 << 20;
        Self {
            namespace_bytes_max: 128,
            name_bytes_max: 512,
            owner_bytes_max: 256,
            request_id_bytes_max: 128,
            metadata_bytes_max: 16 * 1024,
            metadata_depth_max: 64,
            reason_bytes_max: 1024,
            ttl_max: DAY,
            session_ttl_max: Span::from_secs(30 * 24 * 3600),
            grace_max: HOUR,
            wait_max: DAY,
            park_max: Span::from_secs(10),
            resume_park_max: Span::from_secs(60),
            namespaces_max: 10_000,
            locks_max: 10_000_000,
            principal_leases_max: 2_000_000,
            principal_namespaces_max: 1_000,
            principal_sessions_max: 10_000,
            sessions_max: 250_000,
            metadata_total_bytes_max: 256 * MIB,
            names_total_bytes_max: 512 * MIB,
            requests_total_bytes_max: 256 * MIB,
            queues_total_bytes_max: 128 * MIB,
            principal_metadata_bytes_max: 64 * MIB,
            principal_names_bytes_max: 256 * MIB,
            principal_requests_bytes_max: 128 * MIB,
            principal_queues_bytes_max: 32 * MIB,
            principal_answered_max: 500_000,
            principal_ended_max: 50_000,
            principal_ended_bytes_max: 32 * MIB,
            queue_max: 100_000,
            holders_max: 10_000,
            group_max: 64,
            lease_requests_max: 64,
            request_retention: Span::from_secs(600),
            answered_max: 1_000_000,
            ended_retention: HOUR,
            ended_max: 100_000,
            ended_total_bytes_max: 64 * MIB,
            idle_retention: DAY,
            idle_max: 100_000,
            promote_steps_max: 256,
            held_warn: Span::ZERO,
            wait_warn: Span::ZERO,
            deadlock_after: Span::from_secs(1),
            deadlock_edges_max: 200,
        }
    }
}

impl Limits {
    /// What a limit allows: bytes, milliseconds, or how many.
    pub fn allowed(&self, limit: Limit) -> u64 {
        let number = |n: usize| n as u64;
        match limit {
            Limit::Namespace => number(self.namespace_bytes_max),
            Limit::Name => number(self.name_bytes_max),
            Limit::Owner => number(self.owner_bytes_max),
            Limit::RequestId => number(self.request_id_bytes_max),
            Limit::Metadata => number(self.metadata_bytes_max),
            Limit::Reason => number(self.reason_bytes_max),
            Limit::Ttl => self.ttl_max.as_millis(),
            Limit::SessionTtl => self.session_ttl_max.as_millis(),
            Limit::Grace => self.grace_max.as_millis(),
            Limit::Wait => self.wait_max.as_millis(),
            Limit::Holders => self.holders_max.into(),
            Limit::Namespaces => number(self.namespaces_max),
            Limit::Locks => number(self.locks_max),
            Limit::PrincipalLeases => self.principal_leases_max.into(),
            Limit::PrincipalNamespaces => self.principal_namespaces_max.into(),
            Limit::PrincipalSessions => self.principal_sessions_max.into(),
            Limit::Sessions => number(self.sessions_max),
            Limit::MetadataTotal => number(self.metadata_total_bytes_max),
            Limit::NamesTotal => number(self.names_total_bytes_max),
            Limit::RequestsTotal => number(self.requests_total_bytes_max),
            Limit::QueuesTotal => number(self.queues_total_bytes_max),
            Limit::PrincipalMetadata => number(self.principal_metadata_bytes_max),
            Limit::PrincipalNames => number(self.principal_names_bytes_max),
            Limit::PrincipalRequests => number(self.principal_requests_bytes_max),
            Limit::PrincipalQueues => number(self.principal_queues_bytes_max),
            Limit::Group => number(self.group_max),
            // A principal without a quota of its own has this.
            Limit::Quota | Limit::NamespaceQuota => self.principal_leases_max.into(),
            Limit::BytesQuota => number(self.principal_names_bytes_max),
        }
    }

    /// That a limit was met.
    pub fn exceeded(&self, limit: Limit) -> Rejection {
        Rejection::Limit(Exceeded { limit, allowed: self.allowed(limit), line: None })
    }

    pub(crate) fn within(&self, limit: Limit, holds: bool) -> Result<(), Rejection> {
        if holds { Ok(()) } else { Err(self.exceeded(limit)) }
    }

    /// Whether this could be asked for at all. Whoever asks the engine need not look: it does.
    pub fn check_acquire(&self, acquire: &Acquire) -> Result<(), Rejection> {
        self.check_key(&acquire.lock)?;
        self.check_mode(acquire.mode)?;
        self.check_owner(&acquire.owner)?;
        self.within(Limit::Ttl, acquire.ttl.unwrap_or_default() <= self.ttl_max)?;
        let grace_ms = u32::try_from(acquire.grace.as_millis());
        self.within(Limit::Grace, acquire.grace <= self.grace_max && grace_ms.is_ok())?;
        self.within(Limit::Wait, acquire.wait.span() <= self.wait_max)?;
        let metadata_bytes = acquire.metadata.as_ref().map_or(0, |metadata| metadata.len());
        self.within(Limit::Metadata, metadata_bytes <= self.metadata_bytes_max)?;
        self.check_request_id(acquire.request_id.as_deref())
    }

    /// That as many may be asked for in one request.
    pub(crate) fn check_group(&self, n: usize) -> Result<(), Rejection> {
        self.within(Limit::Group, (1..=self.group_max).contains(&n))
    }

    pub(crate) fn check_mode(&self, mode: Mode) -> Result<(), Rejection> {
        match mode {
            Mode::Counted(n) => self.within(Limit::Holders, (1..=self.holders_max).contains(&n)),
            Mode::Exclusive | Mode::Shared => Ok(()),
        }
    }

    /// Whether such a session could be. Whoever asks the engine need not look: it does.
    pub fn check_session(&self, open: &OpenSession) -> Result<(), Rejection> {
        self.check_owner(&open.owner)?;
        self.within(Limit::SessionTtl, open.ttl > Span::ZERO && open.ttl <= self.session_ttl_max)
    }

    /// Whether this can be a request id at all.
    pub fn check_request_id(&self, id: Option<&str>) -> Result<(), Rejection> {
        self.within(Limit::RequestId, id.is_none_or(|id| fits(id, self.request_id_bytes_max)))
    }

    /// Whether a lock can have this name at all. Whoever asks the engine need not look: it does.
    pub fn check_key(&self, key: &LockKey) -> Result<(), Rejection> {
        self.within(Limit::Namespace, fits(&key.namespace, self.namespace_bytes_max))?;
        self.within(Limit::Name, fits(&key.name, self.name_bytes_max))
    }

    /// Whether this can be the reason of a revocation.
    pub fn check_reason(&self, reason: &str) -> Result<(), Rejection> {
        self.within(Limit::Reason, reason.len() <= self.reason_bytes_max)
    }

    /// Whether this can be an owner at all.
    pub fn check_owner(&self, owner: &Owner) -> Result<(), Rejection> {
        let fits = |name| fits(name, self.owner_bytes_max);
        self.within(Limit::Owner, fits(&owner.principal) && fits(&owner.instance))
    }
}

impl Limit {
    /// What the setting is called that says how much is allowed.
    pub fn setting(self) -> &'static str {
        match self {
            Limit::Namespace => "namespace-bytes-max",
            Limit::Name => "name-bytes-max",
            Limit::Owner => "owner-bytes-max",
            Limit::RequestId => "request-id-bytes-max",
            Limit::Metadata => "metadata-bytes-max",
            Limit::Reason => "reason-bytes-max",
            Limit::Ttl => "ttl-max",
            Limit::SessionTtl => "session-ttl-max",
            Limit::Grace => "grace-max",
            Limit::Wait => "wait-max",
            Limit::Holders => "holders-max",
            Limit::Namespaces => "namespaces-max",
            Limit::Locks => "locks-max",
            Limit::PrincipalLeases => "principal-leases-max",
            Limit::PrincipalNamespaces => "principal-namespaces-max",
            Limit::PrincipalSessions => "principal-sessions-max",
            Limit::Sessions => "sessions-max",
            Limit::MetadataTotal => "metadata-total-bytes-max",
            Limit::NamesTotal => "names-total-bytes-max",
            Limit::RequestsTotal => "requests-total-bytes-max",
            Limit::QueuesTotal => "queues-total-bytes-max",
            Limit::PrincipalMetadata => "principal-metadata-bytes-max",
            Limit::PrincipalNames => "principal-names-bytes-max",
            Limit::PrincipalRequests => "principal-requests-bytes-max",
            Limit::PrincipalQueues => "principal-queues-bytes-max",
            Limit::Group => "group-max",
            Limit::Quota | Limit::NamespaceQuota | Limit::BytesQuota => "quota in auth-file",
        }
    }
}

fn fits(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len())
}
