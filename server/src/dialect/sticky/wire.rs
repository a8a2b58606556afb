//! The shapes on the wire.

use std::borrow::Cow;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_base::calendar;
use leasehold_core::{Dialect as Number, LapseRecord, LockView, Owner, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::dialect::{Dialect, owner};

/// What is said of a lock is true for a moment: nobody may keep it.
pub(super) fn answer(status: StatusCode, body: impl Serialize) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// The lock is the client's.
#[derive(Serialize, JsonSchema)]
pub(super) struct Acquired<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'a str,
    pub(super) message: String,
    pub(super) expires_at: Option<String>,
    /// Milliseconds left when this answer was made.
    pub(super) expires_in_ms: Option<u64>,
    /// From the time the request was sent, the lock is the client's at least this long.
    pub(super) expires_after_send_ms: Option<u64>,
    pub(super) fencing_token: u64,
}

/// The lock is somebody else's.
#[derive(Serialize, JsonSchema)]
pub(super) struct Held<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'a str,
    /// The principal of the holder; left out if nobody vouches for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<&'a str>,
    pub(super) message: &'static str,
    /// `null` if it never expires: not every dialect's leases do.
    pub(super) expires_at: Option<String>,
}

/// The lock is reserved for its last holder.
#[derive(Serialize, JsonSchema)]
pub(super) struct InGrace<'a> {
    pub(super) error: &'static str,
    pub(super) message: &'static str,
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'a str,
    /// The principal of the holder; left out if nobody vouches for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<&'a str>,
    pub(super) grace_until: String,
}

/// The lock is nobody's any more.
#[derive(Serialize, JsonSchema)]
pub(super) struct Released<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'static str,
    pub(super) message: &'static str,
}

/// How a lock stands.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Status<'a> {
    /// Somebody has it, or had it last and nobody took it since. Both times are `null` if it never expires.
    Known {
        success: bool,
        holder: Cow<'a, str>,
        /// The principal of the holder; left out if nobody vouches for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        principal: Option<&'a str>,
        expires_at: Option<String>,
        is_expired: bool,
        grace_until: Option<String>,
        job: &'a str,
        message: &'static str,
    },
    /// It is anybody's, and nobody let it expire.
    Free {
        success: bool,
        holder: &'static str,
        is_expired: bool,
        job: &'a str,
        message: &'static str,
    },
}

/// A lock as it is shown to whoever asked at `now`. Past its grace period the last holder stays visible until somebody
/// takes the lock, it is released or it is forgotten; but only one of this dialect, which is where it means something.
pub(super) fn status<'a>(
    app: &App,
    job: &'a str,
    view: &'a LockView,
    now: Timestamp,
) -> Status<'a> {
    let known = |(dialect, holder): (Number, &'a Owner),
                 expires_at: Option<Timestamp>,
                 is_expired,
                 grace_until| Status::Known {
        success: true,
        holder: owner::shown(dialect, holder),
        principal: owner::vouched(holder),
        expires_at: expires_at.map(|at| shown(app, at)),
        is_expired,
        grace_until,
        job,
        message: "lock held",
    };
    if let Some(lease) = view.holders.first() {
        let grace_until = lease.deadline.map(|deadline| shown(app, deadline + lease.grace));
        return known((lease.dialect, &lease.owner), lease.deadline, false, grace_until);
    }
    match view.lapse.as_ref().filter(|lapse| is_shown(lapse, now)) {
        Some(lapse) => {
            let grace_until = Some(shown(app, lapse.grace_until));
            known((lapse.dialect, &lapse.owner), Some(lapse.expired_at), true, grace_until)
        }
        None => {
            let message = "no lock held";
            Status::Free { success: true, holder: "", is_expired: true, job, message }
        }
    }
}

fn is_shown(lapse: &LapseRecord, now: Timestamp) -> bool {
    now < lapse.grace_until || lapse.dialect == Dialect::Sticky.number()
}

/// A lock time as people read it.
pub(super) fn shown(app: &App, at: Timestamp) -> String {
    calendar::to_seconds(app.engine.wall_ms_of(at))
}
