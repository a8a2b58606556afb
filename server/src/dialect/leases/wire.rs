//! The shapes on the wire, and between them and the core's.

use leasehold_core::{Ending, LeaseView, Limit, LockKey, Phase, Span, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::Refusal;
use crate::app::App;
use crate::auth::Caller;
use crate::dialect::{Dialect, calendar, lease_id, owner};

/// `ttl_seconds` stays as it was written: whatever is no whole number has an error code of its own.
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

/// Exactly these members, always. What is null belongs to another dialect.
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

/// The server is well.
#[derive(Serialize, JsonSchema)]
pub(super) struct Health {
    pub(super) status: &'static str,
    pub(super) server_time: String,
}

/// What is true of a lease from its first moment to its last.
pub(super) struct Origin {
    pub(super) key: LockKey,
    /// The request id of its acquire.
    pub(super) idempotency_key: Option<String>,
}

/// A lease as it is shown. Its id is its proof in the dialect that gave it, and of no use in this one.
pub(super) fn lease(app: &App, caller: &Caller, origin: Origin, lease: &LeaseView) -> Lease {
    let wall = |at: Timestamp| calendar::to_millis(app.engine.wall_ms_of(at));
    // What proves a lease is for whoever has it.
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

/// The core checks this as well, but only after the question of who asks, which comes second here.
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

/// A tenant's locks are in the namespace of its name, after the prefix the server was told.
pub(super) fn key(app: &App, tenant_id: &str, lock_key: &str) -> Result<LockKey, Refusal> {
    check("tenant_id", tenant_id, tenant_bytes_max(app), Limit::Namespace)?;
    check("lock_key", lock_key, app.limits.name_bytes_max, Limit::Name)?;
    let namespace = format!("{}{tenant_id}", app.dialect.leases.namespace_prefix);
    Ok(LockKey { namespace: namespace.into(), name: lock_key.into() })
}

/// How long a tenant's name may be.
pub(super) fn tenant_bytes_max(app: &App) -> usize {
    app.limits.namespace_bytes_max.saturating_sub(app.dialect.leases.namespace_prefix.len())
}

/// Whose lock it is. A lease from before the prefix was set belongs to a tenant of its namespace's name.
pub(super) fn tenant_id(app: &App, key: &LockKey) -> String {
    let prefix = &*app.dialect.leases.namespace_prefix;
    key.namespace.strip_prefix(prefix).unwrap_or(&key.namespace).into()
}

/// On whose word a lease is taken away, and why.
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
