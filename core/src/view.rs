//! What can be seen of the machine from outside: copies that stay true to the moment they were taken.

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

/// A lease, without what it would cost to copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseView {
    /// Number and proof. Only for its owner's eyes.
    pub id: LeaseId,
    /// Whose.
    pub owner: Owner,
    /// Through which dialect.
    pub dialect: Dialect,
    /// With whom it shares.
    pub mode: Mode,
    /// Where it is in its life.
    pub phase: Phase,
    /// Its fencing token; zero while it waits.
    pub token: Token,
    /// One more with every change.
    pub version: u32,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// When it was last renewed, or granted.
    pub renewed_at: Timestamp,
    /// When its wait is over, when it ends unless renewed, or when it ended. `None`: never.
    pub deadline: Option<Timestamp>,
    /// What a grant gives it.
    pub ttl: Option<Span>,
    /// For how long after its expiry the lock stays reserved for its owner.
    pub grace: Span,
    /// The leases it was asked for with, if there are any.
    pub group: Option<Group>,
    /// What its owner wants to be shown.
    pub metadata: Option<Arc<[u8]>>,
}

impl LeaseView {
    /// About what one takes up beside its metadata.
    pub const BYTES: usize = 256;

    /// How long it still lasts at `now`; `None` if forever.
    pub fn remaining(&self, now: Timestamp) -> Option<Span> {
        self.deadline.map(|deadline| deadline.since(now))
    }

    /// Shows the lease as it is after its end.
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
    /// Who has it, latest grant first; no more than were asked for.
    pub holders: Vec<LeaseView>,
    /// How many have it.
    pub n_holders: usize,
    /// Who waits, in order; no more than were asked for.
    pub queue: Vec<LeaseView>,
    /// How many wait.
    pub n_waiting: usize,
    /// Who let it expire last, if nobody got it since.
    pub lapse: Option<LapseRecord>,
}

impl LockView {
    /// About how much there is to show.
    pub fn n_bytes(&self) -> usize {
        let leases = self.holders.iter().chain(&self.queue);
        let bytes = |lease: &LeaseView| {
            LeaseView::BYTES + lease.metadata.as_ref().map_or(0, |metadata| metadata.len())
        };
        LeaseView::BYTES + leases.map(bytes).sum::<usize>()
    }
}

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Locks held, waited for or remembered.
    pub n_locks: usize,
    /// Of these, the ones nobody uses.
    pub n_idle: usize,
    /// Held locks: by one or several holders, not counting locks with shares only.
    pub n_held: usize,
    /// Active leases that are not shares.
    pub n_held_leases: usize,
    /// Active leases.
    pub n_active: usize,
    /// Waiting leases.
    pub n_waiting: usize,
    /// Ended leases still remembered.
    pub n_ended: usize,
    /// Sessions.
    pub n_sessions: usize,
    /// Locks that are free though somebody waits for them together with others.
    pub n_convoys: usize,
    /// Request ids remembered.
    pub n_requests: usize,
    /// Namespaces.
    pub n_namespaces: usize,
    /// Bytes, by what they are for.
    pub bytes: Footprint,
}

/// How much there is in one namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamespaceCount {
    /// Its name.
    pub name: Arc<str>,
    /// Locks held or waited for.
    pub n_locks: usize,
    /// Leases active or waiting.
    pub n_leases: u32,
}

/// How much there is in those with the most leases, in the order of their names, and in all others.
pub(crate) fn namespaces(state: &State, n_max: usize) -> (Vec<NamespaceCount>, usize, u64) {
    let mut all: Vec<_> = state.namespaces.iter().collect();
    if n_max < all.len() {
        // Those with as many are told apart by their names, so that it is the same ones each time.
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

/// How much of a lock is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detail {
    /// Most of its queue.
    pub n_queue_max: usize,
    /// About how many bytes its holders may have, and its queue; the first holder is always shown.
    pub n_bytes_max: usize,
}

impl Detail {
    /// All of its holders, and this many of its queue.
    pub fn queue(n_queue_max: usize) -> Self {
        Self { n_queue_max, n_bytes_max: usize::MAX }
    }

    /// As many of these as may be shown.
    fn some<'a>(self, leases: impl Iterator<Item = &'a Lease>) -> impl Iterator<Item = &'a Lease> {
        let mut n_bytes = 0;
        leases.take_while(move |lease| {
            let is_shown = n_bytes < self.n_bytes_max;
            n_bytes += LeaseView::BYTES + Footprint::of(lease).metadata;
            is_shown
        })
    }
}

/// What is true of a lock at `now`: nothing overdue is shown.
pub(crate) fn lock(state: &State, slot: Slot<Lock>, now: Timestamp, detail: Detail) -> LockView {
    let is_true = |lease: &&Lease| state.overdue(lease, now).is_none();
    let lock = &state.locks[slot];
    let holders = state.holders(slot).map(|slot| &state.leases[slot]).filter(is_true);
    let waiters = lock.queue().into_iter().flat_map(|queue| queue.iter());
    let waiters = waiters.map(|slot| &state.leases[slot]).filter(is_true);
    // One that was only ever waited for has had as many grants as one that is not known.
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
