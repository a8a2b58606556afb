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

pub(crate) fn chapter(_: &App) -> Chapter {
    let about = "Files with locks, in sessions. Every path that no other protocol uses is the path of a file; below \
        `/files` there are no such exceptions. The path of a file can contain slashes";
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
            .answer::<SessionShown>(201, "The session is open. The id is shown only once.")
            .answer_header(201, "Set-Cookie")
            .refuse::<Failure>(&[429, 500, 503]),
        Operation::new("get", "/auth/session", "lookAtFilesSession", "Read the session")
            .in_session()
            .answer::<SessionShown>(200, "The session, with a shortened id.")
            .refuse::<Failure>(ANY),
        Operation::new("delete", "/auth/session", "closeFilesSession", "End the session")
            .in_session()
            .answer_empty(204, "The session has ended, with all its locks.")
            .refuse::<Failure>(ANY),
        Operation::new("get", "/auth/sessions", "listFilesSessions", "List your sessions")
            .in_session()
            .answer::<Sessions>(200, "These.")
            .refuse::<Failure>(ANY),
    ]
}

fn admin() -> [Operation; 2] {
    [
        Operation::new("get", "/admin/locks", "listFileLocks", "All locks of files")
            .in_query("limit", whole(1..=PAGE_MAX), false, "Maximum number of locks.")
            .in_query("cursor", cursor(), false, "Where the list continues.")
            .answer::<Locks>(200, "These locks, of all holders.")
            .refuse::<Failure>(&[400, 500, 503]),
        at_path(Operation::new(
            "delete",
            "/admin/locks/{path}",
            "revokeFileLock",
            "Revoke the lock of a file",
        ))
        .answer::<Done>(200, "The lock is no longer held.")
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
        .answer::<FolderShown>(200, "The content of the folder.")
        .answer_bytes(200, "The content.")
        .answer_bytes(206, "The requested range.")
        .answer_header(206, "Content-Range")
        .answer_empty(304, "Your copy is current.")
        .refuse::<Failure>(&[412, 416]);
    let write = conditional(on_path("put", "writeFile", "Write a file"), &WRITE_CONDITIONS)
        .in_session()
        .body_bytes()
        .answer::<Written>(201, "The file is stored, and its lock is free.")
        .answer::<Written>(200, "The file has new content, and its lock is free.")
        .refuse::<Failure>(&[408, 409, 412, 413, 429, 507]);
    let remove = conditional(on_path("delete", "removeFile", "Remove a file"), &WRITE_CONDITIONS)
        .in_session()
        .about("Or an empty folder.")
        .answer_empty(204, "It is removed.")
        .refuse::<Failure>(&[404, 409, 412, 429]);
    let post = on_path("post", "makeFolder", "Create a folder, or use the lock of a file")
        .in_session()
        .about("The path of a folder ends with a slash.")
        .answer::<FolderMade>(201, "It is created.")
        .answer::<FolderMade>(200, "It existed already.")
        .refuse::<Failure>(&[409, 507]);
    let locked = "Another session holds it.";
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
    operation.in_query("limit", whole(1..=PAGE_MAX), false, "Maximum number of entries.").in_query(
        "cursor",
        plain(),
        false,
        "Where the list continues.",
    )
}

fn conditional(operation: Operation, headers: &[&str]) -> Operation {
    headers.iter().fold(operation, |operation, header| {
        operation.header(header, plain(), "Only if the file matches.")
    })
}

/// Adds the `lock` parameter and its responses.
fn lockable(operation: Operation) -> Operation {
    let operations = json!({"type": "string", "enum": ["acquire", "release", "refresh", "status"]});
    operation
        .in_query("lock", operations, false, "Use the lock of the file. Needs a session.")
        .answer::<Acquired>(200, "The lock is yours.")
        .answer::<Done>(200, "The lock is renewed, or free.")
        .answer::<Status>(200, "The state of the lock.")
        .refuse::<Failure>(&[404, 429])
}

fn plain() -> serde_json::Value {
    json!({"type": "string"})
}
