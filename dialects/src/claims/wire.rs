//! The types of the API, and conversions between them and those of the core.

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
use crate::owner;

/// All possible statuses of a claim.
pub(super) const STATUSES: [&str; 7] =
    ["waiting", "active", "released", "expired", "revoked", "aborted", "withdrawn"];

/// Returns the owner of a new claim. The engine appends the lease's number.
pub(super) fn owner_of(caller: &Caller) -> Owner {
    owner::of(caller, "claim:")
}

pub(super) fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

/// A lease as this protocol shows it.
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
    /// When an active claim expires, or when an ended one ended.
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
    pub(super) fn principal(&self) -> &str {
        &self.owner.principal
    }

    /// Returns the claim as a command left it. A later read could find it expired if its TTL is short.
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

    /// Returns a claim that was queued at `now`.
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

    /// Returns whether the claim was ever active. A claim has a fencing token from its grant on.
    fn was_granted(&self) -> bool {
        self.token != Token::ZERO
    }

    fn ended_at(&self) -> Option<Timestamp> {
        matches!(self.phase, Phase::Ended(_)).then_some(self.deadline)
    }

    /// Returns the time left if the claim is active. It is never more than the TTL of the last grant or renewal: `now`
    /// is when the request arrived, which is earlier.
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

    /// Returns the creation time in whole seconds since 1970, the precision of responses.
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

/// A claim.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Claim")]
pub(super) struct ClaimBody<'a> {
    /// The URL of the claim.
    url: String,
    resource: String,
    /// The principal that made the claim; omitted if the claim was made without authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    principal: Option<&'a str>,
    #[schemars(extend("enum" = STATUSES))]
    status: &'static str,
    /// When the claim was made: RFC 2822, UTC.
    created: String,
    /// How many seconds the claim lasts once it is active.
    timeout: f64,
    /// How many seconds an active claim has left.
    ttl: Option<f64>,
    /// How many seconds the claim has been active, or was active until it ended.
    active_duration: Option<f64>,
    /// How many seconds the claim has waited, or waited until it became active or ended.
    waiting_duration: Option<f64>,
    status_history: Vec<Step>,
    /// The metadata as the client sent it.
    metadata: Option<&'a RawValue>,
    /// The same as `metadata`.
    user_data: Option<&'a RawValue>,
    /// `null` until the claim is active.
    fencing_token: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Step {
    #[schemars(extend("enum" = STATUSES))]
    status: &'static str,
    /// When the claim got this status: RFC 2822, UTC.
    timestamp: String,
}
