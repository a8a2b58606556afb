//! This dialect's chapter of the OpenAPI document.

use leasehold_core::Limits;
use serde_json::{Value, json};

use super::claim;
use super::error::{Conflict, Faults, Message};
use super::filter::LIMIT_MAX;
use super::wire::{ClaimBody, STATUSES};
use crate::app::App;
use crate::contract::{Chapter, Operation, seconds, text, whole};

/// Error statuses that any request with a body can return.
const BODY: &[u16] = &[408, 413, 415, 503];

pub(crate) fn chapter(app: &App) -> Chapter {
    let operations =
        [list(), create(&app.limits), look(app), change("patch", app), change("put", app)];
    let bare = operations.each_ref().map(|operation| {
        operation.also(operation.path().trim_end_matches('/'), "Bare", "without the slash")
    });
    let about =
        "A queue of claims for each resource. Every path works with and without its last slash";
    Chapter::new("claims", about).with(operations).with(bare).guarded::<Message>()
}

fn create(limits: &Limits) -> Operation {
    let timeout = seconds(limits.ttl_max);
    let body = json!({
        "type": "object",
        "properties": {
            "resource": text(1..=limits.name_bytes_max),
            "timeout": described(timeout.clone(), "Duration in seconds, from the moment it becomes active."),
            "ttl": described(timeout, "Alias of `timeout`."),
            "metadata": {"description": "Any JSON; returned unchanged."},
            "user_data": {"description": "Alias of `metadata`."},
        },
        "required": ["resource"],
        "oneOf": [{"required": ["timeout"]}, {"required": ["ttl"]}],
        "not": {"required": ["metadata", "user_data"]},
        "additionalProperties": false,
    });
    Operation::new("post", "/v1/claims/", "createClaim", "Claim a resource")
        .body_like(body)
        .answer::<ClaimBody>(201, "The claim is active.")
        .answer_header(201, "Location")
        .answer::<ClaimBody>(202, "The claim waits.")
        .answer_header(202, "Location")
        .refuse::<Faults>(&[400])
        .refuse::<Conflict>(&[409])
        .refuse::<Message>(BODY)
        .refuse::<Message>(&[429])
}

fn list() -> Operation {
    let number = || json!({"type": "number"});
    let date = || json!({"type": "string", "examples": ["Sun, 15 Nov 2026 02:18:43 -0000", "2026-11-15T02:18:43Z"]});
    let list = Operation::new("get", "/v1/claims/", "listClaims", "List claims")
        .in_query(
            "resource",
            json!({"type": "string", "minLength": 1}),
            false,
            "Only claims of this resource.",
        )
        .in_query("status", json!({"enum": STATUSES}), false, "Only claims with this status.")
        .in_query("ttl", number(), false, "Only claims with this many seconds left.")
        .in_query(
            "created",
            date(),
            false,
            "Only claims created at this time: RFC 2822 or ISO 8601.",
        )
        .in_query("limit", whole(1..=LIMIT_MAX as u64), false, "Maximum number of claims.")
        .in_query("offset", whole(0..=u64::MAX), false, "Number of claims to skip.");
    let bounds = [("minimum", "At least this."), ("maximum", "At most this.")];
    let list = bounds.into_iter().fold(list, |list, (bound, about)| {
        let fields = ["ttl", "active_duration", "waiting_duration"];
        let list = list.in_query(&format!("{bound}_created"), date(), false, about);
        fields.into_iter().fold(list, |list, field| {
            list.in_query(&format!("{bound}_{field}"), number(), false, about)
        })
    });
    list.answer::<Vec<ClaimBody>>(200, "A page of claims, oldest first.")
        .answer_header(200, "Link")
        .refuse::<Faults>(&[400])
        .refuse::<Message>(&[503])
}

fn on_claim(method: &'static str, id: &str, summary: &str) -> Operation {
    Operation::new(method, "/v1/claims/{id}/", id, summary)
        .in_path("id", whole(0..=u64::MAX), "The claim's number.")
        .refuse::<Faults>(&[400])
        .refuse::<Message>(&[404])
}

fn look(app: &App) -> Operation {
    let longest = super::wire::seconds(claim::wait_max(&app.limits));
    let about = format!(
        "Respond when the claim no longer waits, or after this many seconds, at most {longest}."
    );
    on_claim("get", "lookAtClaim", "Read a claim, or wait for it")
        .in_query("wait", json!({"type": "number", "minimum": 0}), false, &about)
        .answer::<ClaimBody>(200, "The claim.")
        .refuse::<Message>(&[503])
}

fn change(method: &'static str, app: &App) -> Operation {
    let settable: Vec<_> =
        STATUSES.iter().filter(|status| !["waiting", "expired"].contains(status)).collect();
    let time = seconds(app.limits.ttl_max);
    let body = json!({
        "type": "object",
        "properties": {
            "status": {"enum": settable},
            "ttl": described(time.clone(), "Duration of an active claim in seconds, from now."),
            "timeout": described(time, "Duration in seconds, from the moment it becomes active."),
        },
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": false,
    });
    on_claim(method, &format!("{method}Claim"), "Change one property of a claim")
        .body_like(body)
        .answer::<ClaimBody>(200, "The claim, changed.")
        .answer_empty(204, "The claim has ended.")
        .refuse::<Conflict>(&[409])
        .refuse::<Message>(BODY)
}

fn described(mut shape: Value, about: &str) -> Value {
    shape["description"] = about.into();
    shape
}
