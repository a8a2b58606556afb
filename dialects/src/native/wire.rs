//! Conversions between the types of the API and those of the core.

use std::sync::Arc;

use leasehold_api::{Holder, LockState, Mode, Waiter};
use leasehold_core::{LeaseView, LockKey, LockView, Owner, Phase, SessionDigest, Span, Timestamp};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::Refusal;
use crate::app::App;
use crate::{metadata, owner};

/// Returns the hash under which a session is stored. The id itself is a secret and is never stored.
pub(super) fn session_digest(session_id: &str) -> SessionDigest {
    SessionDigest(Sha256::digest(session_id.as_bytes()).into())
}

/// Returns the lock mode that the fields `mode` and `limit` select, or why they are invalid.
pub(super) fn mode(
    mode: Option<Mode>,
    limit: Option<u32>,
) -> Result<leasehold_core::Mode, &'static str> {
    match (mode, limit) {
        (None | Some(Mode::Exclusive), None) => Ok(leasehold_core::Mode::Exclusive),
        (Some(Mode::Shared), None) => Ok(leasehold_core::Mode::Shared),
        (None, Some(limit)) => Ok(leasehold_core::Mode::Counted(limit)),
        (Some(_), Some(_)) => Err("limit cannot be combined with mode"),
    }
}

pub(super) fn ttl(ttl_ms: Option<u64>, has_session: bool) -> Result<Option<Span>, Refusal> {
    match ttl_ms {
        Some(0) => Err(Refusal::invalid("ttl_ms must be more than 0")),
        Some(ttl_ms) => Ok(Some(Span::from_millis(ttl_ms))),
        None if has_session => Ok(None),
        None => Err(Refusal::invalid("ttl_ms is required unless session_id is given")),
    }
}

/// Returns how long the locks stay reserved for their last owner after expiry. Only exclusive leases can have a grace
/// period.
pub(super) fn grace(
    grace_ms: Option<u64>,
    modes: &[leasehold_core::Mode],
) -> Result<Span, Refusal> {
    if grace_ms.is_some() && !modes.iter().all(|mode| mode.has_grace()) {
        return Err(Refusal::invalid("grace_ms is allowed only for exclusive leases"));
    }
    Ok(Span::from_millis(grace_ms.unwrap_or(0)))
}

pub(super) fn metadata(app: &App, metadata: Option<&Value>) -> Result<Option<Arc<[u8]>>, Refusal> {
    let Some(value) = metadata else { return Ok(None) };
    let (bytes, depth_max) = (value.to_string().into_bytes(), app.limits.metadata_depth_max);
    if metadata::depth(&bytes) > depth_max {
        return Err(Refusal::invalid(format!("metadata: {}", metadata::too_deep(depth_max))));
    }
    Ok(Some(bytes.into()))
}

/// Returns a deadline as epoch milliseconds, for display only.
pub(super) fn expiry_ms(app: &App, deadline: Option<Timestamp>) -> Option<i64> {
    deadline.map(|deadline| app.engine.wall_ms_of(deadline))
}

/// Returns the public state of a lock. It omits lease ids, because they are proofs.
pub(super) fn lock_state(app: &App, key: &LockKey, view: &LockView, now: Timestamp) -> LockState {
    let latest = view.holders.first();
    let grace = view.lapse.as_ref().filter(|lapse| now < lapse.grace_until);
    LockState {
        lock_name: key.name.to_string(),
        held: latest.is_some(),
        last_token: view.last_token.get(),
        owner_id: latest.map(|lease| owner::shown(lease.dialect, &lease.owner).into()),
        principal: latest.and_then(|lease| principal(&lease.owner)),
        fencing_token: latest.map(|lease| lease.token.get()),
        lease_expiry_ms: latest.and_then(|lease| expiry_ms(app, lease.deadline)),
        version: latest.map(|lease| lease.version),
        holders: view.holders.iter().map(|lease| holder(app, lease, now)).collect(),
        n_holders: view.n_holders,
        queue: (latest.is_some() || !view.queue.is_empty()).then(|| {
            view.queue.iter().enumerate().map(|(n, lease)| waiter(n + 1, lease, now)).collect()
        }),
        n_waiting: view.n_waiting,
        metadata: latest.and_then(shown_metadata),
        grace_owner_id: grace.map(|lapse| owner::shown(lapse.dialect, &lapse.owner).into()),
        grace_principal: grace.and_then(|lapse| principal(&lapse.owner)),
        grace_remaining_ms: grace.map(|lapse| lapse.grace_until.since(now).as_millis()),
    }
}

fn holder(app: &App, lease: &LeaseView, now: Timestamp) -> Holder {
    let (mode, limit) = match lease.mode {
        leasehold_core::Mode::Exclusive => ("exclusive", None),
        leasehold_core::Mode::Shared => ("shared", None),
        leasehold_core::Mode::Counted(limit) => ("counted", Some(limit)),
    };
    Holder {
        owner_id: owner::shown(lease.dialect, &lease.owner).into(),
        principal: principal(&lease.owner),
        fencing_token: lease.token.get(),
        mode: mode.into(),
        limit,
        lease_expiry_ms: expiry_ms(app, lease.deadline),
        expires_in_ms: lease.remaining(now).map(Span::as_millis),
        held_ms: now.since(lease.granted_at).as_millis(),
        metadata: shown_metadata(lease),
    }
}

fn waiter(position: usize, lease: &LeaseView, now: Timestamp) -> Waiter {
    Waiter {
        owner_id: owner::shown(lease.dialect, &lease.owner).into(),
        principal: principal(&lease.owner),
        position,
        waiting_ms: now.since(lease.created_at).as_millis(),
        parked: lease.phase == Phase::Parked,
    }
}

/// Returns the authenticated principal of an owner, if there is one. The `owner_id`, in contrast, is chosen by the
/// client.
pub(super) fn principal(owner: &Owner) -> Option<String> {
    owner::vouched(owner).map(Into::into)
}

fn shown_metadata(lease: &LeaseView) -> Option<Value> {
    shown(lease.dialect, lease.metadata.as_deref())
}

/// Returns metadata as the client sent it, but with lock proofs shortened.
pub(super) fn shown(dialect: leasehold_core::Dialect, metadata: Option<&[u8]>) -> Option<Value> {
    metadata.and_then(|bytes| serde_json::from_slice(&owner::shown_metadata(dialect, bytes)).ok())
}
