//! This dialect's chapter of the OpenAPI document.

use serde_json::json;

use super::error::Failure;
use super::wire::{
    Acquired, Done, FolderMade, FolderShown, Locked, Locks, SessionShown, Sessions, Status, Written,
};
use crate::app::App;
use crate::contract::{Chapter, Operation, cursor, text, whole};

/// Error statuses that any request can return.
const ANY: &[u16] = &[400, 401, 500, 503];
const PAGE_MAX: u64 = 1000;

pub(in crate::dialect) fn chapter(_: &App) -> Chapter {
    let about = "Files with locks, in sessions. Every path that no other protocol uses is a file; below `/files` \
                 there are no such exceptions. A file's path may have slashes";
    Chapter::new("files", about)
        .with(sessions())
        .with(admin())
        .with(files("/files/{path}", ""))
        .with(files("/{path}", "AtRoot"))
        .with(files("/", "OfRoot"))
        .guarded::<Failure>()
}

fn sessions() -> [Operation; 4] {
    [
        Operation::new("post", "/auth/session", "openFilesSession", "Begin a session")
            .answer::<SessionShown>(201, "It has begun. Its id is told this once.")
            .answer_header(201, "Set-Cookie")
            .refuse::<Failure>(&[429, 500, 503]),
        Operation::new("get", "/auth/session", "lookAtFilesSession", "Look at the session")
            .in_session()
            .answer::<SessionShown>(200, "The session, its id shortened.")
            .refuse::<Failure>(ANY),
        Operation::new("delete", "/auth/session", "closeFilesSession", "End the session")
            .in_session()
            .answer_empty(204, "It is over, and so are all its locks.")
            .refuse::<Failure>(ANY),
        Operation::new("get", "/auth/sessions", "listFilesSessions", "Look at all own sessions")
            .in_session()
            .answer::<Sessions>(200, "These.")
            .refuse::<Failure>(ANY),
    ]
}

fn admin() -> [Operation; 2] {
    [
        Operation::new("get", "/admin/locks", "listFileLocks", "All locks of files")
            .in_query("limit", whole(1..=PAGE_MAX), false, "Most of them.")
            .in_query("cursor", cursor(), false, "Where the list goes on.")
            .answer::<Locks>(200, "The locks of all holders.")
            .refuse::<Failure>(&[400, 500, 503]),
        at_path(Operation::new(
            "delete",
            "/admin/locks/{path}",
            "revokeFileLock",
            "Revoke the lock of any holder",
        ))
        .answer::<Done>(200, "The lock is revoked.")
        .refuse::<Failure>(&[400, 404, 500, 503]),
    ]
}

/// Returns the operations on a path.
fn files(path: &str, suffix: &str) -> Vec<Operation> {
    let on_path = |method, id: &str, summary| {
        let operation = Operation::new(method, path, format!("{id}{suffix}"), summary);
        let operation = if path.contains('{') { at_path(operation) } else { operation };
        operation.refuse::<Failure>(ANY).answer_header(401, "WWW-Authenticate")
    };
    let look = on_path("get", "readFile", "Read a file or a folder, or use a file's lock");
    let look = paged(conditional(look, &["If-Match", "If-None-Match", "If-Modified-Since"]))
        .header("Range", plain(), "One part of it: `bytes=0-99`.")
        .answer::<FolderShown>(200, "What is in the folder.")
        .answer_bytes(200, "The content.")
        .answer_bytes(206, "The part of it that was asked for.")
        .answer_header(206, "Content-Range")
        .answer_empty(304, "You have it already.")
        .refuse::<Failure>(&[412, 416]);
    let write = conditional(on_path("put", "writeFile", "Write a file"), &WRITE_CONDITIONS)
        .in_session()
        .body_bytes()
        .answer::<Written>(201, "It is there, durably, and its lock is free.")
        .answer::<Written>(200, "It has another content now, and its lock is free.")
        .refuse::<Failure>(&[408, 409, 412, 413, 429, 507]);
    let remove = conditional(on_path("delete", "removeFile", "Remove a file"), &WRITE_CONDITIONS)
        .in_session()
        .about("Or a folder that is empty.")
        .answer_empty(204, "It is gone.")
        .refuse::<Failure>(&[404, 409, 412, 429]);
    let post = on_path("post", "makeFolder", "Make a folder, or use a file's lock")
        .in_session()
        .about("The path of a folder ends with a slash.")
        .answer::<FolderMade>(201, "It is there now.")
        .answer::<FolderMade>(200, "It was there.")
        .refuse::<Failure>(&[409, 507]);
    let locked = "It is another's for now.";
    let mut all = vec![lockable(look), write, remove, lockable(post)];
    all = all.into_iter().map(|operation| operation.answer::<Locked>(423, locked)).collect();
    for status in [200, 201] {
        all[1] = ["ETag", "Last-Modified", "Location"]
            .into_iter()
            .fold(all[1].clone(), |write, header| write.answer_header(status, header));
    }
    all
}

const WRITE_CONDITIONS: [&str; 3] = ["If-Match", "If-None-Match", "If-Unmodified-Since"];

fn at_path(operation: Operation) -> Operation {
    operation.in_path("path", text(1..=4095), "The path, without its first slash.")
}

fn paged(operation: Operation) -> Operation {
    operation.in_query("limit", whole(1..=PAGE_MAX), false, "Most of a list.").in_query(
        "cursor",
        plain(),
        false,
        "Where a list goes on.",
    )
}

fn conditional(operation: Operation, headers: &[&str]) -> Operation {
    headers.iter().fold(operation, |operation, header| {
        operation.header(header, plain(), "Only if the file is like this.")
    })
}

/// Adds the `lock` parameter and its responses.
fn lockable(operation: Operation) -> Operation {
    let operations = json!({"type": "string", "enum": ["acquire", "release", "refresh", "status"]});
    operation
        .in_query("lock", operations, false, "Use the file's lock. Needs a session.")
        .answer::<Acquired>(200, "The lock is yours.")
        .answer::<Done>(200, "The lock lasts longer, or is free.")
        .answer::<Status>(200, "How the lock stands.")
        .refuse::<Failure>(&[404, 429])
}

fn plain() -> serde_json::Value {
    json!({"type": "string"})
}
