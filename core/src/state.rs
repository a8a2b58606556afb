//! Everything the machine remembers, and how to find it.
//!
//! Reading is free for all; writing is [`crate::absorb`]'s alone. What is derived (indexes, deadlines, the
//! lists of idle and pending locks) is kept here too and never journaled.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::account::{Account, Share};
use crate::arena::{Arena, Slot};
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
    /// The latest time anything happened.
    pub(crate) now: Timestamp,
    pub(crate) hash: NameHash,
    pub(crate) namespaces: Namespaces,
    pub(crate) owners: Owners,
    pub(crate) locks: Arena<Lock>,
    pub(crate) lock_index: Index<Slot<Lock>>,
    pub(crate) leases: Arena<Lease>,
    pub(crate) lease_index: Index<Slot<Lease>>,
    /// One entry for every request id remembered, leading to the lease it is remembered with.
    pub(crate) requests: Index<Filed>,
    pub(crate) sessions: Arena<Session>,
    pub(crate) session_numbers: BTreeMap<SessionNumber, Slot<Session>>,
    pub(crate) session_digests: BTreeMap<SessionDigest, Slot<Session>>,
    pub(crate) lease_deadlines: Deadlines<Lease>,
    pub(crate) session_deadlines: Deadlines<Session>,
    pub(crate) grace_deadlines: Deadlines<Lock>,
    /// Locks whose queue may have somebody to grant or to give up.
    pub(crate) pending: VecDeque<Slot<Lock>>,
    /// Ended sessions with leases left to end.
    pub(crate) ending: VecDeque<Slot<Session>>,
    pub(crate) idle: IdleLocks,
    /// Ended leases that stay readable, by the time of their end.
    pub(crate) kept: BTreeSet<(Timestamp, LeaseNumber)>,
    /// Ended leases that only answer for what was asked of them, by the time of their end.
    pub(crate) answered: BTreeSet<(Timestamp, LeaseNumber)>,
    pub(crate) next_lease: LeaseNumber,
    pub(crate) next_session: SessionNumber,
    pub(crate) n_active: usize,
    pub(crate) held: Held,
    pub(crate) n_queued: usize,
    /// Sessions of each dialect.
    pub(crate) n_sessions: BTreeMap<Dialect, usize>,
    /// What leases and the names of locks take up.
    pub(crate) footprint: Footprint,
    pub(crate) share: Share,
    /// Accounts that have more than their share of the remembered ended leases.
    pub(crate) crowded: BTreeSet<Slot<Account>>,
    pub(crate) maintenance: bool,
    /// Leases in queues by owner.
    pub(crate) waiting: BTreeSet<(Slot<Known>, LeaseNumber)>,
    /// Leases that stay readable after their end, whether or not that has come: they can be listed.
    pub(crate) listed: BTreeSet<LeaseNumber>,
    pub(crate) vigil: Vigil,
    /// Locks that are free though somebody waits for them.
    pub(crate) n_convoys: usize,
    /// The locks before this slot are in their namespaces' catalogs.
    pub(crate) catalogued: usize,
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

    /// Whom a lease is counted with.
    pub(crate) fn account_of(&self, lease: &Lease) -> Slot<Account> {
        let own = lease.extra.as_ref().and_then(|extra| extra.account);
        own.unwrap_or_else(|| self.owners.get(lease.owner).account)
    }

    /// What everything takes up.
    pub(crate) fn footprint(&self) -> Footprint {
        let names = self.footprint.names + self.owners.n_bytes() + self.namespaces.n_bytes();
        Footprint { names, ..self.footprint }
    }

    /// The lease that remembers a request with this id of this owner.
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

    /// Every holder of a lock.
    pub(crate) fn holders(&self, lock: Slot<Lock>) -> impl Iterator<Item = Slot<Lease>> + '_ {
        let first = self.locks[lock].busy().and_then(|busy| busy.holders);
        std::iter::successors(first, |slot| self.leases[*slot].in_lock.after)
    }

    /// When a lease ends unless renewed: its own deadline or its session's, whichever comes first.
    pub(crate) fn deadline(&self, lease: &Lease) -> Timestamp {
        match lease.session() {
            Some(session) if lease.is_active() => {
                lease.deadline.min(self.sessions[session].deadline)
            }
            _ => lease.deadline,
        }
    }

    /// How and when a lease that is not marked as ended has in truth ended by `now`.
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

    /// Has anything fallen due that was not worked off yet? If not, every lock is as it seems.
    pub(crate) fn is_behind(&self, now: Timestamp) -> bool {
        let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        !self.ending.is_empty()
            || is_due(self.lease_deadlines.first().map(|(at, _)| at))
            || is_due(self.session_deadlines.first().map(|(at, _)| at))
    }

    /// Could the lock take one more holder of this mode and protocol? Does not check the queue and the grace period.
    ///
    /// A share always fits: otherwise one client's locks would keep all others out of a common folder. The leases of a
    /// principal are limited all the same.
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

    /// Whose turn it is: the first in the queue, or in a grace period the first of the last owner.
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

    /// The count all counted holders and waiters of a lock agree on, if there are any.
    pub(crate) fn limit(&self, lock: Slot<Lock>) -> Option<u32> {
        let holder = self.holders(lock).next().map(|holder| self.leases[holder].mode.get());
        match holder {
            Some(Mode::Counted(limit)) => Some(limit),
            _ => self.locks[lock].queue().and_then(|queue| queue.limit()),
        }
    }

    /// The token of a lock's next grant.
    pub(crate) fn next_token(&self, lock: Option<Slot<Lock>>, namespace: &str) -> Option<Token> {
        let last = lock.map_or(Token::ZERO, |lock| self.locks[lock].last_token);
        last.max(self.namespaces.floor_of(namespace)).next()
    }

    /// The set an ended lease is remembered in.
    pub(crate) fn memory_of(&mut self, keep: bool) -> &mut BTreeSet<(Timestamp, LeaseNumber)> {
        if keep { &mut self.kept } else { &mut self.answered }
    }

    pub(crate) fn is_queued(&self, slot: Slot<Lease>) -> bool {
        self.leases[slot].phase.is_queued()
    }
}

/// Within what a request id means one thing.
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
