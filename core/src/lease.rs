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

/// Counts up over everything a store ever saw. Public, and the order of every queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseNumber(pub u64);

impl fmt::Debug for LeaseNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// The part of a lease's id that cannot be guessed. Drawn by the caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl Secret {
    /// Compares without telling by its duration where the difference is.
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

/// Names a lease and, because of the secret, proves that one was told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseId {
    /// Which lease.
    pub number: LeaseNumber,
    /// The proof.
    pub secret: Secret,
}

/// With whom a lease shares its lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// With nobody.
    Exclusive,
    /// With other shared leases.
    Shared,
    /// With other counted leases, this many in all.
    Counted(u32),
}

impl Mode {
    /// Can a lock be reserved for the last owner of such a lease? What several had is nobody's to be kept for.
    pub fn has_grace(self) -> bool {
        self == Self::Exclusive
    }
}

/// Where a lease is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// In the queue.
    Waiting,
    /// In the queue, but its client is away: skipped until it comes back.
    Parked,
    /// Holds the lock.
    Active,
    /// Over, for this reason. Final.
    Ended(Ending),
}

impl Phase {
    /// Is it in its lock's queue?
    pub fn is_queued(self) -> bool {
        matches!(self, Phase::Waiting | Phase::Parked)
    }
}

/// How a lease or a session ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Given back.
    Released,
    /// Its deadline passed.
    Expired,
    /// Taken away.
    Revoked,
}

/// A lease in memory. Small: a million of these are kept.
pub(crate) struct Lease {
    pub(crate) number: LeaseNumber,
    pub(crate) secret: Secret,
    pub(crate) lock: Slot<Lock>,
    pub(crate) owner: Slot<Known>,
    /// Neighbours among the holders of its lock; once it has ended, among the ended ones of its account.
    pub(crate) in_lock: Links,
    pub(crate) dialect: Dialect,
    pub(crate) mode: PackedMode,
    pub(crate) phase: Phase,
    /// Leaves the queue with its connection.
    pub(crate) tethered: bool,
    /// Stays readable for a while after its end.
    pub(crate) keep: bool,
    pub(crate) version: u32,
    pub(crate) token: Token,
    /// While it waits: when it was asked for.
    pub(crate) granted_at: Timestamp,
    pub(crate) renewed_at: Timestamp,
    /// Queued: when the wait is over. Active: when it expires. Ended: when it did.
    pub(crate) deadline: Timestamp,
    /// What a grant gives it; [`Timestamp::NEVER`]'s span for no deadline of its own.
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

/// What most leases do not have.
#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) metadata: Option<Arc<[u8]>>,
    pub(crate) requests: Vec<Request>,
    pub(crate) reason: Option<Arc<str>>,
    /// When it was asked for, if that was before it was granted.
    pub(crate) created_at: Option<Timestamp>,
    /// The leases it was asked for with.
    pub(crate) group: Option<Group>,
    /// Whom it is counted with, if that is not who its owner usually is counted with.
    pub(crate) account: Option<Slot<Account>>,
    /// A replay told another connection of it than the one it was granted to. Never journaled, because no
    /// connection outlives a restart.
    pub(crate) was_replayed: bool,
}

impl Extra {
    /// All that is left of an ended lease nobody wants to read: what answers a repeated request.
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

    /// Was anybody told of it beside the connection it was granted to? Whoever changed it since was.
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

/// A [`Mode`] in four bytes.
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

/// How long a grant lasts, or that it lasts as long as its session or until it is released.
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

    /// The deadline of a lease granted at `now`: adding no ttl saturates to never.
    pub(crate) fn from(self, now: Timestamp) -> Timestamp {
        now + self.0
    }
}

/// Neighbours in a list that runs through the leases themselves, so that any of them leaves it at once.
#[derive(Clone, Copy, Default)]
pub(crate) struct Links {
    pub(crate) before: Option<Slot<Lease>>,
    pub(crate) after: Option<Slot<Lease>>,
}

/// All there is to know of a lease, free of slots: what the journal records and the store keeps.
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
