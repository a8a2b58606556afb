//! Why there is no answer.

use std::fmt;

use tonic::{Code, Status};

/// A call without an answer. Whatever it asked for may have been done all the same, unless its kind says otherwise.
#[derive(Clone, Debug)]
pub struct Error {
    /// What kind of trouble it is.
    pub kind: Kind,
    /// The member that was asked.
    pub member: Box<str>,
    why: Box<str>,
}

/// What asks for something else from whoever called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The member cannot be reached, did not answer in time, or has no leader: nobody knows what was done.
    Unknown,
    /// There is no room in etcd's database. What is in memory of what was to be written must not be believed.
    NoSpace,
    /// What was to be read or watched was forgotten by a compaction. Nothing was done.
    Compacted,
    /// There is no such lease, or no longer. Nothing was done.
    LeaseGone,
    /// etcd does not know us, or does not let us. Nothing was done.
    Denied,
    /// The settings cannot be used. Nothing was done.
    Settings,
}

impl Error {
    /// For whoever stands in for a cluster: this member says no.
    pub fn new(kind: Kind, member: &str, why: impl Into<Box<str>>) -> Self {
        Self { kind, member: member.into(), why: why.into() }
    }

    pub(crate) fn of(member: &str, status: &Status) -> Self {
        Self::new(kind(status.code(), status.message()), member, words(status))
    }
}

/// etcd's codes are shared by many errors; its messages are stable and compared by its own clients too.
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

/// What a status says, and what was behind it.
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
        words += " (another CA than the one we were given has signed it)";
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
