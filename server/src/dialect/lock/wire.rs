//! The shapes on the wire.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_core::{LockView, Timestamp};
use serde::Serialize;

use super::time::rfc3339;
use crate::app::App;

/// What is said of a lock is true for a moment: nobody may keep it.
pub(super) fn answer(status: StatusCode, body: impl Serialize) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// The lock is the client's.
#[derive(Serialize)]
pub(super) struct Acquired<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'a str,
    pub(super) message: String,
    pub(super) expires_at: Option<String>,
    pub(super) expires_in_ms: Option<u64>,
    pub(super) fencing_token: u64,
}

/// The lock is somebody else's.
#[derive(Serialize)]
pub(super) struct Held<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'a str,
    pub(super) message: &'static str,
    /// `null` if it never expires: not every dialect's leases do.
    pub(super) expires_at: Option<String>,
}

/// The lock is reserved for its last holder.
#[derive(Serialize)]
pub(super) struct InGrace<'a> {
    pub(super) error: &'static str,
    pub(super) message: &'static str,
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'a str,
    pub(super) grace_until: String,
}

/// The lock is nobody's any more.
#[derive(Serialize)]
pub(super) struct Released<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'static str,
    pub(super) message: &'static str,
}

/// How a lock stands.
#[derive(Serialize)]
pub(super) struct Status<'a> {
    holder: &'a str,
    #[serde(flatten)]
    times: Option<Times>,
    is_expired: bool,
    job: &'a str,
    message: &'static str,
}

/// Both are `null` if the lock never expires.
#[derive(Serialize)]
struct Times {
    expires_at: Option<String>,
    grace_until: Option<String>,
}

/// A lock as it is shown to whoever asked at `now`.
pub(super) fn status<'a>(
    app: &App,
    job: &'a str,
    view: &'a LockView,
    now: Timestamp,
) -> Status<'a> {
    if let Some(lease) = view.holders.first() {
        let expires_at = lease.deadline.map(|deadline| shown(app, deadline));
        let grace_until = lease.deadline.map(|deadline| shown(app, deadline + app.grace));
        let times = Some(Times { expires_at, grace_until });
        let holder = &lease.owner.instance;
        return Status { holder, times, is_expired: false, job, message: "held" };
    }
    if let Some(lapse) = view.lapse.as_ref().filter(|lapse| now < lapse.grace_until) {
        let expires_at = Some(shown(app, lapse.expired_at));
        let grace_until = Some(shown(app, lapse.grace_until));
        let times = Some(Times { expires_at, grace_until });
        let holder = &lapse.owner.instance;
        return Status { holder, times, is_expired: true, job, message: "grace period active" };
    }
    Status { holder: "", times: None, is_expired: true, job, message: "no lock" }
}

/// A lock time as people read it.
pub(super) fn shown(app: &App, at: Timestamp) -> String {
    rfc3339(app.engine.wall_ms_of(at))
}
