//! This dialect's chapter of the OpenAPI document.

use serde_json::json;

use super::error::Failure;
use super::page;
use super::wire::{Acquired, Held, InGrace, Released, Status};
use crate::app::App;
use crate::contract::{Chapter, Operation, text};

pub(crate) fn chapter(app: &App) -> Chapter {
    let on_lock = |method, id: &str, summary| {
        let name = text(0..=app.limits.name_bytes_max);
        Operation::new(method, "/lock", id, summary)
            .in_query("job", name, false, "Name of the lock; `default` if empty or missing.")
            .refuse::<Failure>(&[400, 500, 503])
    };
    let of_client = |operation: Operation| {
        let name = text(1..=app.limits.owner_bytes_max);
        operation.in_query("client", name, true, "The name of the client.")
    };
    let ttl = json!({"type": "string", "examples": ["30s", "1h30m", "1.5s", "500ms"]});
    Chapter::new(
        "lock",
        "The sticky lock with grace. Responses must not be cached: each has `Cache-Control: no-store`",
    )
    .with([
        on_lock("get", "lookAtJob", "Read a lock")
            .answer::<Status>(200, "The state of the lock, even if it was never used."),
        of_client(on_lock("post", "acquireJob", "Acquire or renew a lock"))
            .in_query(
                "ttl",
                ttl,
                false,
                "Lease duration from now, in Go syntax; `30s` if missing.",
            )
            .answer::<Acquired>(200, "The lock is acquired or renewed.")
            .answer::<Held>(409, "The lock is held by another client.")
            .answer::<InGrace>(409, "The lock is reserved for its last holder.")
            .answer::<Failure>(409, "The lock cannot be acquired.")
            .refuse::<Failure>(&[429]),
        of_client(on_lock("delete", "releaseJob", "Release a lock"))
            .answer::<Released>(200, "The lock is released.")
            .answer::<Failure>(403, "The client does not hold the lock."),
        Operation::new("get", "/lock/page", "lockPage", "A page with all locks")
            .answer_text(200, page::HTML, "A page that refreshes automatically.")
            .answer::<Failure>(503, "The server is busy."),
    ])
    .guarded::<Failure>()
}
