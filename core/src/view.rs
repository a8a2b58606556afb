//! Read-only copies of parts of the state. They do not change with later commands.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::arena::Slot;
use crate::footprint::Footprint;
use crate::group::Group;
use crate::lease::{Ending, Lease, LeaseId, LeaseRecord, Mode, Phase};
use crate::lock::{LapseRecord, Lock, LockRecord};
use crate::name::{Dialect, Owner};
use crate::session::{Session, SessionRecord};
use crate::state::State;
use crate::time::{Span, Timestamp};
use crate::token::Token;

/// A copy of a lease, without the parts that are costly to copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseView {
    /// The number and secret of the lease. Must be shown only to its owner.
    pub id: LeaseId,
    /// The owner of the lease.
    pub owner: Owner,
    /// The dialect of the request for the lease.
    pub dialect: Dialect,
    /// Whether the lease shares the lock, and with which other leases.
    pub mode: Mode,
    /// The stage of the lease's life.
    pub phase: Phase,
    /// Its fencing token, or zero while it waits.
    pub token: Token,
    /// The version, increased by every change.
    pub version: u32,
    /// When the lease was requested.
    pub created_at: Timestamp,
    /// When the lease was granted.
    pub granted_at: Timestamp,
    /// When the lease was last renewed, or else granted.
    pub renewed_at: Timestamp,
    /// When its wait ends, when it expires, or when it ended. `None` if it never expires.
    pub deadline: Option<Timestamp>,
    /// How long a grant lasts without a renewal.
    pub ttl: Option<Span>,
    /// How long the lock stays reserved for its owner after the lease expires.
    pub grace: Span,
    /// The group it was requested with, if any.
    pub group: Option<Group>,
    /// Metadata that its owner attached.
    pub metadata: Option<Arc<[u8]>>,
}

impl LeaseView {
    /// The approximate size of a view without its metadata.
    pub const BYTES: usize = 256;

    /// Returns the time left at `now`, or `None` if the lease never expires.
    pub fn remaining(&self, now: Timestamp) -> Option<Span> {
        self.deadline.map(|deadline| deadline.since(now))
    }

    /// Updates the view of a lease that has just ended.
    pub(crate) fn end(&mut self, how: Ending, at: Timestamp) {
        self.phase = Phase::Ended(how);
        self.deadline = Some(at);
        self.version += 1;
    }
}

/// A lock with its holders and its queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockView {
    /// The token of its latest grant.
    pub last_token: Token,
    /// The holders, latest grant first, up to the requested number.
    pub holders: Vec<LeaseView>,
    /// The number of holders.
    pub n_holders: usize,
    /// The waiters in order, up to the requested number.
    pub queue: Vec<LeaseView>,
    /// The number of waiters.
    pub n_waiting: usize,
    /// The owner that let the lock expire last, if it was not granted since.
    pub lapse: Option<LapseRecord>,
}

impl LockView {
    /// Returns the approximate size of the view in bytes.
    pub fn n_bytes(&self) -> usize {
        let leases = self.holders.iter().chain(&self.queue);
        let bytes = |lease: &LeaseView| {
            LeaseView::BYTES + lease.metadata.as_ref().map_or(0, |metadata| metadata.len())
        };
        LeaseView::BYTES + leases.map(bytes).sum::<usize>()
    }
}

/// How many locks, leases, sessions and other objects there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Locks held, waited for or remembered.
    pub n_locks: usize,
    /// The number of these locks that are unused.
    pub n_idle: usize,
    /// Locks with at least one holder that is not a share.
    pub n_held: usize,
    /// Active leases that are not shares.
    pub n_held_leases: usize,
    /// Active leases.
    pub n_active: usize,
    /// Waiting leases.
    pub n_waiting: usize,
    /// Ended leases that are still remembered.
    pub n_ended: usize,
    /// Sessions, including ended ones that still have leases to end.
    pub n_sessions: usize,
    /// Locks that are free but have waiters, which wait for a group of locks.
    pub n_convoys: usize,
    /// Remembered request ids.
    pub n_requests: usize,
    /// Namespaces.
    pub n_namespaces: usize,
    /// Bytes, by purpose.
    pub bytes: Footprint,
}

/// How many locks and leases one namespace has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceCount {
    /// The name of the namespace.
    pub name: Arc<str>,
    /// Locks that are held, waited for, or have remembered leases.
    pub n_locks: usize,
    /// Waiting and active leases.
    pub n_leases: u32,
}

/// Returns the namespaces with the most leases, ordered by name, the number of other namespaces, and the number of
/// leases in those.
pub(crate) fn namespaces(state: &State, n_max: usize) -> (Vec<NamespaceCount>, usize, u64) {
    let mut all: Vec<_> = state.namespaces.iter().collect();
    if n_max < all.len() {
        // Ties are resolved by name, so that the result is stable.
        all.select_nth_unstable_by(n_max, |a, b| {
            b.n_leases.cmp(&a.n_leases).then_with(|| a.name.cmp(&b.name))
        });
    }
    let others = all.split_off(n_max.min(all.len()));
    all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let listed = all.into_iter().map(|namespace| NamespaceCount {
        name: namespace.name.clone(),
        n_locks: namespace.n_locks - namespace.n_idle,
        n_leases: namespace.n_leases,
    });
    let n_leases = others.iter().map(|namespace| u64::from(namespace.n_leases)).sum();
    (listed.collect(), others.len(), n_leases)
}

pub(crate) fn lease(state: &State, lease: &Lease) -> LeaseView {
    LeaseView {
        id: LeaseId { number: lease.number, secret: lease.secret },
        owner: state.owner(lease.owner).clone(),
        dialect: lease.dialect,
        mode: lease.mode.get(),
        phase: lease.phase,
        token: lease.token,
        version: lease.version,
        created_at: lease.created_at(),
        granted_at: lease.granted_at,
        renewed_at: lease.renewed_at,
        deadline: state.deadline(lease).finite(),
        ttl: lease.ttl.get(),
        grace: lease.grace(),
        group: lease.group(),
        metadata: lease.extra.as_ref().and_then(|extra| extra.metadata.clone()),
    }
}

/// How much of a lock a view contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detail {
    /// Maximum waiters.
    pub n_queue_max: usize,
    /// Approximate maximum bytes of the holders, and of the waiters. The first holder is always included.
    pub n_bytes_max: usize,
}

impl Detail {
    /// Includes all holders, and at most `n_queue_max` waiters.
    pub fn queue(n_queue_max: usize) -> Self {
        Self { n_queue_max, n_bytes_max: usize::MAX }
    }

    /// Returns the leases that fit into the byte limit.
    fn some<'a>(self, leases: impl Iterator<Item = &'a Lease>) -> impl Iterator<Item = &'a Lease> {
        let mut n_bytes = 0;
        leases.take_while(move |lease| {
            let is_shown = n_bytes < self.n_bytes_max;
            n_bytes += LeaseView::BYTES + Footprint::of(lease).metadata;
            is_shown
        })
    }
}

/// Returns the state of a lock at `now`, without overdue leases.
pub(crate) fn lock(state: &State, slot: Slot<Lock>, now: Timestamp, detail: Detail) -> LockView {
    let is_true = |lease: &&Lease| state.overdue(lease, now).is_none();
    let lock = &state.locks[slot];
    let holders = state.holders(slot).map(|slot| &state.leases[slot]).filter(is_true);
    let waiters = lock.queue().into_iter().flat_map(|queue| queue.iter());
    let waiters = waiters.map(|slot| &state.leases[slot]).filter(is_true);
    // A lock that was waited for but never granted has the namespace's token floor, like an unknown lock.
    let was_granted = lock.last_token > Token::ZERO;
    let floor = state.namespaces.get(lock.namespace).floor;
    LockView {
        last_token: if was_granted { lock.last_token } else { floor },
        holders: detail.some(holders).map(|holder| lease(state, holder)).collect(),
        n_holders: lock.n_holders() as usize,
        queue: detail
            .some(waiters.take(detail.n_queue_max))
            .map(|waiter| lease(state, waiter))
            .collect(),
        n_waiting: lock.queue().map_or(0, |queue| queue.len()),
        lapse: lapse_record(state, lock),
    }
}

/// Returns the holders of a lock, except for shared shares: there can be any number of them, and no client names them.
pub(crate) fn named_holders(state: &State, slot: Slot<Lock>) -> impl Iterator<Item = &Lease> {
    let is_named = |lease: &&Lease| lease.mode.get() != Mode::Shared || !state.is_share(lease);
    state.holders(slot).map(|slot| &state.leases[slot]).take_while(is_named)
}

/// Returns the holders that have one of these secrets.
pub(crate) fn holders_with(
    state: &State,
    slot: Slot<Lock>,
    now: Timestamp,
    secrets: &BTreeSet<[u8; 16]>,
) -> Vec<LeaseView> {
    let wanted = named_holders(state, slot).filter(|lease| secrets.contains(&lease.secret.0));
    let wanted = wanted.filter(|lease| state.overdue(lease, now).is_none());
    wanted.map(|holder| lease(state, holder)).collect()
}

pub(crate) fn lease_record(state: &State, lease: &Lease) -> LeaseRecord {
    let extra = lease.extra.as_deref();
    LeaseRecord {
        number: lease.number,
        secret: lease.secret,
        lock: state.key(lease.lock),
        owner: state.owner(lease.owner).clone(),
        session: lease.session().map(|session| state.sessions[session].number),
        dialect: lease.dialect,
        mode: lease.mode.get(),
        phase: lease.phase,
        tethered: lease.tethered,
        keep: lease.keep,
        version: lease.version,
        token: lease.token,
        created_at: lease.created_at(),
        granted_at: lease.granted_at,
        renewed_at: lease.renewed_at,
        deadline: lease.deadline,
        ttl: lease.ttl.get(),
        grace: lease.grace(),
        metadata: extra.and_then(|extra| extra.metadata.clone()),
        requests: lease.requests().to_vec(),
        reason: extra.and_then(|extra| extra.reason.clone()),
        group: lease.group(),
        peer: state.owners.accounts.get(state.account_of(lease)).peer,
    }
}

pub(crate) fn lock_record(state: &State, slot: Slot<Lock>) -> LockRecord {
    let lock = &state.locks[slot];
    LockRecord {
        lock: state.key(slot),
        last_token: lock.last_token,
        lapse: lapse_record(state, lock),
    }
}

pub(crate) fn session_record(state: &State, session: &Session) -> SessionRecord {
    SessionRecord {
        number: session.number,
        digest: session.digest,
        owner: state.owner(session.owner).clone(),
        dialect: session.dialect,
        ttl: session.ttl,
        opened_at: session.opened_at,
        deadline: session.deadline,
        ended: session.ended,
        credential: session.credential.clone(),
        peer: state.owners.accounts.get(session.account).peer,
    }
}

fn lapse_record(state: &State, lock: &Lock) -> Option<LapseRecord> {
    lock.lapse.as_deref().map(|lapse| LapseRecord {
        owner: state.owner(lapse.owner).clone(),
        dialect: lapse.dialect,
        expired_at: lapse.expired_at,
        grace_until: lapse.grace_until,
    })
}

pub(crate) fn counts(state: &State) -> Counts {
    Counts {
        n_locks: state.locks.len(),
        n_idle: state.idle.len(),
        n_held: state.held.n_locks,
        n_held_leases: state.held.n_leases,
        n_active: state.n_active,
        n_waiting: state.n_queued,
        n_ended: state.kept.len() + state.answered.len(),
        n_sessions: state.sessions.len(),
        n_convoys: state.n_convoys,
        n_requests: state.requests.len(),
        n_namespaces: state.namespaces.len(),
        bytes: state.footprint(),
    }
}
