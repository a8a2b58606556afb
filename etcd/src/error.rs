//! Errors of etcd calls.

use std::fmt;

use tonic::{Code, Status};

/// A failed call. The request might have taken effect anyway, unless the kind excludes it.
#[derive(Clone, Debug)]
pub struct Error {
    /// The kind of failure.
    pub kind: Kind,
    /// The member that the request was sent to.
    pub member: Box<str>,
    why: Box<str>,
}

/// Failures that the caller has to handle differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The member is unreachable, responded too late, or has no leader. The request might have taken effect.
    Unknown,
    /// The etcd database is full. State that the caller keeps in memory about the failed write cannot be trusted.
    NoSpace,
    /// The requested revision was removed by a compaction. The request had no effect.
    Compacted,
    /// The etcd lease does not exist or has ended. The request had no effect.
    LeaseGone,
    /// Authentication or authorization failed. The request had no effect.
    Denied,
    /// The settings are invalid. The request had no effect.
    Settings,
}

impl Error {
    /// Creates an error of a member. Public for test doubles of a cluster.
    pub fn new(kind: Kind, member: &str, why: impl Into<Box<str>>) -> Self {
        Self { kind, member: member.into(), why: why.into() }
    }

    pub(crate) fn of(member: &str, status: &Status) -> Self {
        Self::new(kind(status.code(), status.message()), member, words(status))
    }
}

/// Maps etcd's status to a kind. Many errors share a gRPC code, so the message decides; the messages are stable, and
/// etcd's own clients compare them too.
fn kind(code: Code, message: &str) -> Kind {
    match code {
        Code::ResourceExhausted if message.contains("space exceeded") => Kind::NoSpace,
        Code::OutOfRange if message.contains("compacted") => Kind::Compacted,
        Code::NotFound if message.contains("lease not found") => Kind::LeaseGone,
        Code::Unauthenticated | Code::PermissionDenied => Kind::Denied,
        Code::InvalidArgument if is_about_authentication(message) => Kind::Denied,
        _ => Kind::Unknown,
    }
}

fn is_about_authentication(message: &str) -> bool {
    ["authentication failed", "revision of auth store is old", "user name"]
        .iter()
        .any(|words| message.contains(words))
}

/// Returns the status message and its causes.
pub(crate) fn words(status: &Status) -> String {
    let mut words = status.message().to_owned();
    if words.contains("user name is empty") {
        words += " (it wants a user and a password)";
    }
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let more = error.to_string();
        if !words.contains(&more) {
            words = format!("{words}: {more}");
        }
        source = error.source();
    }
    if words.contains("UnknownIssuer") {
        words += " (signed by another CA than the configured one)";
    }
    words
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, member, why } = self;
        match kind {
            Kind::Settings => f.write_str(why),
            _ => write!(f, "etcd at {member}: {why}"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_etcd_says_is_told_apart() {
        for (code, message, expected) in [
            (Code::Unavailable, "etcdserver: no leader", Kind::Unknown),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Kind::NoSpace),
            (Code::ResourceExhausted, "etcdserver: too many requests", Kind::Unknown),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                Kind::Compacted,
            ),
            (Code::NotFound, "etcdserver: requested lease not found", Kind::LeaseGone),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Kind::Denied),
            (Code::PermissionDenied, "etcdserver: permission denied", Kind::Denied),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", Kind::Denied),
            (Code::InvalidArgument, "etcdserver: user name is empty", Kind::Denied),
            (
                Code::InvalidArgument,
                "etcdserver: duplicate key given in txn request",
                Kind::Unknown,
            ),
        ] {
            let error = Error::of("a:1", &Status::new(code, message));
            assert_eq!(error.kind, expected, "{message}");
            let said = format!("etcd at a:1: {message}");
            assert!(error.to_string().starts_with(&said), "{error}");
        }
    }
}
