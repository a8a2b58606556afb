//! Settings for the limits of the core: one for each.

use clap::Args as ClapArgs;
use leasehold_core::Limits;

/// Generates one flag and one variable for each field of [`Limits`], with the field's default.
macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $field:ident: $kind:ident, $env:literal;)*) => {
        #[derive(ClapArgs, Clone, Debug)]
        #[command(next_help_heading = "Limits")]
        pub(super) struct LimitArgs {
            $($(#[doc = $doc])+
            #[arg(long, env = $env, default_value_t = default::$kind(Limits::default().$field))]
            pub(super) $field: default::types::$kind,)*
        }

        impl LimitArgs {
            pub(super) fn limits(&self) -> Limits {
                Limits { $($field: default::back::$kind(self.$field),)* }
            }
        }
    };
}

/// Converts between the types of the core and the types of the settings.
mod default {
    use leasehold_core::Span;

    use crate::duration::DurationArg;

    pub(super) mod types {
        #![expect(non_camel_case_types, reason = "named after what the core calls them")]
        pub(in crate::config) type bytes = usize;
        pub(in crate::config) type number = usize;
        pub(in crate::config) type small = u32;
        pub(in crate::config) type span = crate::duration::DurationArg;
    }

    pub(super) mod back {
        use super::{DurationArg, Span};

        pub(in crate::config) fn bytes(n: usize) -> usize {
            n
        }
        pub(in crate::config) fn number(n: usize) -> usize {
            n
        }
        pub(in crate::config) fn small(n: u32) -> u32 {
            n
        }
        pub(in crate::config) fn span(duration: DurationArg) -> Span {
            duration.span()
        }
    }

    pub(super) fn bytes(n: usize) -> usize {
        n
    }
    pub(super) fn number(n: usize) -> usize {
        n
    }
    pub(super) fn small(n: u32) -> u32 {
        n
    }
    pub(super) fn span(span: Span) -> DurationArg {
        DurationArg(std::time::Duration::from_nanos(span.as_nanos()))
    }
}

limits! {
    /// Maximum length of a namespace, in bytes.
    namespace_bytes_max: bytes, "LEASEHOLD_NAMESPACE_BYTES_MAX";
    /// Maximum length of a lock name, in bytes.
    name_bytes_max: bytes, "LEASEHOLD_NAME_BYTES_MAX";
    /// Maximum length of an owner, in bytes.
    owner_bytes_max: bytes, "LEASEHOLD_OWNER_BYTES_MAX";
    /// Maximum length of a request id, in bytes.
    request_id_bytes_max: bytes, "LEASEHOLD_REQUEST_ID_BYTES_MAX";
    /// Maximum size of the metadata of a lease, in bytes.
    metadata_bytes_max: bytes, "LEASEHOLD_METADATA_BYTES_MAX";
    /// Maximum nesting of metadata.
    metadata_depth_max: number, "LEASEHOLD_METADATA_DEPTH_MAX";
    /// Maximum length of the reason of a revocation, in bytes.
    reason_bytes_max: bytes, "LEASEHOLD_REASON_BYTES_MAX";
    /// Maximum TTL of a lease.
    ttl_max: span, "LEASEHOLD_TTL_MAX";
    /// Maximum TTL of a session.
    session_ttl_max: span, "LEASEHOLD_SESSION_TTL_MAX";
    /// Maximum grace period.
    grace_max: span, "LEASEHOLD_GRACE_MAX";
    /// Maximum wait in a queue.
    wait_max: span, "LEASEHOLD_WAIT_MAX";
    /// How long a waiter whose connection broke keeps its place.
    park_max: span, "LEASEHOLD_PARK_MAX";
    /// How long a waiter keeps its place after a restart or a leader change.
    resume_park_max: span, "LEASEHOLD_RESUME_PARK_MAX";
    /// Maximum number of namespaces.
    namespaces_max: number, "LEASEHOLD_NAMESPACES_MAX";
    /// Maximum locks that are held, waited for or remembered.
    locks_max: number, "LEASEHOLD_LOCKS_MAX";
    /// Maximum leases of one principal; for anonymous clients, of one address (IPv6: one /64).
    principal_leases_max: small, "LEASEHOLD_PRINCIPAL_LEASES_MAX";
    /// Maximum number of namespaces that one principal, or anonymous address, was the first to use.
    principal_namespaces_max: small, "LEASEHOLD_PRINCIPAL_NAMESPACES_MAX";
    /// Maximum sessions of one principal, or anonymous address, in one protocol.
    principal_sessions_max: small, "LEASEHOLD_PRINCIPAL_SESSIONS_MAX";
    /// Maximum sessions in one protocol.
    sessions_max: number, "LEASEHOLD_SESSIONS_MAX";
    /// Maximum bytes of metadata of all waiting and active leases.
    metadata_total_bytes_max: bytes, "LEASEHOLD_METADATA_TOTAL_BYTES_MAX";
    /// Maximum bytes of names of locks, namespaces and owners.
    names_total_bytes_max: bytes, "LEASEHOLD_NAMES_TOTAL_BYTES_MAX";
    /// Maximum bytes of request ids, and of the ended leases that are kept for them.
    requests_total_bytes_max: bytes, "LEASEHOLD_REQUESTS_TOTAL_BYTES_MAX";
    /// Maximum bytes of waiting leases.
    queues_total_bytes_max: bytes, "LEASEHOLD_QUEUES_TOTAL_BYTES_MAX";
    /// Maximum bytes of metadata of one principal; for anonymous clients, of one address (IPv6: one /64).
    principal_metadata_bytes_max: bytes, "LEASEHOLD_PRINCIPAL_METADATA_BYTES_MAX";
    /// Maximum bytes of names that the leases of one principal, or anonymous address, need.
    principal_names_bytes_max: bytes, "LEASEHOLD_PRINCIPAL_NAMES_BYTES_MAX";
    /// Maximum bytes of request ids, and of the ended leases kept for them, of one principal, or anonymous address.
    principal_requests_bytes_max: bytes, "LEASEHOLD_PRINCIPAL_REQUESTS_BYTES_MAX";
    /// Maximum bytes of waiting leases of one principal, or anonymous address.
    principal_queues_bytes_max: bytes, "LEASEHOLD_PRINCIPAL_QUEUES_BYTES_MAX";
    /// Maximum ended leases of one principal, or anonymous address, that are kept only for repeated request ids.
    principal_answered_max: number, "LEASEHOLD_PRINCIPAL_ANSWERED_MAX";
    /// Maximum ended leases of one principal, or anonymous address, that stay readable.
    principal_ended_max: number, "LEASEHOLD_PRINCIPAL_ENDED_MAX";
    /// Maximum bytes of ended leases of one principal, or anonymous address, that stay readable.
    principal_ended_bytes_max: bytes, "LEASEHOLD_PRINCIPAL_ENDED_BYTES_MAX";
    /// Maximum waiters for one lock.
    queue_max: number, "LEASEHOLD_QUEUE_MAX";
    /// Maximum holders of one lock.
    holders_max: small, "LEASEHOLD_HOLDERS_MAX";
    /// Maximum locks or leases in one request.
    group_max: number, "LEASEHOLD_GROUP_MAX";
    /// Maximum request ids that are remembered with one lease.
    lease_requests_max: number, "LEASEHOLD_LEASE_REQUESTS_MAX";
    /// How long an ended lease is kept for repeated request ids.
    request_retention: span, "LEASEHOLD_REQUEST_RETENTION";
    /// Maximum ended leases that are kept only for repeated request ids.
    answered_max: number, "LEASEHOLD_ANSWERED_MAX";
    /// How long an ended lease stays readable in a protocol that shows it.
    ended_retention: span, "LEASEHOLD_ENDED_RETENTION";
    /// Maximum ended leases that stay readable.
    ended_max: number, "LEASEHOLD_ENDED_MAX";
    /// Maximum bytes of ended leases that stay readable.
    ended_total_bytes_max: bytes, "LEASEHOLD_ENDED_TOTAL_BYTES_MAX";
    /// How long an unused lock is remembered by name.
    idle_retention: span, "LEASEHOLD_IDLE_RETENTION";
    /// Maximum unused locks that are remembered by name.
    idle_max: number, "LEASEHOLD_IDLE_MAX";
    /// Maximum waiters that one step of the engine grants or drops.
    promote_steps_max: number, "LEASEHOLD_PROMOTE_STEPS_MAX";
    /// Report a lease once it has been held for this long (0s: never).
    held_warn: span, "LEASEHOLD_HELD_WARN";
    /// Report a wait once it has lasted this long (0s: never).
    wait_warn: span, "LEASEHOLD_WAIT_WARN";
    /// Search for a deadlock once a wait has lasted this long, and each time it has doubled (0s: never).
    deadlock_after: span, "LEASEHOLD_DEADLOCK_AFTER";
    /// Maximum waits that one search for a deadlock follows.
    deadlock_edges_max: number, "LEASEHOLD_DEADLOCK_EDGES_MAX";
}
