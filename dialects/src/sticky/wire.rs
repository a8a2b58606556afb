//! The types of the API.

use std::borrow::Cow;

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use leasehold_base::calendar;
use leasehold_core::{Dialect as Number, LapseRecord, LockView, Owner, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::App;
use crate::{Dialect, owner};

/// Builds a JSON response that must not be cached, because the state of a lock changes at any time.
pub(super) fn answer(status: StatusCode, body: impl Serialize) -> Response {
    (status, [(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

/// The client holds the lock.
#[derive(Serialize, JsonSchema)]
pub(super) struct Acquired<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'a str,
    pub(super) message: String,
    pub(super) expires_at: Option<String>,
    /// Milliseconds left when this response was made.
    pub(super) expires_in_ms: Option<u64>,
    /// How many milliseconds the client holds the lock at least, counted from when it sent the request.
    pub(super) expires_after_send_ms: Option<u64>,
    pub(super) fencing_token: u64,
}

/// The lock is held by another client.
#[derive(Serialize, JsonSchema)]
pub(super) struct Held<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'a str,
    /// The principal of the holder; omitted if the holder is anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<&'a str>,
    pub(super) message: &'static str,
    /// `null` if the lock never expires, which is possible in some dialects.
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
    /// The principal of the last holder; omitted if it is anonymous.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<&'a str>,
    pub(super) grace_until: String,
}

/// The lock is released.
#[derive(Serialize, JsonSchema)]
pub(super) struct Released<'a> {
    pub(super) success: bool,
    pub(super) job: &'a str,
    pub(super) holder: &'static str,
    pub(super) message: &'static str,
}

/// The state of a lock.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Status<'a> {
    /// A client holds the lock, or it held the lock last and no other client has acquired the lock since. Both times
    /// are `null` if the lease never expires.
    Known {
        success: bool,
        holder: Cow<'a, str>,
        /// The principal of the holder; omitted if the holder is anonymous.
        #[serde(skip_serializing_if = "Option::is_none")]
        principal: Option<&'a str>,
        expires_at: Option<String>,
        is_expired: bool,
        grace_until: Option<String>,
        job: &'a str,
        message: &'static str,
    },
    /// The lock is free, and its last lease did not expire.
    Free {
        success: bool,
        holder: &'static str,
        is_expired: bool,
        job: &'a str,
        message: &'static str,
    },
}

/// Returns the state of a lock for a request at `now`. After its grace period, the last holder stays visible until the
/// lock is acquired, released or forgotten. This applies only to holders of this dialect, where it has a meaning.
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

/// Returns a lock time as wall-clock time, for people.
pub(super) fn shown(app: &App, at: Timestamp) -> String {
    calendar::to_seconds(app.engine.wall_ms_of(at))
}
