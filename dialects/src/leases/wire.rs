//! The types of the API, and conversions between them and those of the core.

use leasehold_auth::Caller;
use leasehold_base::calendar;
use leasehold_core::{Ending, LeaseView, Limit, LockKey, Phase, Span, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::Refusal;
use crate::app::App;
use crate::{Dialect, lease_id, owner};

/// `ttl_seconds` is kept as raw JSON, because a value that is not a whole number has a dedicated error code.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AcquireRequest {
    pub(super) tenant_id: String,
    pub(super) request_id: String,
    pub(super) lock_key: String,
    pub(super) owner_id: String,
    #[schemars(with = "u64")]
    pub(super) ttl_seconds: Box<RawValue>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RenewRequest {
    pub(super) request_id: String,
    pub(super) owner_id: String,
    #[schemars(with = "u64")]
    pub(super) ttl_seconds: Box<RawValue>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseRequest {
    pub(super) request_id: String,
    pub(super) owner_id: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForceReleaseRequest {
    pub(super) tenant_id: String,
    pub(super) actor: String,
    pub(super) reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LookParams {
    pub(super) tenant_id: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct LockState {
    pub(super) tenant_id: String,
    pub(super) lock_key: String,
    pub(super) has_active_lease: bool,
    pub(super) active_lease: Option<Lease>,
    pub(super) server_time: String,
}

/// A lease. All members are always present; those that do not apply, or that the caller is not allowed to see, are
/// null.
#[derive(Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub(super) struct Lease {
    lease_id: Option<String>,
    tenant_id: String,
    lock_key: String,
    owner_id: String,
    status: Status,
    acquired_at: String,
    expires_at: Option<String>,
    last_renewed_at: String,
    fencing_token: u64,
    idempotency_key: Option<String>,
    version: u32,
    server_time: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Active,
    Released,
    Expired,
}

/// The server is healthy.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    pub(super) status: &'static str,
    pub(super) server_time: String,
}

/// The facts about a lease that never change.
pub(super) struct Origin {
    pub(super) key: LockKey,
    /// The request id of its acquire.
    pub(super) idempotency_key: Option<String>,
}

/// Returns a lease as the caller is allowed to see it. The id of a lease proves it in the dialect that granted it, so
/// leases of other dialects are shown without one.
pub(super) fn lease(app: &App, caller: &Caller, origin: Origin, lease: &LeaseView) -> Lease {
    let wall = |at: Timestamp| calendar::to_millis(app.engine.wall_ms_of(at));
    // Only the holder's principal may see the proof of a lease. Without authentication, every caller may.
    let is_own = !caller.is_asked() || caller.is(&lease.owner.principal);
    let is_ours = is_own && lease.dialect == Dialect::Leases.number();
    Lease {
        lease_id: is_ours.then(|| lease_id::render(lease.id)),
        tenant_id: tenant_id(app, &origin.key),
        lock_key: origin.key.name.to_string(),
        owner_id: owner::shown(lease.dialect, &lease.owner).into(),
        status: match lease.phase {
            Phase::Waiting | Phase::Parked | Phase::Active => Status::Active,
            Phase::Ended(Ending::Expired) => Status::Expired,
            Phase::Ended(Ending::Released | Ending::Revoked) => Status::Released,
        },
        acquired_at: wall(lease.granted_at),
        expires_at: lease.deadline.map(wall),
        last_renewed_at: wall(lease.renewed_at),
        fencing_token: lease.token.get(),
        idempotency_key: origin.idempotency_key.filter(|_| is_own),
        version: lease.version,
        server_time: server_time(app),
    }
}

pub(super) fn server_time(app: &App) -> String {
    calendar::to_millis(app.engine.wall_ms_of(app.engine.now()))
}

/// Checks the length of a field. The core checks it too, but this protocol reports length errors before it checks the
/// caller's identity.
fn check(field: &str, text: &str, bytes_max: usize, limit: Limit) -> Result<(), Refusal> {
    if (1..=bytes_max).contains(&text.len()) {
        return Ok(());
    }
    let setting = limit.setting();
    Err(Refusal::invalid(format!("{field}: must have from 1 to {bytes_max} bytes ({setting})")))
}

pub(super) fn check_owner(app: &App, owner_id: &str, request_id: &str) -> Result<(), Refusal> {
    check("owner_id", owner_id, app.limits.owner_bytes_max, Limit::Owner)?;
    check("request_id", request_id, app.limits.request_id_bytes_max, Limit::RequestId)
}

/// Returns the key of a tenant's lock. Its namespace is the tenant's name after the configured prefix.
pub(super) fn key(app: &App, tenant_id: &str, lock_key: &str) -> Result<LockKey, Refusal> {
    check("tenant_id", tenant_id, tenant_bytes_max(app), Limit::Namespace)?;
    check("lock_key", lock_key, app.limits.name_bytes_max, Limit::Name)?;
    let namespace = format!("{}{tenant_id}", app.dialect.leases.namespace_prefix);
    Ok(LockKey { namespace: namespace.into(), name: lock_key.into() })
}

/// Returns the maximum length of a tenant's name, in bytes.
pub(super) fn tenant_bytes_max(app: &App) -> usize {
    app.limits.namespace_bytes_max.saturating_sub(app.dialect.leases.namespace_prefix.len())
}

/// Returns the tenant of a lock: its namespace without the prefix. For a lease from before the prefix was configured,
/// it is the whole namespace.
pub(super) fn tenant_id(app: &App, key: &LockKey) -> String {
    let prefix = &*app.dialect.leases.namespace_prefix;
    key.namespace.strip_prefix(prefix).unwrap_or(&key.namespace).into()
}

/// Returns the reason that is recorded for a forced release: the actor, and its stated reason if there is one.
pub(super) fn reason(app: &App, request: &ForceReleaseRequest) -> Result<String, Refusal> {
    check("actor", &request.actor, app.limits.owner_bytes_max, Limit::Owner)?;
    let given = request.reason.as_deref().filter(|reason| !reason.is_empty());
    let reason =
        given.map_or_else(|| request.actor.clone(), |why| format!("{}: {why}", request.actor));
    check("actor and reason together", &reason, app.limits.reason_bytes_max, Limit::Reason)?;
    Ok(reason)
}

pub(super) fn ttl(app: &App, ttl_seconds: &RawValue) -> Result<Span, Refusal> {
    let (min, max) = (app.dialect.leases.ttl_seconds_min, app.dialect.leases.ttl_seconds_max);
    let seconds = ttl_seconds.get().parse().ok().filter(|seconds| (min..=max).contains(seconds));
    let why = || Refusal::ttl(format!("ttl_seconds: must be a whole number from {min} to {max}"));
    seconds.map(Span::from_secs).ok_or_else(why)
}
