//! This dialect's chapter of the OpenAPI document.

use leasehold_api::{
    AcquireAllRequest, AcquireRequest, Acquired, AcquiredAll, AuthState, BackupTaken,
    CancelRequest, Cancelled, Event, Failure, FenceCheck, FenceVerdict, Gap, History, KeptAlive,
    LeaseEnd, LockList, LockState, Maintenance, MaintenanceRequest, NotAcquired, NotReleased,
    NotRenewed, NotRenewedAll, OpenSessionRequest, ReleaseAllRequest, ReleaseRequest, Released,
    ReleasedAll, RenewAllRequest, RenewRequest, Renewed, RevokeAllRequest, RevokeRequest, Revoked,
    RevokedAll, SessionList, SessionOpened, WatchLeaseRequest, WatchedLease,
};
use leasehold_core::Limits;
use serde_json::{Value, json};

use super::event::WatchParams;
use super::history::HistoryParams;
use super::list::ListParams;
use super::operator::SessionParams;
use crate::app::App;
use crate::contract::{Chapter, Operation, millis, text, whole};

/// Error statuses that any request with a body can return.
const BODY: &[u16] = &[400, 408, 413, 415, 503];
const NO_BODY: &[u16] = &[400, 503];
/// Parameters of OpenAPI links: where a follow-up request finds its path parameter in this response.
const LOCK: (&str, &str) = ("lock", "$response.body#/lock_name");
const SESSION: (&str, &str) = ("session", "$response.body#/session_id");

pub(crate) fn chapter(app: &App) -> Chapter {
    let limits = &app.limits;
    let chapter = Chapter::new("locks", "The native protocol: locks, sessions, events");
    bounded(chapter, limits)
        .with(in_namespaces(locks(limits), limits))
        .with(in_namespaces(groups(), limits))
        .with(in_namespaces(vec![events(), history()], limits))
        .with(sessions())
        .with(operator())
        .with([fence(), backup(), auth()])
        .guarded::<Failure>()
}

fn locks(limits: &Limits) -> Vec<Operation> {
    let name = text(1..=limits.name_bytes_max);
    let on_lock = |method, tail: &str, id: &str, summary| {
        let path = format!("/v1/locks/{{lock}}{tail}");
        Operation::new(method, path, id, summary).in_path("lock", name.clone(), "The lock's name.")
    };
    vec![
        Operation::new("get", "/v1/locks", "listLocks", "List locks")
            .query::<ListParams>()
            .answer::<LockList>(200, "A page of locks.")
            .refuse::<Failure>(NO_BODY),
        on_lock("get", "", "lookAtLock", "Read a lock")
            .answer::<LockState>(200, "The state of the lock, even if it was never used.")
            .refuse::<Failure>(NO_BODY),
        on_lock("post", "/acquire", "acquire", "Acquire a lock, or wait for it")
            .about(
                "`ttl_ms` is optional only with a `session_id`. `limit` cannot be combined with `mode`, and \
                 `grace_ms` needs an exclusive lease. If a request gets no response, repeat it with the same \
                 `request_id`.",
            )
            .body::<AcquireRequest>()
            .answer::<Acquired>(200, "The lock is acquired.")
            .next_with(200, "renew", &[LOCK], proof(json!({"extend_by_ms": 1000})))
            .next_with(200, "release", &[LOCK], proof(json!({})))
            .answer::<NotAcquired>(409, "The lock is held, reserved or waited for.")
            .answer::<Failure>(409, "The `request_id` or `limit` conflicts with an earlier request.")
            .refuse::<Failure>(BODY)
            .refuse::<Failure>(&[404, 429]),
        on_lock("post", "/renew", "renew", "Renew a lease")
            .body::<RenewRequest>()
            .answer::<Renewed>(200, "The lease is renewed.")
            .answer::<NotRenewed>(409, "Lease not found, expired, or owned by another client.")
            .answer::<Failure>(409, "The `request_id` was used for another request.")
            .refuse::<Failure>(BODY),
        on_lock("post", "/release", "release", "Release a lock")
            .body::<ReleaseRequest>()
            .answer::<Released>(200, "The lock is free, or granted to the next waiter.")
            .answer::<NotReleased>(409, "Lease not found, expired, or owned by another client.")
            .answer::<Failure>(409, "The `request_id` was used for another request.")
            .refuse::<Failure>(BODY),
        on_lock("post", "/revoke", "revoke", "Revoke all leases of a lock")
            .body::<RevokeRequest>()
            .answer::<Revoked>(200, "The leases that were revoked.")
            .refuse::<Failure>(BODY),
        on_lock("get", "/history", "historyOfLock", "Read the history of a lock")
            .query::<HistoryParams>()
            .answer::<History>(200, "A page of events, newest first.")
            .refuse::<Failure>(&[400, 500]),
        on_lock("post", "/cancel", "cancelOne", "End your own wait for a lock")
            .body::<CancelRequest>()
            .answer::<Cancelled>(200, "Whether there was a wait.")
            .answer::<Failure>(409, "The `request_id` belongs to a wait for another lock.")
            .refuse::<Failure>(BODY),
        on_lock("post", "/watch", "watchLease", "Watch your own lease")
            .about(
                "An event stream: `watching` first, `ended` last. A server that cannot reach its store ends it with \
                 `stale`. The lease's proof is sufficient.",
            )
            .body::<WatchLeaseRequest>()
            .answer_events::<LeaseEnd, WatchedLease>(200, "Server-Sent Events.")
            .answer::<Failure>(409, "The lease is not found, expired, or owned by another client.")
            .refuse::<Failure>(BODY),
    ]
}

fn operator() -> Vec<Operation> {
    let maintenance = |method, id: &str, summary| {
        Operation::new(method, "/v1/admin/maintenance", id, summary)
            .answer::<Maintenance>(200, "Whether it is on.")
    };
    vec![
        Operation::new(
            "post",
            "/v1/revoke",
            "revokeAll",
            "Revoke all leases of an owner, session or principal",
        )
        .about("Exactly one of `owner`, `session` and `principal`. In slices, not in one step.")
        .body::<RevokeAllRequest>()
        .answer::<RevokedAll>(200, "What was revoked, or would be.")
        .refuse::<Failure>(BODY),
        maintenance("get", "lookAtMaintenance", "Read the maintenance mode")
            .refuse::<Failure>(&[503]),
        maintenance("put", "setMaintenance", "Start or end maintenance")
            .about("During maintenance, no lock can be acquired. Renewals and releases work.")
            .body::<MaintenanceRequest>()
            .refuse::<Failure>(BODY),
        Operation::new("get", "/v1/admin/sessions", "listSessions", "List sessions")
            .query::<SessionParams>()
            .answer::<SessionList>(200, "A page of sessions, in the order of their numbers.")
            .refuse::<Failure>(NO_BODY),
        Operation::new("delete", "/v1/admin/sessions/{number}", "endSession", "End a session")
            .in_path("number", whole(0..=u64::MAX), "The session's number.")
            .answer_empty(204, "The session has ended, and its leases are revoked.")
            .refuse::<Failure>(&[400, 404, 503]),
    ]
}

fn groups() -> Vec<Operation> {
    let post = |tail: &str, id: &str, summary| {
        Operation::new("post", format!("/v1/{tail}"), id, summary).refuse::<Failure>(BODY)
    };
    vec![
        post("acquire", "acquireAll", "Acquire several locks or none, or wait for all of them")
            .about(
                "All leases are granted at the same moment, or none is. No other request overtakes a waiting group, \
                 so no request waits forever and no two groups wait for each other.",
            )
            .body::<AcquireAllRequest>()
            .answer::<AcquiredAll>(200, "All the locks are held.")
            .answer::<NotAcquired>(409, "The first unavailable lock.")
            .answer::<Failure>(409, "The `request_id` or a `limit` conflicts with an earlier request.")
            .refuse::<Failure>(&[404, 429]),
        post("renew", "renewAll", "Renew several leases, or none")
            .body::<RenewAllRequest>()
            .answer::<Renewed>(200, "All leases are renewed.")
            .answer::<NotRenewedAll>(409, "The first lease that is lost; none was renewed."),
        post("release", "releaseAll", "Release several locks")
            .body::<ReleaseAllRequest>()
            .answer::<ReleasedAll>(200, "The result for each lock.")
            .answer::<ReleasedAll>(409, "No lease was active."),
        post("cancel", "cancel", "End your own wait, for one lock or several")
            .body::<CancelRequest>()
            .answer::<Cancelled>(200, "Whether there was a wait."),
    ]
}

/// Returns the body of a follow-up request about a lease that was just acquired: its proof, and the fields in `more`.
fn proof(mut more: Value) -> Value {
    for member in ["owner_id", "lease_id", "fencing_token"] {
        more[member] = format!("$response.body#/{member}").into();
    }
    more
}

fn history() -> Operation {
    Operation::new("get", "/v1/history", "history", "Read the history of the locks of a namespace")
        .query::<HistoryParams>()
        .answer::<History>(200, "A page of events, newest first.")
        .refuse::<Failure>(&[400, 500])
}

fn events() -> Operation {
    Operation::new("get", "/v1/events", "watch", "Watch the events of locks")
        .about(
            "A stream until either side ends it. The name of an event is its `kind`; its data is JSON. `gap` means \
             that events are missing; `stale`, that events can be late, because the server cannot reach its store; \
             `current`, that they no longer are. The data of all three is `reason`.",
        )
        .query::<WatchParams>()
        .header("Last-Event-ID", json!({"type": "string"}), "The id of the last event seen.")
        .answer_events::<Event, Gap>(200, "Server-Sent Events.")
        .refuse::<Failure>(&[400])
}

fn backup() -> Operation {
    Operation::new("post", "/v1/admin/backup", "takeBackup", "Take a backup")
        .about(
            "The backup is stored in the server's `backup-dir`; the oldest beyond `backup-keep` are removed.",
        )
        .answer::<BackupTaken>(201, "The backup is complete and verified.")
        .answer::<Failure>(409, "The server has no `backup-dir`.")
        .refuse::<Failure>(&[500, 503])
}

fn auth() -> Operation {
    Operation::new("get", "/v1/admin/auth", "lookAtAuth", "Read which auth file is active")
        .answer::<AuthState>(200, "A hash of it and of all files that it names.")
}

fn sessions() -> Vec<Operation> {
    let on_session = |method, tail: &str, id: &str, summary| {
        let path = format!("/v1/sessions/{{session}}{tail}");
        let name = json!({"type": "string", "minLength": 1});
        Operation::new(method, path, id, summary)
            .in_path("session", name, "The session's id: a secret of its owner.")
            .refuse::<Failure>(&[400, 404, 503])
    };
    vec![
        Operation::new("post", "/v1/sessions", "openSession", "Open a session")
            .body::<OpenSessionRequest>()
            .answer::<SessionOpened>(201, "The session is open.")
            .next(201, "lookAtSession", &[SESSION])
            .next(201, "keepSession", &[SESSION])
            .next(201, "closeSession", &[SESSION])
            .refuse::<Failure>(BODY)
            .refuse::<Failure>(&[429]),
        on_session("get", "", "lookAtSession", "Read a session")
            .answer::<SessionOpened>(200, "The session."),
        on_session("delete", "", "closeSession", "Close a session, and release all its leases")
            .answer_empty(204, "The session is closed."),
        on_session("post", "/keepalive", "keepSession", "Keep a session and all its leases alive")
            .answer::<KeptAlive>(200, "The session is kept alive."),
    ]
}

fn fence() -> Operation {
    Operation::new("post", "/v1/fence/check", "checkFence", "Check whether a token is stale")
        .about("Advisory: a write after the check can still be late.")
        .body::<FenceCheck>()
        .answer::<FenceVerdict>(200, "Whether the token is accepted.")
        .refuse::<Failure>(BODY)
}

/// Returns the operations, and a copy of each with the namespace in the path.
fn in_namespaces(operations: Vec<Operation>, limits: &Limits) -> Vec<Operation> {
    let name = text(1..=limits.namespace_bytes_max);
    let named = |operation: &Operation| {
        let path = operation.path().replacen("/v1", "/v1/namespaces/{namespace}", 1);
        let also = operation.also(path, "In", "in any namespace").next_in_same("namespace");
        also.in_path("namespace", name.clone(), "The namespace.")
    };
    let named: Vec<_> = operations.iter().map(named).collect();
    operations.into_iter().chain(named).collect()
}

fn bounded(chapter: Chapter, limits: &Limits) -> Chapter {
    let filled = |bytes_max| json!({"minLength": 1, "maxLength": bytes_max});
    let request_id = || filled(limits.request_id_bytes_max);
    // An omitted member means the same as null.
    let none = |member: &str| json!({"properties": {member: {"type": "null"}}});
    let some = |member: &str| json!({"required": [member], "not": none(member)});
    let exclusive =
        json!({"properties": {"limit": {"type": "null"}, "mode": {"enum": ["exclusive", null]}}});
    chapter
        .rule("AcquireRequest", json!({"anyOf": [some("ttl_ms"), some("session_id")]}))
        .rule("AcquireRequest", json!({"anyOf": [none("mode"), none("limit")]}))
        .rule("AcquireRequest", json!({"anyOf": [none("grace_ms"), exclusive]}))
        .bound("AcquireRequest", "owner_id", text(1..=limits.owner_bytes_max))
        .bound("AcquireRequest", "ttl_ms", millis(1, limits.ttl_max))
        .bound("AcquireRequest", "request_id", request_id())
        .bound("AcquireRequest", "wait_ms", millis(0, limits.wait_max))
        .bound("AcquireRequest", "grace_ms", millis(0, limits.grace_max))
        .bound("AcquireRequest", "limit", json!({"minimum": 1, "maximum": limits.holders_max}))
        .rule("AcquireAllRequest", json!({"anyOf": [some("ttl_ms"), some("session_id")]}))
        .rule("WantedLock", json!({"anyOf": [none("mode"), none("limit")]}))
        .bound("AcquireAllRequest", "owner_id", text(1..=limits.owner_bytes_max))
        .bound("AcquireAllRequest", "ttl_ms", millis(1, limits.ttl_max))
        .bound("AcquireAllRequest", "request_id", request_id())
        .bound("AcquireAllRequest", "wait_ms", millis(0, limits.wait_max))
        .bound("AcquireAllRequest", "grace_ms", millis(0, limits.grace_max))
        .bound("AcquireAllRequest", "locks", json!({"minItems": 1, "maxItems": limits.group_max}))
        .bound("WantedLock", "lock_name", text(1..=limits.name_bytes_max))
        .bound("WantedLock", "limit", json!({"minimum": 1, "maximum": limits.holders_max}))
        .bound("RenewAllRequest", "extend_by_ms", millis(1, limits.ttl_max))
        .bound("RenewAllRequest", "leases", json!({"minItems": 1, "maxItems": limits.group_max}))
        .bound("ReleaseAllRequest", "leases", json!({"minItems": 1, "maxItems": limits.group_max}))
        .bound("CancelRequest", "owner_id", text(1..=limits.owner_bytes_max))
        .bound("CancelRequest", "request_id", request_id())
        .bound("RenewRequest", "extend_by_ms", millis(1, limits.ttl_max))
        .bound("RenewRequest", "request_id", request_id())
        .bound("ReleaseRequest", "request_id", request_id())
        .bound("RevokeRequest", "reason", text(1..=limits.reason_bytes_max))
        .bound("RevokeAllRequest", "reason", text(1..=limits.reason_bytes_max))
        .bound("OpenSessionRequest", "owner_id", text(1..=limits.owner_bytes_max))
        .bound("OpenSessionRequest", "ttl_ms", millis(1, limits.session_ttl_max))
        .bound("FenceCheck", "lock_name", text(1..=limits.name_bytes_max))
        .bound("FenceCheck", "namespace", filled(limits.namespace_bytes_max))
        .bound("FenceCheck", "fencing_token", whole(0..=u64::MAX))
}
