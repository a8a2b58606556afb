//! This dialect's chapter of the OpenAPI document.

use serde_json::json;

use super::error::Failure;
use super::wire::{
    self, AcquireRequest, ForceReleaseRequest, Health, Lease, LockState, ReleaseRequest,
    RenewRequest,
};
use crate::app::App;
use crate::contract::{Chapter, Operation, text, whole};

/// Error statuses that any request with a body can return.
const BODY: &[u16] = &[400, 408, 413, 415, 500, 503];
/// Parameters of OpenAPI links: where a follow-up request finds its path parameter in this response.
const LEASE: (&str, &str) = ("lease", "$response.body#/lease_id");

pub(crate) fn chapter(app: &App) -> Chapter {
    let chapter = Chapter::new("leases", "LS-SPEC-001: leases of a tenant's locks");
    let health = Operation::new("get", "/health", "health", "Is the server healthy?")
        .answer::<Health>(200, "The server is healthy.");
    let chapter = bounded(chapter, app).with(leases()).with(locks(app));
    chapter.guarded::<Failure>().with([health])
}

fn leases() -> Vec<Operation> {
    let post = |path: &str, id: &str, summary| {
        let about = "The owner id of the caller; if given, `owner_id` must be the same.";
        Operation::new("post", path, id, summary).header(
            "x-owner-id",
            json!({"type": "string"}),
            about,
        )
    };
    let on_lease = |tail: &str, id: &str, summary| {
        let name = json!({"type": "string", "minLength": 1});
        post(&format!("/leases/{{lease}}{tail}"), id, summary)
            .in_path("lease", name, "The `lease_id`.")
            .refuse::<Failure>(&[404])
    };
    let leases = [
        post("/leases/acquire", "acquireLease", "Acquire a lock")
            .body::<AcquireRequest>()
            .answer::<Lease>(201, "The lease; the same one if this `request_id` was used before.")
            .next(201, "renewLease", &[LEASE])
            .next(201, "releaseLease", &[LEASE])
            .refuse::<Failure>(&[429]),
        on_lease("/renew", "renewLease", "Renew a lease")
            .body::<RenewRequest>()
            .answer::<Lease>(200, "The lease, which expires `ttl_seconds` from now."),
        on_lease("/release", "releaseLease", "Release a lease")
            .body::<ReleaseRequest>()
            .answer::<Lease>(200, "The lease, `RELEASED`."),
    ];
    leases.map(|lease| lease.refuse::<Failure>(BODY).refuse::<Failure>(&[401, 409])).into()
}

fn locks(app: &App) -> [Operation; 2] {
    let on_lock = |method, tail: &str, id: &str, summary| {
        let name = text(1..=app.limits.name_bytes_max);
        let path = format!("/locks/{{lock}}{tail}");
        Operation::new(method, path, id, summary).in_path("lock", name, "The `lock_key`.")
    };
    [
        on_lock("get", "", "lookAtLease", "Read a lock")
            .in_query(
                "tenant_id",
                text(1..=wire::tenant_bytes_max(app)),
                true,
                "The tenant of the lock.",
            )
            .answer::<LockState>(200, "The state of the lock, even if it was never used.")
            .refuse::<Failure>(&[400, 500, 503]),
        on_lock("post", "/force-release", "forceRelease", "Force the release of a lock")
            .header("x-role", json!({"type": "string"}), "Must be `ADMIN`.")
            .body::<ForceReleaseRequest>()
            .answer::<LockState>(200, "The lock, with the lease that was released by force.")
            .refuse::<Failure>(BODY)
            .refuse::<Failure>(&[403]),
    ]
}

fn bounded(chapter: Chapter, app: &App) -> Chapter {
    let (limits, told) = (&app.limits, &app.dialect);
    let ttl = || whole(told.leases.ttl_seconds_min..=told.leases.ttl_seconds_max);
    let tenant = || text(1..=wire::tenant_bytes_max(app));
    let owner = || text(1..=limits.owner_bytes_max);
    let request_id = || text(1..=limits.request_id_bytes_max);
    chapter
        .bound("AcquireRequest", "tenant_id", tenant())
        .bound("AcquireRequest", "lock_key", text(1..=limits.name_bytes_max))
        .bound("AcquireRequest", "owner_id", owner())
        .bound("AcquireRequest", "request_id", request_id())
        .bound("AcquireRequest", "ttl_seconds", ttl())
        .bound("RenewRequest", "owner_id", owner())
        .bound("RenewRequest", "request_id", request_id())
        .bound("RenewRequest", "ttl_seconds", ttl())
        .bound("ReleaseRequest", "owner_id", owner())
        .bound("ReleaseRequest", "request_id", request_id())
        .bound("ForceReleaseRequest", "tenant_id", tenant())
        .bound("ForceReleaseRequest", "actor", owner())
        .bound("ForceReleaseRequest", "reason", json!({"maxLength": limits.reason_bytes_max}))
}
