//! A session: one keep-alive for any number of leases.

use std::fmt;
use std::sync::Arc;

use crate::account::Account;
use crate::arena::Slot;
use crate::lease::{Ending, Lease};
use crate::name::{Dialect, Owner, Peer};
use crate::owner::Known;
use crate::time::{Span, Timestamp};

/// The number of a session. Numbers grow over the whole life of a store and are public.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(pub u64);

impl fmt::Debug for SessionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// The hash of a session's secret. Only the client knows the secret: the core never sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionDigest(pub [u8; 32]);

impl fmt::Debug for SessionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The credential that opened a session, for dialects that check credentials only then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credential {
    /// The id of the credential, never the credential itself.
    pub id: Arc<str>,
    /// The groups of its principal.
    pub groups: Vec<Arc<str>>,
    /// When the credential expires. Keep-alives cannot extend a session beyond this time.
    pub not_after: Timestamp,
}

/// A session in memory.
pub(crate) struct Session {
    pub(crate) number: SessionNumber,
    pub(crate) digest: SessionDigest,
    pub(crate) owner: Slot<Known>,
    /// The account the session counts against.
    pub(crate) account: Slot<Account>,
    pub(crate) dialect: Dialect,
    pub(crate) ttl: Span,
    pub(crate) opened_at: Timestamp,
    /// When the session expires, or when it ended.
    pub(crate) deadline: Timestamp,
    /// Set once the session has ended. Its leases end one by one afterwards.
    pub(crate) ended: Option<Ending>,
    pub(crate) credential: Option<Arc<Credential>>,
    /// The head of the list of its leases, most recent first.
    pub(crate) leases: Option<Slot<Lease>>,
    /// The number of leases, not counting shares.
    pub(crate) n_leases: u32,
}

impl Session {
    /// Returns how the session has ended by `now`, even if its end is not recorded yet.
    pub(crate) fn ending(&self, now: Timestamp) -> Option<Ending> {
        self.ended.or((now >= self.deadline).then_some(Ending::Expired))
    }
}

/// The complete state of a session, with names instead of slots.
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
