//! This dialect's chapter of the OpenAPI document. OpenAPI does not support the methods `LOCK` and `UNLOCK`, which are
//! the same as `POST` and `DELETE` of `lock`.

use leasehold_api::{Failure, StateVersions, StateWritten, TerraformStates};
use serde_json::{Value, json};

use super::info::LockInfo;
use crate::app::App;
use crate::contract::{Chapter, Operation, text};

/// Error statuses that any request can return.
const ANY: &[u16] = &[400, 500, 503];

const UNLOCK: &str = "Needs the body that was sent to lock it. Without a body, releases the lock of any holder, as \
    `terraform force-unlock` does.";

pub(crate) fn chapter(app: &App) -> Chapter {
    let about = "Terraform `http` backend. A state is one segment of the path: a slash in its name is `%2F`. `LOCK` \
        and `UNLOCK` of the state are also `POST` and `DELETE` of its `lock`";
    let name_max = app.limits.name_bytes_max;
    let on = move |method, path: &str, id: &str, summary: &str| {
        let operation = Operation::new(method, path, id, summary);
        operation
            .in_path("state", text(1..=name_max), "The name of the state.")
            .refuse::<Failure>(ANY)
    };
    let list = Operation::new("get", "/terraform", "listTerraformStates", "All states")
        .answer::<TerraformStates>(200, "The states that the caller may read.")
        .refuse::<Failure>(ANY);
    let read = on("get", "/terraform/{state}", "readTerraformState", "Read a state")
        .answer_bytes(200, "The current state.")
        .answer_header(200, "ETag")
        .refuse::<Failure>(&[404]);
    let write = |method, id| {
        under_lock(on(method, "/terraform/{state}", id, "Write a state"))
            .body_bytes()
            .refuse::<Failure>(&[408, 413])
    };
    let info = lock_info(app);
    let lock = |method, id| {
        on(method, "/terraform/{state}/lock", id, "Lock a state")
            .body_like(info.clone())
            .answer::<LockInfo>(
                200,
                "The caller holds the lock. The same `ID` again is the same lock.",
            )
            .answer::<LockInfo>(423, "The holder.")
            .refuse::<Failure>(&[408, 409, 413])
    };
    let unlock = on("delete", "/terraform/{state}/lock", "unlockTerraformState", "Unlock a state")
        .about(UNLOCK)
        .answer_object(200, "The lock is free.")
        .answer::<LockInfo>(409, "Another client holds it.")
        .refuse::<Failure>(&[408, 413]);
    let versions = "/terraform/{state}/versions";
    let list_versions = on("get", versions, "listTerraformVersions", "List the stored versions")
        .answer::<StateVersions>(200, "Latest first.")
        .refuse::<Failure>(&[404]);
    let one = |method, path, id, summary| {
        let version = json!({"type": "integer", "minimum": 1, "maximum": i64::MAX});
        let operation = on(method, path, id, summary).in_path("version", version, "Its number.");
        operation.refuse::<Failure>(&[404])
    };
    let version = "/terraform/{state}/versions/{version}";
    let read_version = one("get", version, "readTerraformVersion", "Read an earlier version")
        .answer_bytes(200, "The earlier state.")
        .answer_header(200, "ETag");
    let restore = "/terraform/{state}/versions/{version}/restore";
    let restore =
        one("post", restore, "restoreTerraformVersion", "Roll back to an earlier version");
    Chapter::new("terraform", about)
        .with([
            list,
            read,
            write("post", "writeTerraformState"),
            write("put", "putTerraformState"),
            lock("post", "lockTerraformState"),
            lock("put", "putTerraformLock"),
            unlock,
            list_versions,
            read_version,
            under_lock(restore),
        ])
        .guarded::<Failure>()
}

/// Returns the schema of Terraform's lock info.
fn lock_info(app: &App) -> Value {
    let mut info = json!({
        "type": "object",
        "properties": {"ID": text(1..=app.limits.owner_bytes_max)},
        "required": ["ID"],
    });
    for member in ["Operation", "Info", "Who", "Version", "Created", "Path"] {
        info["properties"][member] = json!({"type": "string"});
    }
    info
}

/// Adds the parameter and the responses of a write.
fn under_lock(operation: Operation) -> Operation {
    operation
        .in_query(
            "ID",
            json!({"type": "string"}),
            false,
            "The id of the lock, if the writer holds it.",
        )
        .answer::<StateWritten>(200, "The new version is stored.")
        .answer::<LockInfo>(409, "The writer does not hold the lock; the body names the holder.")
        .answer::<LockInfo>(423, "The state is locked, and the writer does not hold the lock.")
        .refuse::<Failure>(&[409, 507])
}
