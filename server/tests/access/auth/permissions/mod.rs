//! One table for all protocols: which right each operation needs, checked with every principal.
//!
//! A route of the contract without an entry fails the test. Tests of a single protocol check only what is particular
//! to it, such as the form of its refusals.

mod http;
mod redis;

use std::net::SocketAddr;

use crate::auth::{NAMES, RULES, Scene};

/// What an operation requires of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    /// Open to every client.
    Nothing,
    /// Any authenticated principal.
    Authenticated,
    /// Any authenticated principal, plus a proof in the request, such as a lease id.
    Own,
    /// The id of a files session.
    Session,
    /// A page of the console that every principal may open.
    Page,
    Read,
    Acquire,
    Revoke,
    FilesRead,
    FilesWrite,
    /// Like `FilesRead`, on a route that never answers 401.
    Download,
    Upload,
    /// Read access to every namespace.
    ReadAll,
    Admin,
}

use Need::*;

/// Principals and their rights. The first one has no credential.
const PRINCIPALS: [(&str, &[Need]); 8] = [
    ("", &[]),
    ("nothing", &[]),
    ("reader", &[Read]),
    ("taker", &[Read, Acquire]),
    ("revoker", &[Read, Revoke]),
    ("file-reader", &[FilesRead]),
    ("file-writer", &[FilesRead, FilesWrite]),
    ("admin", &[Read, Acquire, Revoke, FilesRead, FilesWrite, ReadAll, Admin]),
];

/// A principal with all rights in all namespaces that the operations use, but not on the names that they use.
const ELSEWHERE: &str = "apart";

const ELSEWHERE_RULE: &str = r#"
[[rule]]
name = "elsewhere"
who = ["key:apart"]
may = ["acquire", "revoke", "files-write"]
namespaces = ["default", "t", "redis", "files", "terraform", "lfs"]
locks = ["elsewhere*", "/elsewhere*"]
"#;

/// Returns whether an authenticated principal may do what needs this.
fn allows(who: &str, need: Need) -> bool {
    let may = PRINCIPALS.iter().find(|(name, _)| *name == who).map_or(&[][..], |(_, may)| *may);
    match need {
        Nothing | Authenticated | Own | Page => true,
        Session => false,
        Download => may.contains(&FilesRead),
        Upload => may.contains(&FilesWrite),
        right => may.contains(&right),
    }
}

/// Starts a server for all protocols.
async fn scene() -> Scene {
    let rules = RULES.replace(r#"["default", "t""#, r#"["default", "t", "redis""#) + ELSEWHERE_RULE;
    let names = [&NAMES[..], &[ELSEWHERE]].concat();
    Scene::with(&rules, &names, |settings| {
        settings.dialect.redis.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    })
    .await
}
