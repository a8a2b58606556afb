//! A lease: one owner's claim on one lock.

use std::fmt;
use std::sync::Arc;

use crate::account::Account;
use crate::arena::Slot;
use crate::group::Group;
use crate::lock::Lock;
use crate::name::{Dialect, LockKey, Owner, Peer};
use crate::owner::Known;
use crate::request::Request;
use crate::session::{Session, SessionNumber};
use crate::time::{Span, Timestamp};
use crate::token::Token;

/// The number of a lease. Numbers grow over the whole life of a store. They are public and define the order of every
/// queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseNumber(pub u64);

impl fmt::Debug for LeaseNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The unguessable part of a lease's id, drawn by the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl Secret {
    /// Compares in constant time, so that the duration does not reveal where the secrets differ.
    pub fn matches(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |acc, (a, b)| acc | (a ^ b));
        differing == 0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// The id of a lease. Because it contains the secret, it proves that the client was granted the lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseId {
    /// The public number of the lease.
    pub number: LeaseNumber,
    /// The secret that proves ownership.
    pub secret: Secret,
}

/// How a lease shares its lock with other leases.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// No other lease can hold the lock.
    Exclusive,
    /// Other shared leases can hold the lock too.
    Shared,
    /// Other counted leases can hold the lock too, up to this many in total.
    Counted(u32),
}

impl Mode {
    /// Returns whether the lock can be reserved for the last owner of such a lease. Locks with several holders are not
    /// reserved.
    pub fn has_grace(self) -> bool {
        self == Self::Exclusive
    }
}

/// The stage of a lease's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The lease is in the queue.
    Waiting,
    /// The lease is in the queue, but its client is disconnected. It is skipped until the client returns.
    Parked,
    /// The lease holds the lock.
    Active,
    /// The lease has ended, for this reason. This is final.
    Ended(Ending),
}

impl Phase {
    /// Returns whether the lease is in the queue of its lock.
    pub fn is_queued(self) -> bool {
        matches!(self, Phase::Waiting | Phase::Parked)
    }
}

/// How a lease or a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The owner released the lease.
    Released,
    /// The lease's deadline passed.
    Expired,
    /// The lease was ended by force.
    Revoked,
}

/// A lease in memory. It is small, because a server can hold a million of them.
pub(crate) struct Lease {
    pub(crate) number: LeaseNumber,
    pub(crate) secret: Secret,
    pub(crate) lock: Slot<Lock>,
    pub(crate) owner: Slot<Known>,
    /// The neighbours among the holders of its lock. Once the lease has ended, the neighbours among the ended leases of
    /// its account.
    pub(crate) in_lock: Links,
    pub(crate) dialect: Dialect,
    pub(crate) mode: PackedMode,
    pub(crate) phase: Phase,
    /// Whether the lease leaves the queue when its connection closes.
    pub(crate) tethered: bool,
    /// Whether the lease stays readable for a while after its end.
    pub(crate) keep: bool,
    pub(crate) version: u32,
    pub(crate) token: Token,
    /// When the lease was granted. While it waits, when it was requested.
    pub(crate) granted_at: Timestamp,
    pub(crate) renewed_at: Timestamp,
    /// Queued: when the wait ends. Active: when the lease expires. Ended: when it ended.
    pub(crate) deadline: Timestamp,
    /// How long each grant lasts.
    pub(crate) ttl: Ttl,
    pub(crate) grace_ms: u32,
    pub(crate) membership: Option<Box<Membership>>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// The session a lease belongs to, and its neighbours among that session's leases.
pub(crate) struct Membership {
    pub(crate) session: Slot<Session>,
    pub(crate) links: Links,
}

/// The data that most leases do not have.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) metadata: Option<Arc<[u8]>>,
    pub(crate) requests: Vec<Request>,
    pub(crate) reason: Option<Arc<str>>,
    /// When the lease was requested, if that was before its grant.
    pub(crate) created_at: Option<Timestamp>,
    /// The group it was requested with.
    pub(crate) group: Option<Group>,
    /// The account it counts against, if that is not its owner's usual account.
    pub(crate) account: Option<Slot<Account>>,
    /// Whether a replay returned this lease to a connection other than the one it was granted to. Never journaled,
    /// because connections do not outlive a restart.
    pub(crate) was_replayed: bool,
}

impl Extra {
    /// Drops everything except what is needed to answer repeated requests. For ended leases that need not stay
    /// readable.
    pub(crate) fn slim(&mut self) {
        self.metadata = None;
        self.reason = None;
        self.created_at = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self { metadata, requests, reason, created_at, group, account, was_replayed } = self;
        metadata.is_none()
            && requests.is_empty()
            && reason.is_none()
            && created_at.is_none()
            && group.is_none()
            && account.is_none()
            && !was_replayed
    }
}

impl Lease {
    pub(crate) fn created_at(&self) -> Timestamp {
        let earlier = self.extra.as_ref().and_then(|extra| extra.created_at);
        earlier.unwrap_or(self.granted_at)
    }

    pub(crate) fn grace(&self) -> Span {
        Span::from_millis(self.grace_ms.into())
    }

    pub(crate) fn session(&self) -> Option<Slot<Session>> {
        self.membership.as_ref().map(|membership| membership.session)
    }

    pub(crate) fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub(crate) fn group(&self) -> Option<Group> {
        self.extra.as_ref().and_then(|extra| extra.group)
    }

    pub(crate) fn requests(&self) -> &[Request] {
        self.extra.as_ref().map_or(&[], |extra| &extra.requests)
    }

    /// Returns whether the lease was returned to a connection other than the one it was granted to. A version above 1
    /// implies that: the client that changed the lease knew it.
    pub(crate) fn is_known_elsewhere(&self) -> bool {
        self.version > 1 || self.extra.as_ref().is_some_and(|extra| extra.was_replayed)
    }

    pub(crate) fn was_replayed(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.was_replayed)
    }

    pub(crate) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }
}

/// A [`Mode`] packed into four bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct PackedMode(u32);

impl From<Mode> for PackedMode {
    fn from(mode: Mode) -> Self {
        Self(match mode {
            Mode::Exclusive => 0,
            Mode::Shared => 1,
            Mode::Counted(limit) => limit.saturating_add(2),
        })
    }
}

impl PackedMode {
    pub(crate) fn get(self) -> Mode {
        match self.0 {
            0 => Mode::Exclusive,
            1 => Mode::Shared,
            counted => Mode::Counted(counted - 2),
        }
    }
}

/// The TTL of a grant. [`Ttl::NONE`] means that a grant lasts as long as its session, or until it is released.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ttl(Span);

impl Ttl {
    const NONE: Self = Self(Span::from_nanos(u64::MAX));

    pub(crate) fn new(span: Option<Span>) -> Self {
        span.map_or(Self::NONE, Self)
    }

    pub(crate) fn get(self) -> Option<Span> {
        (self != Self::NONE).then_some(self.0)
    }

    /// Returns the deadline of a lease granted at `now`. Without a TTL, the addition saturates to [`Timestamp::NEVER`].
    pub(crate) fn from(self, now: Timestamp) -> Timestamp {
        now + self.0
    }
}

/// The neighbours in a linked list of leases. The links are in the leases themselves, so that a lease leaves its list
/// in constant time.
#[derive(Clone, Copy, Default)]
pub(crate) struct Links {
    pub(crate) before: Option<Slot<Lease>>,
    pub(crate) after: Option<Slot<Lease>>,
}

/// The complete state of a lease, with names instead of slots. Used in the journal and in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in `Lease`, documented there or plain")]
pub struct LeaseRecord {
    pub number: LeaseNumber,
    pub secret: Secret,
    pub lock: LockKey,
    pub owner: Owner,
    pub session: Option<SessionNumber>,
    pub dialect: Dialect,
    pub mode: Mode,
    pub phase: Phase,
    pub tethered: bool,
    pub keep: bool,
    pub version: u32,
    pub token: Token,
    pub created_at: Timestamp,
    pub granted_at: Timestamp,
    pub renewed_at: Timestamp,
    pub deadline: Timestamp,
    pub ttl: Option<Span>,
    pub grace: Span,
    pub group: Option<Group>,
    pub metadata: Option<Arc<[u8]>>,
    pub requests: Vec<Request>,
    pub reason: Option<Arc<str>>,
    pub peer: Option<Peer>,
}
