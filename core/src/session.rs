//! A session: one keep-alive for any number of leases.

use std::fmt;
use std::sync::Arc;

use crate::account::Account;
use crate::arena::Slot;
use crate::lease::{Ending, Lease};
use crate::name::{Dialect, Owner, Peer};
use crate::owner::Known;
use crate::time::{Span, Timestamp};

/// Counts up over everything a store ever saw. Public.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(pub u64);

impl fmt::Debug for SessionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// A hash of the secret that only the session's owner knows. The secret itself never gets here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionDigest(pub [u8; 32]);

impl fmt::Debug for SessionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// What a session was opened with, for dialects that ask for credentials only then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    /// Its id, never the credential itself.
    pub id: Arc<str>,
    /// The groups its principal was in.
    pub groups: Vec<Arc<str>>,
    /// No session lives longer than this by it, however often it is kept alive.
    pub not_after: Timestamp,
}

/// A session in memory.
pub(crate) struct Session {
    pub(crate) number: SessionNumber,
    pub(crate) digest: SessionDigest,
    pub(crate) owner: Slot<Known>,
    /// Whom it is counted with.
    pub(crate) account: Slot<Account>,
    pub(crate) dialect: Dialect,
    pub(crate) ttl: Span,
    pub(crate) opened_at: Timestamp,
    /// When it expires, or when it ended.
    pub(crate) deadline: Timestamp,
    /// Over; its leases are being worked off.
    pub(crate) ended: Option<Ending>,
    pub(crate) credential: Option<Arc<Credential>>,
    /// The list of its leases, most recent first.
    pub(crate) leases: Option<Slot<Lease>>,
    /// Not counting shares.
    pub(crate) n_leases: u32,
}

impl Session {
    /// How it has ended by `now`, whether or not that was written down yet.
    pub(crate) fn ending(&self, now: Timestamp) -> Option<Ending> {
        self.ended.or((now >= self.deadline).then_some(Ending::Expired))
    }
}

/// All there is to know of a session, free of slots.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in `Session`, documented there or plain")]
pub struct SessionRecord {
    pub number: SessionNumber,
    pub digest: SessionDigest,
    pub owner: Owner,
    pub dialect: Dialect,
    pub ttl: Span,
    pub opened_at: Timestamp,
    pub deadline: Timestamp,
    pub ended: Option<Ending>,
    pub credential: Option<Arc<Credential>>,
    pub peer: Option<Peer>,
}
