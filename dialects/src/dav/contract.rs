//! Describes this dialect for the OpenAPI contract: only the methods that OpenAPI knows. RFC 4918 describes the others.

use serde_json::json;

use crate::app::App;
use crate::contract::{Chapter, Operation, text};

/// Error statuses that any request can return.
const ANY: &[u16] = &[400, 401, 403, 429, 500, 503];

pub(crate) fn chapter(_: &App) -> Chapter {
    let about = "WebDAV, classes 1 and 2 (RFC 4918), on the files of the dialect `files`. OpenAPI knows neither \
                 `PROPFIND`, `PROPPATCH`, `MKCOL`, `COPY` and `MOVE` nor `LOCK` and `UNLOCK`; they are at the same \
                 path, as is `OPTIONS`";
    let on = |method, id: &str, summary: &str| {
        let operation = Operation::new(method, "/dav/{path}", id, summary);
        let operation =
            operation.in_path("path", text(1..=4095), "The path, without its first slash.");
        refuse(operation, ANY)
    };
    let conditional = |operation: Operation| {
        ["If", "If-Match", "If-None-Match"].into_iter().fold(operation, |operation, name| {
            operation.header(name, json!({"type": "string"}), "Only if this condition holds.")
        })
    };
    let read = refuse(on("get", "davRead", "Read a file"), &[404, 417])
        .answer_bytes(412, "A condition does not hold.")
        .answer_bytes(416, "The range does not exist.")
        .answer_bytes(200, "The content.")
        .answer_bytes(206, "The requested range.")
        .answer_header(206, "Content-Range")
        .answer_empty(304, "Your copy is current.");
    let write = conditional(on("put", "davWrite", "Write a file")).body_bytes();
    let write = refuse(write, &[405, 408, 409, 412, 413, 415, 417, 423, 507])
        .answer_empty(201, "It is stored.")
        .answer_empty(204, "It has new content.");
    let write = [201, 204].into_iter().fold(write, |write, status| {
        write.answer_header(status, "ETag").answer_header(status, "Last-Modified")
    });
    let remove =
        conditional(on("delete", "davRemove", "Remove a file, or a folder with its content"));
    let remove = refuse(remove, &[404, 409, 412, 417, 423, 507])
        .answer_empty(204, "It is removed, with the locks whose tokens were sent.");
    Chapter::new("dav", about).with([read, write, remove])
}

/// Adds error responses, which have an XML body.
fn refuse(operation: Operation, statuses: &[u16]) -> Operation {
    statuses.iter().fold(operation, |operation, status| {
        operation.answer_text(*status, "application/xml", "The error, as a DAV: error element.")
    })
}
