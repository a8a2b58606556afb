//! This dialect's chapter of the OpenAPI document.

use serde_json::json;

use super::error::Failure;
use super::list::Params;
use super::wire::{
    Batch, BatchRequest, KIND, LockAnswer, LockRequest, Locks, Object, UnlockRequest, Verified,
    VerifyRequest,
};
use crate::app::App;
use crate::contract::{Chapter, Operation, text};

/// Error statuses that any request can return.
const ANY: &[u16] = &[400, 500, 503];
/// Error statuses that any request with a JSON body can return in addition.
const JSON: &[u16] = &[408, 413, 415];

pub(crate) fn chapter(app: &App) -> Chapter {
    let about = "Git LFS: locks of files, and objects with the basic transfer. The name of a repository can contain \
        slashes. Transfers never return 401";
    let name_max = app.limits.name_bytes_max;
    let on = move |method, path: &str, id: &str, summary: &str| {
        Operation::new(method, format!("/lfs/{{repository}}{path}"), id, summary)
            .in_path("repository", text(1..=name_max), "The name of the repository.")
            .refuse::<Failure>(ANY)
    };
    let list = on("get", "/locks", "listLfsLocks", "List locked files")
        .query::<Params>()
        .answer::<Locks>(200, "These locks, of all holders and protocols.")
        .refuse::<Failure>(&[422]);
    let create = on("post", "/locks", "createLfsLock", "Lock a file")
        .body::<LockRequest>()
        .answer::<LockAnswer>(201, "The caller holds the lock until the release.")
        .answer::<Failure>(409, "The holder.")
        .refuse::<Failure>(JSON)
        .refuse::<Failure>(&[422]);
    let verify =
        on("post", "/locks/verify", "verifyLfsLocks", "List your locks and those of others")
            .body::<VerifyRequest>()
            .answer::<Verified>(200, "These.")
            .refuse::<Failure>(JSON);
    let unlock = on("post", "/locks/{id}/unlock", "deleteLfsLock", "Unlock a file")
        .in_path("id", json!({"type": "string"}), "The id of the lock.")
        .body::<UnlockRequest>()
        .answer::<LockAnswer>(200, "The lock is no longer held.")
        .answer::<Failure>(403, "Another client holds it.")
        .refuse::<Failure>(JSON)
        .refuse::<Failure>(&[404]);
    let batch = on("post", "/objects/batch", "batchLfs", "Request transfers of objects")
        .body::<BatchRequest>()
        .answer::<Batch>(
            200,
            "What to do with each object: nothing, if it has neither actions nor an error.",
        )
        .refuse::<Failure>(JSON)
        .refuse::<Failure>(&[422]);
    let object = |method, path, id, summary| {
        on(method, path, id, summary)
            .in_path("oid", json!({"type": "string"}), "The SHA-256 of its content.")
            .header("X-Leasehold-Ticket", json!({"type": "string"}), "As in the batch response.")
            .answer::<Failure>(403, "Missing credential, or missing right.")
            .refuse::<Failure>(&[404, 422])
    };
    let stored = object(
        "post",
        "/objects/{oid}/verify",
        "verifyLfsObject",
        "Check whether an object exists",
    )
    .body::<Object>()
    .answer_object(200, "It is.")
    .refuse::<Failure>(JSON);
    let download = object("get", "/objects/{oid}", "downloadLfsObject", "Download an object")
        .header("Range", json!({"type": "string"}), "One part of it: `bytes=0-99`.")
        .answer_bytes(200, "The content.")
        .answer_bytes(206, "The requested range.")
        .answer_header(206, "Content-Range")
        .answer_empty(304, "Your copy is current.")
        .refuse::<Failure>(&[412, 416]);
    let upload = object("put", "/objects/{oid}", "uploadLfsObject", "Upload an object")
        .body_bytes()
        .answer_object(200, "It is stored.")
        .refuse::<Failure>(&[408, 413, 507]);
    Chapter::new("lfs", about)
        .with([list, create, verify, unlock, batch, download, upload, stored])
        .guarded_as::<Failure>(KIND)
}
