//! The complete state of the machine, with its indexes.
//!
//! All code in this crate can read it, but only [`crate::absorb`] changes it. Derived data (indexes, deadlines, the
//! lists of idle and pending locks) is stored here too and is never journaled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::account::{Account, Share};
use crate::arena::{Arena, Slot};
use crate::changed::Changed;
use crate::deadline::Deadlines;
use crate::footprint::Footprint;
use crate::idle::IdleLocks;
use crate::index::{Filed, Index, NameHash, number_hash};
use crate::lease::{Ending, Lease, LeaseNumber, Mode};
use crate::limits::Limits;
use crate::lock::Lock;
use crate::mutant;
use crate::name::{Dialect, LockKey, Owner};
use crate::namespace::Namespaces;
use crate::owner::{Known, Owners};
use crate::request::{Operation, Request};
use crate::session::{Session, SessionDigest, SessionNumber};
use crate::share::{self, Held};
use crate::time::Timestamp;
use crate::token::Token;
use crate::vigil::Vigil;

pub(crate) struct State {
    /// The time of the latest command or change.
    pub(crate) now: Timestamp,
    pub(crate) hash: NameHash,
    pub(crate) namespaces: Namespaces,
    pub(crate) owners: Owners,
    pub(crate) locks: Arena<Lock>,
    pub(crate) lock_index: Index<Slot<Lock>>,
    pub(crate) leases: Arena<Lease>,
    pub(crate) lease_index: Index<Slot<Lease>>,
    /// The remembered request ids, each leading to the lease that remembers it.
    pub(crate) requests: Index<Filed>,
    pub(crate) sessions: Arena<Session>,
    pub(crate) session_numbers: BTreeMap<SessionNumber, Slot<Session>>,
    pub(crate) session_digests: BTreeMap<SessionDigest, Slot<Session>>,
    pub(crate) lease_deadlines: Deadlines<Lease>,
    pub(crate) session_deadlines: Deadlines<Session>,
    pub(crate) grace_deadlines: Deadlines<Lock>,
    /// Locks whose queue might have a waiter to grant or to end.
    pub(crate) pending: VecDeque<Slot<Lock>>,
    /// Ended sessions that still have leases to end.
    pub(crate) ending: VecDeque<Slot<Session>>,
    pub(crate) idle: IdleLocks,
    /// Ended leases that stay readable, by the time of their end.
    pub(crate) kept: BTreeSet<(Timestamp, LeaseNumber)>,
    /// Ended leases kept only to answer repeated requests, by the time of their end.
    pub(crate) answered: BTreeSet<(Timestamp, LeaseNumber)>,
    pub(crate) next_lease: LeaseNumber,
    pub(crate) next_session: SessionNumber,
    pub(crate) n_active: usize,
    pub(crate) held: Held,
    pub(crate) n_queued: usize,
    /// The number of sessions by dialect, including ended ones that still have leases to end.
    pub(crate) n_sessions: BTreeMap<Dialect, usize>,
    /// The bytes of all leases and of the names of locks.
    pub(crate) footprint: Footprint,
    pub(crate) share: Share,
    /// The accounts whose ended leases exceed their share.
    pub(crate) crowded: BTreeSet<Slot<Account>>,
    pub(crate) maintenance: bool,
    /// The queued leases by owner.
    pub(crate) waiting: BTreeSet<(Slot<Known>, LeaseNumber)>,
    /// The leases that can be listed: those that stay readable after their end, ended or not.
    pub(crate) listed: BTreeSet<LeaseNumber>,
    pub(crate) vigil: Vigil,
    /// The number of locks that are free but have waiters.
    pub(crate) n_convoys: usize,
    /// The locks in slots below this one are in their namespaces' catalogs.
    pub(crate) catalogued: usize,
    /// The locks and sessions that a reader has to collect. `None`: there is no reader.
    pub(crate) changed: Option<Box<Changed>>,
}

impl State {
    pub(crate) fn new(seed: u128, vigil: Vigil, share: Share) -> Self {
        let hash = NameHash::new(seed);
        Self {
            now: Timestamp::ZERO,
            hash,
            namespaces: Namespaces::new(),
            owners: Owners::new(hash),
            locks: Arena::new(),
            lock_index: Index::new(),
            leases: Arena::new(),
            lease_index: Index::new(),
            requests: Index::new(),
            sessions: Arena::new(),
            session_numbers: BTreeMap::new(),
            session_digests: BTreeMap::new(),
            lease_deadlines: Deadlines::new(),
            session_deadlines: Deadlines::new(),
            grace_deadlines: Deadlines::new(),
            pending: VecDeque::new(),
            ending: VecDeque::new(),
            idle: IdleLocks::default(),
            kept: BTreeSet::new(),
            answered: BTreeSet::new(),
            next_lease: LeaseNumber(1),
            next_session: SessionNumber(1),
            n_active: 0,
            held: Held::default(),
            n_queued: 0,
            n_sessions: BTreeMap::new(),
            footprint: Footprint::default(),
            share,
            crowded: BTreeSet::new(),
            maintenance: false,
            waiting: BTreeSet::new(),
            listed: BTreeSet::new(),
            vigil,
            n_convoys: 0,
            catalogued: 0,
            changed: None,
        }
    }

    /// Records that what lists show of a lock has changed.
    #[inline]
    pub(crate) fn lock_changed(&mut self, slot: Slot<Lock>) {
        if let Some(changed) = &mut self.changed {
            changed.locks.mark(slot.index());
        }
    }

    /// Records that the deadline of a session has changed.
    #[inline]
    pub(crate) fn session_changed(&mut self, slot: Slot<Session>) {
        if let Some(changed) = &mut self.changed {
            changed.sessions.mark(slot.index());
        }
    }

    pub(crate) fn find_lock(&self, key: &LockKey) -> Option<Slot<Lock>> {
        let namespace = self.namespaces.find(&key.namespace)?;
        self.lock_index.find(self.hash.of((namespace.index(), &key.name)), |slot| {
            let lock = &self.locks[*slot];
            lock.namespace == namespace && lock.name == key.name
        })
    }

    pub(crate) fn lock_hash(&self, slot: Slot<Lock>) -> u64 {
        let lock = &self.locks[slot];
        self.hash.of((lock.namespace.index(), &lock.name))
    }

    pub(crate) fn is_named(&self, slot: Slot<Lock>, key: &LockKey) -> bool {
        let lock = &self.locks[slot];
        lock.name == key.name && self.namespaces.get(lock.namespace).name == key.namespace
    }

    pub(crate) fn key(&self, slot: Slot<Lock>) -> LockKey {
        let lock = &self.locks[slot];
        LockKey {
            namespace: self.namespaces.get(lock.namespace).name.clone(),
            name: lock.name.clone(),
        }
    }

    pub(crate) fn find_lease(&self, number: LeaseNumber) -> Option<Slot<Lease>> {
        self.lease_index.find(number_hash(number.0), |slot| self.leases[*slot].number == number)
    }

    pub(crate) fn find_session(&self, digest: &SessionDigest) -> Option<Slot<Session>> {
        self.session_digests.get(digest).copied()
    }

    pub(crate) fn owner(&self, slot: Slot<Known>) -> &Owner {
        &self.owners.get(slot).owner
    }

    /// Returns the account a lease counts against.
    pub(crate) fn account_of(&self, lease: &Lease) -> Slot<Account> {
        let own = lease.extra.as_ref().and_then(|extra| extra.account);
        own.unwrap_or_else(|| self.owners.get(lease.owner).account)
    }

    /// Returns the bytes of the whole state.
    pub(crate) fn footprint(&self) -> Footprint {
        let names = self.footprint.names + self.owners.n_bytes() + self.namespaces.n_bytes();
        Footprint { names, ..self.footprint }
    }

    /// Returns the lease that remembers the request with this id, owner and kind.
    pub(crate) fn find_request(&self, scope: &Scope<'_>) -> Option<(Slot<Lease>, &Request)> {
        let owner = self.owners.find(scope.owner)?;
        let filed = self.requests.find(self.request_hash(scope), |filed| {
            let lease = &self.leases[filed.lease];
            lease.owner == owner
                && lease.dialect == scope.dialect
                && *self.namespace_of(lease) == *scope.namespace
                && lease.requests().iter().any(|request| scope.covers(request))
        })?;
        let mut requests = self.leases[filed.lease].requests().iter();
        Some((filed.lease, requests.find(|request| scope.covers(request))?))
    }

    pub(crate) fn request_hash(&self, scope: &Scope<'_>) -> u64 {
        self.hash.of((scope.namespace, scope.owner, scope.dialect, scope.operation, scope.id))
    }

    pub(crate) fn namespace_of(&self, lease: &Lease) -> &str {
        &self.namespaces.get(self.locks[lease.lock].namespace).name
    }

    /// Returns all holders of a lock, latest grant first.
    pub(crate) fn holders(&self, lock: Slot<Lock>) -> impl Iterator<Item = Slot<Lease>> + '_ {
        let first = self.locks[lock].busy().and_then(|busy| busy.holders);
        std::iter::successors(first, |slot| self.leases[*slot].in_lock.after)
    }

    /// Returns when a lease ends unless it is renewed: at its own deadline or its session's, whichever comes first.
    pub(crate) fn deadline(&self, lease: &Lease) -> Timestamp {
        match lease.session() {
            Some(session) if lease.is_active() => {
                lease.deadline.min(self.sessions[session].deadline)
            }
            _ => lease.deadline,
        }
    }

    /// Returns how and when a lease has ended by `now`, for a lease that is not marked as ended yet.
    pub(crate) fn overdue(&self, lease: &Lease, now: Timestamp) -> Option<(Ending, Timestamp)> {
        let session = lease.session().filter(|_| !mutant!(SessionIgnored));
        let session = session.map(|session| &self.sessions[session]);
        let with_session =
            session.and_then(|session| Some((session.ending(now)?, session.deadline)));
        let by_itself = (now >= lease.deadline).then_some((Ending::Expired, lease.deadline));
        match (by_itself, with_session) {
            (Some(own), Some(session)) => Some(if session.1 < own.1 { session } else { own }),
            (own, session) => own.or(session),
        }
    }

    /// Returns whether any deadline has passed that is not handled yet. If not, no lease is overdue.
    pub(crate) fn is_behind(&self, now: Timestamp) -> bool {
        let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        !self.ending.is_empty()
            || is_due(self.lease_deadlines.first().map(|(at, _)| at))
            || is_due(self.session_deadlines.first().map(|(at, _)| at))
    }

    /// Returns whether the lock could have one more holder of this mode and dialect. Does not check the queue and the
    /// grace period.
    ///
    /// A share always fits. Otherwise the locks of one client could block a common parent directory for all others. The
    /// limit on leases per principal still applies.
    pub(crate) fn admits(
        &self,
        lock: Slot<Lock>,
        (mode, dialect): (Mode, Dialect),
        limits: &Limits,
    ) -> bool {
        let Some(holder) = self.holders(lock).next() else { return true };
        let Lock { name, .. } = &self.locks[lock];
        let fits = |n_max: u32| {
            let is_share = share::is_share(dialect, name) && !mutant!(SharesLimited);
            self.locks[lock].n_holders() < n_max || is_share
        };
        match (self.leases[holder].mode.get(), mode) {
            (Mode::Shared, Mode::Shared) => fits(limits.holders_max),
            (Mode::Counted(_), Mode::Counted(limit)) => fits(limit),
            _ => false,
        }
    }

    /// Returns the next waiter to grant: the first in the queue, or during a grace period the first waiter of the last
    /// owner.
    pub(crate) fn next_waiter(&self, lock: Slot<Lock>, now: Timestamp) -> Option<Slot<Lease>> {
        let queue = self.locks[lock].queue()?;
        match self.locks[lock].grace(now) {
            None => queue.first(),
            Some(lapse) => queue.of(lapse.owner).find(|waiter| {
                let lease = &self.leases[*waiter];
                lapse.is_of(lease.owner, lease.dialect)
            }),
        }
    }

    /// Returns the limit that all counted holders and waiters of a lock share, if there are any.
    pub(crate) fn limit(&self, lock: Slot<Lock>) -> Option<u32> {
        let holder = self.holders(lock).next().map(|holder| self.leases[holder].mode.get());
        match holder {
            Some(Mode::Counted(limit)) => Some(limit),
            _ => self.locks[lock].queue().and_then(|queue| queue.limit()),
        }
    }

    /// Returns the token of a lock's next grant, or `None` if all tokens are used up.
    pub(crate) fn next_token(&self, lock: Option<Slot<Lock>>, namespace: &str) -> Option<Token> {
        let last = lock.map_or(Token::ZERO, |lock| self.locks[lock].last_token);
        last.max(self.namespaces.floor_of(namespace)).next()
    }

    /// Returns the set that remembers ended leases of this kind.
    pub(crate) fn memory_of(&mut self, keep: bool) -> &mut BTreeSet<(Timestamp, LeaseNumber)> {
        if keep { &mut self.kept } else { &mut self.answered }
    }

    pub(crate) fn is_queued(&self, slot: Slot<Lease>) -> bool {
        self.leases[slot].phase.is_queued()
    }
}

/// The scope within which a request id is unique.
pub(crate) struct Scope<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) owner: &'a Owner,
    pub(crate) dialect: Dialect,
    pub(crate) operation: Operation,
    pub(crate) id: &'a str,
}

impl Scope<'_> {
    fn covers(&self, request: &Request) -> bool {
        request.operation == self.operation && *request.id == *self.id
    }
}
