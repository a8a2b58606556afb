//! The contract: one OpenAPI 3.1 document that describes the server's API, and a page that shows it to people.
//!
//! Each dialect has one chapter. Its `contract.rs` derives the chapter from the types of its API. The bounds in the
//! document are those that are configured for this server.

mod answer;
mod chapter;
mod operation;
mod page;
mod schema;
mod server;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::Dialect;
use crate::app::App;

pub(crate) use chapter::Chapter;
pub(crate) use operation::Operation;
pub use page::routes;
pub(crate) use schema::{cursor, millis, seconds, text, whole};
pub use server::Health;

const ABOUT: &str = "A lock server with several protocols. Each has its own section here and can be disabled; this \
    document shows the enabled ones, with the limits of this server. An unknown method gets 405 and `Allow`, an \
    unknown path 404. `HEAD` works wherever `GET` does.";

/// Returns the document for a server with these dialects.
pub fn document(app: &App, dialects: &BTreeSet<Dialect>) -> Value {
    let chapters = dialects.iter().map(|dialect| dialect.chapter(app));
    let chapters = chapters.chain([server::chapter()]);
    let (mut tags, mut paths, mut schemas) = (Vec::new(), Map::new(), Map::new());
    for chapter in chapters {
        tags.push(json!({"name": chapter.name(), "description": chapter.about()}));
        chapter.write(&mut paths, &mut schemas);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Leasehold",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": {"RequestId": operation::request_id()},
            "headers": answer::headers(),
            "securitySchemes": operation::sessions(),
        },
    })
}
