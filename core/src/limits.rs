//! All limits in one place. No data in the machine grows beyond these.

use crate::command::{Acquire, OpenSession};
use crate::lease::Mode;
use crate::name::{LockKey, Owner};
use crate::outcome::{Exceeded, Limit, Rejection};
use crate::time::Span;

/// The limits of a machine. [`Limits::default`] is safe for a server with untrusted clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum length of a namespace, in bytes.
    pub namespace_bytes_max: usize,
    /// Maximum length of a lock name, in bytes.
    pub name_bytes_max: usize,
    /// Maximum length of an owner's principal and of its instance, in bytes each.
    pub owner_bytes_max: usize,
    /// Maximum length of a request id, in bytes.
    pub request_id_bytes_max: usize,
    /// Maximum size of a lease's metadata, in bytes.
    pub metadata_bytes_max: usize,
    /// Maximum nesting depth of metadata. The core does not parse metadata, so the code that knows the format enforces
    /// this limit.
    pub metadata_depth_max: usize,
    /// Maximum length of the reason of a revocation, in bytes.
    pub reason_bytes_max: usize,
    /// Maximum TTL of a lease.
    pub ttl_max: Span,
    /// Maximum TTL of a session.
    pub session_ttl_max: Span,
    /// Maximum grace period.
    pub grace_max: Span,
    /// Maximum wait in a queue.
    pub wait_max: Span,
    /// How long a parked waiter keeps its position, if its wait does not end sooner.
    pub park_max: Span,
    /// Like `park_max`, after a restart or a leader change, which parks every waiter.
    pub resume_park_max: Span,
    /// Maximum namespaces.
    pub namespaces_max: usize,
    /// Maximum locks that are held, waited for or remembered.
    pub locks_max: usize,
    /// Maximum waiting and active leases of one principal. Unauthenticated clients count by peer instead.
    pub principal_leases_max: u32,
    /// Maximum namespaces that one principal, or peer, was the first to use.
    pub principal_namespaces_max: u32,
    /// Maximum sessions of one principal, or peer, in one dialect.
    pub principal_sessions_max: u32,
    /// Maximum sessions in one dialect. Each dialect has a separate count.
    pub sessions_max: usize,
    /// Maximum total bytes of metadata of all waiting and active leases.
    pub metadata_total_bytes_max: usize,
    /// Maximum total bytes of the names of locks, namespaces and owners.
    pub names_total_bytes_max: usize,
    /// Maximum total bytes of request ids and of the ended leases that answer repeated ones. The oldest of these leases
    /// are forgotten first.
    pub requests_total_bytes_max: usize,
    /// Maximum total bytes of waiting leases.
    pub queues_total_bytes_max: usize,
    /// Maximum bytes of metadata of the leases of one principal, or peer.
    pub principal_metadata_bytes_max: usize,
    /// Maximum bytes of names that the leases of one principal, or peer, need. Its oldest ended leases are forgotten
    /// first.
    pub principal_names_bytes_max: usize,
    /// Maximum bytes of request ids of one principal, or peer, and of the ended leases that answer repeated ones. The
    /// oldest are forgotten first.
    pub principal_requests_bytes_max: usize,
    /// Maximum bytes of waiting leases of one principal, or peer.
    pub principal_queues_bytes_max: usize,
    /// Maximum ended leases of one principal, or peer, that are kept only to answer repeated request ids.
    pub principal_answered_max: usize,
    /// Maximum ended leases of one principal, or peer, that stay readable.
    pub principal_ended_max: usize,
    /// Maximum bytes of ended leases of one principal, or peer, that stay readable. The oldest are forgotten first.
    pub principal_ended_bytes_max: usize,
    /// Maximum waiters for one lock.
    pub queue_max: usize,
    /// Maximum holders of one lock, and so the largest limit of a counted lock.
    pub holders_max: u32,
    /// Maximum locks or leases in one request.
    pub group_max: usize,
    /// Maximum request ids remembered with one lease. The oldest renewals are forgotten first.
    pub lease_requests_max: usize,
    /// How long an ended lease is kept to answer repeated request ids.
    pub request_retention: Span,
    /// Maximum ended leases kept only to answer repeated request ids.
    pub answered_max: usize,
    /// How long an ended lease stays readable, if its acquire requested that.
    pub ended_retention: Span,
    /// Maximum ended leases that stay readable.
    pub ended_max: usize,
    /// Maximum total bytes of ended leases that stay readable. The oldest are forgotten first.
    pub ended_total_bytes_max: usize,
    /// How long an unused lock is remembered by name.
    pub idle_retention: Span,
    /// Maximum unused locks that are remembered by name.
    pub idle_max: usize,
    /// Maximum waiters that one command grants or ends. The next sweep handles the rest.
    pub promote_steps_max: usize,
    /// How long a lease is held before that is noted. Zero turns this off.
    pub held_warn: Span,
    /// How long a lease waits before that is noted. Zero turns this off.
    pub wait_warn: Span,
    /// How long a lease waits before it is checked for a deadlock. The check repeats each time the wait has doubled.
    /// Zero turns this off.
    pub deadlock_after: Span,
    /// Maximum waits that one deadlock check follows.
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
    /// Returns the value of a limit, in bytes, milliseconds or items.
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
            // The default for a principal without a quota.
            Limit::Quota | Limit::NamespaceQuota => self.principal_leases_max.into(),
            Limit::BytesQuota => number(self.principal_names_bytes_max),
        }
    }

    /// Returns the rejection for an exceeded limit.
    pub fn exceeded(&self, limit: Limit) -> Rejection {
        Rejection::Limit(Exceeded { limit, allowed: self.allowed(limit), line: None })
    }

    pub(crate) fn within(&self, limit: Limit, holds: bool) -> Result<(), Rejection> {
        if holds { Ok(()) } else { Err(self.exceeded(limit)) }
    }

    /// Checks the sizes and durations of an acquire. The machine checks them as well, so callers need not.
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

    /// Checks the number of locks or leases in one request.
    pub(crate) fn check_group(&self, n: usize) -> Result<(), Rejection> {
        self.within(Limit::Group, (1..=self.group_max).contains(&n))
    }

    pub(crate) fn check_mode(&self, mode: Mode) -> Result<(), Rejection> {
        match mode {
            Mode::Counted(n) => self.within(Limit::Holders, (1..=self.holders_max).contains(&n)),
            Mode::Exclusive | Mode::Shared => Ok(()),
        }
    }

    /// Checks a request for a session. The machine checks it as well, so callers need not.
    pub fn check_session(&self, open: &OpenSession) -> Result<(), Rejection> {
        self.check_owner(&open.owner)?;
        self.within(Limit::SessionTtl, open.ttl > Span::ZERO && open.ttl <= self.session_ttl_max)
    }

    /// Checks the length of a request id.
    pub fn check_request_id(&self, id: Option<&str>) -> Result<(), Rejection> {
        self.within(Limit::RequestId, id.is_none_or(|id| fits(id, self.request_id_bytes_max)))
    }

    /// Checks the length of a lock's name and namespace. The machine checks them as well, so callers need not.
    pub fn check_key(&self, key: &LockKey) -> Result<(), Rejection> {
        self.within(Limit::Namespace, fits(&key.namespace, self.namespace_bytes_max))?;
        self.within(Limit::Name, fits(&key.name, self.name_bytes_max))
    }

    /// Checks the length of the reason of a revocation.
    pub fn check_reason(&self, reason: &str) -> Result<(), Rejection> {
        self.within(Limit::Reason, reason.len() <= self.reason_bytes_max)
    }

    /// Checks the lengths of an owner's names.
    pub fn check_owner(&self, owner: &Owner) -> Result<(), Rejection> {
        let fits = |name| fits(name, self.owner_bytes_max);
        self.within(Limit::Owner, fits(&owner.principal) && fits(&owner.instance))
    }
}

impl Limit {
    /// Returns the name of the setting for this limit.
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
