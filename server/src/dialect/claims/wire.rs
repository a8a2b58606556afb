//! Between the shapes on the wire and the core's.

use std::sync::Arc;

use leasehold_auth::Caller;
use leasehold_core::{
    Ending, LeaseNumber, LeaseRecord, LeaseView, LockKey, Owner, Phase, Span, Timestamp, Token,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::date;
use crate::app::App;
use crate::dialect::owner;

/// Every status a claim can have.
pub(super) const STATUSES: [&str; 7] =
    ["waiting", "active", "released", "expired", "revoked", "aborted", "withdrawn"];

/// The owner of a claim; its number completes it.
pub(super) fn owner_of(caller: &Caller) -> Owner {
    owner::of(caller, "claim:")
}

pub(super) fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

/// A lease as this protocol sees it.
#[derive(Clone)]
pub(super) struct Claim {
    pub(super) number: LeaseNumber,
    pub(super) lock: LockKey,
    owner: Owner,
    pub(super) phase: Phase,
    token: Token,
    created_at: Timestamp,
    granted_at: Timestamp,
    renewed_at: Timestamp,
    /// Active: when it expires. Ended: when it did.
    deadline: Timestamp,
    timeout: Span,
    metadata: Option<Arc<[u8]>>,
    reason: Option<Arc<str>>,
}

impl From<LeaseRecord> for Claim {
    fn from(record: LeaseRecord) -> Self {
        Self {
            number: record.number,
            lock: record.lock,
            owner: record.owner,
            phase: record.phase,
            token: record.token,
            created_at: record.created_at,
            granted_at: record.granted_at,
            renewed_at: record.renewed_at,
            deadline: record.deadline,
            timeout: record.ttl.unwrap_or_default(),
            metadata: record.metadata,
            reason: record.reason,
        }
    }
}

impl Claim {
    /// Whose it is.
    pub(super) fn principal(&self) -> &str {
        &self.owner.principal
    }

    /// As a command left it. Reading it again could find it expired, if its time was short.
    pub(super) fn of(lock: LockKey, view: LeaseView) -> Self {
        Self {
            number: view.id.number,
            lock,
            owner: view.owner,
            phase: view.phase,
            token: view.token,
            created_at: view.created_at,
            granted_at: view.granted_at,
            renewed_at: view.renewed_at,
            deadline: view.deadline.unwrap_or(Timestamp::NEVER),
            timeout: view.ttl.unwrap_or_default(),
            metadata: view.metadata,
            reason: None,
        }
    }

    /// One that was queued at `now`.
    pub(super) fn queued(
        number: LeaseNumber,
        (lock, owner): (LockKey, Owner),
        now: Timestamp,
        timeout: Span,
        metadata: Option<Arc<[u8]>>,
    ) -> Self {
        Self {
            number,
            lock,
            owner,
            phase: Phase::Waiting,
            token: Token::ZERO,
            created_at: now,
            granted_at: now,
            renewed_at: now,
            deadline: Timestamp::NEVER,
            timeout,
            metadata,
            reason: None,
        }
    }

    pub(super) fn status(&self) -> &'static str {
        let reason = self.reason.as_deref();
        match self.phase {
            Phase::Waiting | Phase::Parked => "waiting",
            Phase::Active => "active",
            Phase::Ended(Ending::Released) => "released",
            Phase::Ended(Ending::Expired) => "expired",
            Phase::Ended(Ending::Revoked) => match reason {
                Some("aborted") => "aborted",
                Some("withdrawn") => "withdrawn",
                _ => "revoked",
            },
        }
    }

    /// Its token tells: it is minted with the grant.
    fn was_granted(&self) -> bool {
        self.token != Token::ZERO
    }

    fn ended_at(&self) -> Option<Timestamp> {
        matches!(self.phase, Phase::Ended(_)).then_some(self.deadline)
    }

    /// What is left of it, if it is active. Never more than it was just given: the request came earlier.
    pub(super) fn ttl(&self, now: Timestamp) -> Option<f64> {
        let now = now.max(self.renewed_at);
        (self.phase == Phase::Active).then(|| seconds(self.deadline.since(now)))
    }

    pub(super) fn active_duration(&self, now: Timestamp) -> Option<f64> {
        let until = self.ended_at().unwrap_or(now);
        self.was_granted().then(|| seconds(until.since(self.granted_at)))
    }

    pub(super) fn waiting_duration(&self, now: Timestamp) -> Option<f64> {
        let until =
            if self.was_granted() { self.granted_at } else { self.ended_at().unwrap_or(now) };
        Some(seconds(until.since(self.created_at)))
    }

    /// In whole seconds since 1970, as it is shown.
    pub(super) fn created_s(&self, app: &App) -> i64 {
        app.engine.wall_ms_of(self.created_at).div_euclid(1000)
    }

    pub(super) fn url(&self, base: &str) -> String {
        format!("{base}/v1/claims/{}/", self.number.0)
    }

    fn history(&self, app: &App) -> Vec<Step> {
        let step =
            |status, at| Step { status, timestamp: date::rfc2822(app.engine.wall_ms_of(at)) };
        let waiting = Some(step("waiting", self.created_at));
        let active = self.was_granted().then(|| step("active", self.granted_at));
        let ended = self.ended_at().map(|at| step(self.status(), at));
        waiting.into_iter().chain(active).chain(ended).collect()
    }

    pub(super) fn show(&self, app: &App, base: &str, now: Timestamp) -> ClaimBody<'_> {
        let metadata: Option<&RawValue> =
            self.metadata.as_deref().and_then(|bytes| serde_json::from_slice(bytes).ok());
        ClaimBody {
            url: self.url(base),
            resource: self.lock.name.to_string(),
            principal: owner::vouched(&self.owner),
            status: self.status(),
            created: date::rfc2822(app.engine.wall_ms_of(self.created_at)),
            timeout: seconds(self.timeout),
            ttl: self.ttl(now),
            active_duration: self.active_duration(now),
            waiting_duration: self.waiting_duration(now),
            status_history: self.history(app),
            user_data: metadata,
            metadata,
            fencing_token: self.was_granted().then(|| self.token.get()),
        }
    }
}

/// A claim on the wire.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Claim")]
pub(super) struct ClaimBody<'a> {
    /// Its address.
    url: String,
    resource: String,
    /// The principal of whoever made it; left out if nobody vouches for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<&'a str>,
    #[schemars(extend("enum" = STATUSES))]
    status: &'static str,
    /// RFC 2822, UTC.
    created: String,
    /// Seconds it lasts from the moment it becomes active.
    timeout: f64,
    /// Seconds left of it, if it is active.
    ttl: Option<f64>,
    /// Seconds it has been active, or was.
    active_duration: Option<f64>,
    /// Seconds it has waited, or did.
    waiting_duration: Option<f64>,
    status_history: Vec<Step>,
    /// As it came.
    metadata: Option<&'a RawValue>,
    /// The same.
    user_data: Option<&'a RawValue>,
    /// `null` until it is active.
    fencing_token: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Step {
    #[schemars(extend("enum" = STATUSES))]
    status: &'static str,
    /// RFC 2822, UTC.
    timestamp: String,
}
