//! Changes to leases.

use std::sync::Arc;

use super::Incoherent;
use crate::account::Account;
use crate::arena::Slot;
use crate::index::{Filed, number_hash};
use crate::lease::{Ending, Extra, Lease, LeaseNumber, LeaseRecord, Links, Mode, Phase, Ttl};
use crate::lock::{Lapse, Lock};
use crate::mutant;
use crate::name::Owner;
use crate::owner::Known;
use crate::request::{Operation, Request};
use crate::session::Session;
use crate::state::{Scope, State};
use crate::time::{Span, Timestamp};
use crate::token::Token;

/// How a lease ends.
pub(super) struct Ended {
    pub(super) how: Ending,
    pub(super) at: Timestamp,
    /// Whether the ended lease can still be looked up.
    pub(super) kept: bool,
    pub(super) request: Option<Request>,
    pub(super) reason: Option<Arc<str>>,
}

impl State {
    pub(crate) fn add_lease(&mut self, record: &LeaseRecord) -> Result<(), Incoherent> {
        if self.find_lease(record.number).is_some() {
            return Err(Incoherent(format!("lease {:?} is added twice", record.number)));
        }
        let session = match record.session {
            Some(number) => Some(self.known_session(number)?),
            None => None,
        };
        let lock = self.use_lock(&record.lock);
        let slot = self.insert_lease(record, lock);
        self.weigh(slot);
        match record.phase {
            Phase::Active => {
                self.n_active += 1;
                self.add_holder(lock, slot);
            }
            Phase::Waiting | Phase::Parked => self.enqueue(lock, slot),
            Phase::Ended(_) => {
                self.locks[lock].busy_mut().n_ended += 1;
                self.memory_of(record.keep).insert((record.deadline, record.number));
                self.file_ended(slot);
            }
        }
        if !matches!(record.phase, Phase::Ended(_)) {
            self.begin(slot, session);
        }
        Ok(())
    }

    fn insert_lease(&mut self, record: &LeaseRecord, lock: Slot<Lock>) -> Slot<Lease> {
        let owner = self.owners.retain(&record.owner, record.peer);
        let extra = self.counted(owner, record, extra(record));
        self.found(lock, extra.as_ref().and_then(|extra| extra.account), owner);
        let slot = self.leases.insert(Lease {
            number: record.number,
            secret: record.secret,
            lock,
            owner,
            in_lock: Links::default(),
            dialect: record.dialect,
            mode: record.mode.into(),
            phase: record.phase,
            tethered: record.tethered,
            keep: record.keep,
            version: record.version,
            token: record.token,
            granted_at: record.granted_at,
            renewed_at: record.renewed_at,
            deadline: record.deadline,
            ttl: Ttl::new(record.ttl),
            grace_ms: record.grace.as_millis() as u32,
            membership: None,
            extra,
        });
        let Self { leases, lease_index, .. } = self;
        let hash_of = |slot: &Slot<Lease>| number_hash(leases[*slot].number.0);
        lease_index.insert(hash_of(&slot), slot, hash_of);
        self.next_lease = self.next_lease.max(LeaseNumber(record.number.0 + 1));
        for request in &record.requests {
            self.index_request(slot, request);
        }
        if record.keep {
            self.listed.insert(record.number);
        }
        self.name_weighs(slot);
        slot
    }

    /// Stores the account in the lease, if it is not the usual account of its owner.
    fn counted(
        &mut self,
        owner: Slot<Known>,
        record: &LeaseRecord,
        mut extra: Option<Box<Extra>>,
    ) -> Option<Box<Extra>> {
        let usual = self.owners.get(owner).account;
        let LeaseRecord { owner: Owner { principal, .. }, peer, .. } = record;
        if !self.owners.accounts.get(usual).is(principal, *peer) {
            let account = self.owners.accounts.retain(principal, *peer);
            extra.get_or_insert_default().account = Some(account);
        }
        extra
    }

    /// Assigns a namespace without an account to the account of its first lease.
    fn found(&mut self, lock: Slot<Lock>, other: Option<Slot<Account>>, owner: Slot<Known>) {
        let namespace = self.locks[lock].namespace;
        if self.namespaces.get(namespace).account.is_none() {
            let account = other.unwrap_or(self.owners.get(owner).account);
            self.owners.accounts.retain_known(account);
            self.owners.accounts.get_mut(account).n_namespaces += 1;
            self.namespaces.set_account(namespace, account);
        }
    }

    /// Starts to count a lease in its account, its namespace and its session, and sets its deadline.
    fn begin(&mut self, slot: Slot<Lease>, session: Option<Slot<Session>>) {
        let deadline = self.leases[slot].deadline;
        let account = self.account_of(&self.leases[slot]);
        self.owners.accounts.get_mut(account).n_leases += 1;
        let namespace = self.locks[self.leases[slot].lock].namespace;
        self.namespaces.count_lease(namespace, true);
        if let Some(session) = session {
            self.join_session(session, slot);
        }
        self.lease_deadlines.set(slot, deadline);
        let looked_until = if mutant!(NotedAgainAfterRestart) { Timestamp::ZERO } else { self.now };
        self.look_again(slot, looked_until);
    }

    fn enqueue(&mut self, lock: Slot<Lock>, slot: Slot<Lease>) {
        self.n_queued += 1;
        let lease = &self.leases[slot];
        self.waiting.insert((lease.owner, lease.number));
        self.locks[lock].busy_mut().queue.get_or_insert_default().insert(lease, slot);
        self.lock_moved(lock);
    }

    fn dequeue(&mut self, slot: Slot<Lease>) {
        self.n_queued -= 1;
        let lease = &self.leases[slot];
        let lock = lease.lock;
        self.waiting.remove(&(lease.owner, lease.number));
        let busy = self.locks[lock].busy_mut();
        let Some(queue) = &mut busy.queue else { panic!("a waiter's lock has no queue") };
        queue.remove(lease);
        if queue.len() == 0 {
            busy.queue = None;
        }
        self.lock_moved(lock);
    }

    pub(super) fn grant(
        &mut self,
        slot: Slot<Lease>,
        token: Token,
        at: Timestamp,
        deadline: Timestamp,
    ) {
        self.dequeue(slot);
        self.unweigh(slot);
        self.n_active += 1;
        let lease = &mut self.leases[slot];
        lease.phase = Phase::Active;
        lease.token = token;
        if lease.granted_at != at {
            lease.extra().created_at = Some(lease.granted_at);
        }
        lease.granted_at = at;
        lease.renewed_at = at;
        lease.deadline = deadline;
        let lock = lease.lock;
        self.weigh(slot);
        self.add_holder(lock, slot);
        self.lease_deadlines.set(slot, deadline);
        self.look_again(slot, at);
    }

    pub(super) fn renew(
        &mut self,
        slot: Slot<Lease>,
        at: Timestamp,
        deadline: Timestamp,
        request: Option<Request>,
    ) {
        let lease = &mut self.leases[slot];
        lease.renewed_at = at;
        lease.version += 1;
        let lock = lease.lock;
        let before = std::mem::replace(&mut lease.deadline, deadline);
        if !mutant!(RenewalNotCollected) {
            self.lock_changed(lock);
        }
        // A later deadline does not move the lease's entry among the deadlines, which keeps the usual renewal cheap.
        // When the old deadline comes, `sweep::expire_lease` moves the entry.
        if deadline < before || deadline == Timestamp::NEVER {
            self.lease_deadlines.set(slot, deadline);
        }
        if request.is_some() {
            self.unweigh(slot);
            self.remember(slot, request);
            self.weigh(slot);
        }
    }

    pub(super) fn amend(&mut self, slot: Slot<Lease>, ttl: Option<Span>) {
        self.leases[slot].ttl = Ttl::new(ttl);
        self.leases[slot].version += 1;
    }

    pub(super) fn park(&mut self, slot: Slot<Lease>, deadline: Timestamp) {
        self.requeue(slot, Phase::Parked, deadline);
    }

    pub(super) fn attach(&mut self, slot: Slot<Lease>, deadline: Timestamp) {
        self.requeue(slot, Phase::Waiting, deadline);
    }

    /// Changes whether a waiter is parked. It keeps its position in the queue.
    fn requeue(&mut self, slot: Slot<Lease>, phase: Phase, deadline: Timestamp) {
        let lease = &mut self.leases[slot];
        if let Some(queue) = &mut self.locks[lease.lock].busy_mut().queue {
            queue.remove(lease);
            lease.phase = phase;
            lease.deadline = deadline;
            queue.insert(lease, slot);
        }
        let lock = lease.lock;
        self.lock_moved(lock);
        self.lease_deadlines.set(slot, deadline);
    }

    pub(super) fn end_lease(&mut self, slot: Slot<Lease>, ended: Ended) {
        let Lease { lock, phase, mode, keep, number, .. } = self.leases[slot];
        self.unweigh(slot);
        if phase == Phase::Active {
            self.n_active -= 1;
            self.remove_holder(lock, slot);
            if mode.get() == Mode::Exclusive && ended.how == Ending::Expired {
                self.lapse(slot, ended.at);
            }
        } else {
            self.dequeue(slot);
            self.forget_requests(slot);
        }
        self.leave_session(slot);
        self.lease_deadlines.remove(slot);
        self.vigil.remove(slot);
        let account = self.account_of(&self.leases[slot]);
        self.owners.accounts.get_mut(account).n_leases -= 1;
        self.namespaces.count_lease(self.locks[lock].namespace, false);
        self.locks[lock].busy_mut().n_ended += 1;
        let lease = &mut self.leases[slot];
        lease.phase = Phase::Ended(ended.how);
        lease.deadline = ended.at;
        lease.version += 1;
        if keep && ended.reason.is_some() {
            lease.extra().reason = ended.reason;
        }
        self.remember(slot, ended.request);
        if ended.kept {
            self.slim(slot);
            self.weigh(slot);
            self.memory_of(keep).insert((ended.at, number));
            self.file_ended(slot);
        } else {
            self.discard_lease(slot);
        }
    }

    /// Reduces an ended lease that need not stay readable to what is needed to answer repeated requests.
    fn slim(&mut self, slot: Slot<Lease>) {
        let lease = &mut self.leases[slot];
        if let Some(extra) = &mut lease.extra
            && !lease.keep
        {
            extra.slim();
            lease.extra = lease.extra.take().filter(|extra| !extra.is_empty());
        }
    }

    fn lapse(&mut self, slot: Slot<Lease>, expired_at: Timestamp) {
        let Lease { lock, owner, dialect, .. } = self.leases[slot];
        self.owners.retain_known(owner);
        let grace_until = expired_at + self.leases[slot].grace();
        self.set_lapse(lock, Lapse { owner, dialect, expired_at, grace_until });
    }

    pub(super) fn forget_lease(&mut self, slot: Slot<Lease>) {
        let Lease { number, deadline, keep, .. } = self.leases[slot];
        self.memory_of(keep).remove(&(deadline, number));
        self.unfile_ended(slot);
        self.unweigh(slot);
        self.discard_lease(slot);
    }

    /// Removes an ended lease completely.
    fn discard_lease(&mut self, slot: Slot<Lease>) {
        self.forget_requests(slot);
        self.name_weighs_no_more(slot);
        let Lease { number, lock, owner, .. } = self.leases[slot];
        self.lease_index.remove(number_hash(number.0), |other| *other == slot);
        let Lease { extra, keep, .. } = self.leases.remove(slot);
        if keep {
            self.listed.remove(&number);
        }
        if let Some(account) = extra.and_then(|extra| extra.account) {
            self.owners.accounts.release(account);
        }
        self.owners.release(owner);
        self.locks[lock].busy_mut().n_ended -= 1;
        self.rest(lock);
    }

    fn remember(&mut self, slot: Slot<Lease>, request: Option<Request>) {
        if let Some(request) = request {
            self.index_request(slot, &request);
            self.leases[slot].extra().requests.push(request);
        }
    }

    fn index_request(&mut self, slot: Slot<Lease>, request: &Request) {
        let hash = self.hash_of_request(slot, request);
        self.requests.insert(hash, Filed { hash, lease: slot }, |filed| filed.hash);
    }

    fn forget_requests(&mut self, slot: Slot<Lease>) {
        let Some(extra) = &mut self.leases[slot].extra else { return };
        for request in std::mem::take(&mut extra.requests) {
            let hash = self.hash_of_request(slot, &request);
            self.requests.remove(hash, |filed| *filed == Filed { hash, lease: slot });
        }
    }

    pub(super) fn forget_request(&mut self, slot: Slot<Lease>, operation: Operation, id: &str) {
        self.unweigh(slot);
        let requests = &mut self.leases[slot].extra().requests;
        let is_it = |request: &Request| request.operation == operation && *request.id == *id;
        if let Some(at) = requests.iter().position(is_it) {
            let request = requests.remove(at);
            let hash = self.hash_of_request(slot, &request);
            self.requests.remove(hash, |filed| *filed == Filed { hash, lease: slot });
        }
        self.weigh(slot);
    }

    fn hash_of_request(&self, slot: Slot<Lease>, request: &Request) -> u64 {
        let lease = &self.leases[slot];
        self.request_hash(&Scope {
            namespace: self.namespace_of(lease),
            owner: self.owner(lease.owner),
            dialect: lease.dialect,
            operation: request.operation,
            id: &request.id,
        })
    }
}

fn extra(record: &LeaseRecord) -> Option<Box<Extra>> {
    let created_at = Some(record.created_at).filter(|at| *at != record.granted_at);
    let has_any = record.metadata.is_some()
        || !record.requests.is_empty()
        || record.reason.is_some()
        || created_at.is_some()
        || record.group.is_some();
    if !has_any {
        return None;
    }
    let mut extra = Extra {
        metadata: record.metadata.clone(),
        requests: record.requests.clone(),
        reason: record.reason.clone(),
        created_at,
        group: record.group,
        account: None,
        was_replayed: false,
    };
    if matches!(record.phase, Phase::Ended(_)) && !record.keep {
        extra.slim();
    }
    Some(Box::new(extra)).filter(|extra| !extra.is_empty())
}
