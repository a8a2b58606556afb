//! The machine: takes commands, returns changes.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::absorb::Incoherent;
use crate::account::Share;
use crate::apply;
use crate::ask::Ask;
use crate::asker::Asker;
use crate::change::Change;
use crate::fact::Fact;
use crate::lease::{Lease, LeaseNumber, LeaseRecord};
use crate::limits::Limits;
use crate::name::{Dialect, LockKey, Owner};
use crate::outcome::{Applied, Effects, Rejection};
use crate::session::{SessionDigest, SessionRecord};
use crate::state::State;
use crate::time::Timestamp;
use crate::token::Token;
use crate::transition::Transition;
use crate::view::{self, Counts, Detail, LeaseView, LockView, NamespaceCount};
use crate::vigil::Vigil;

/// All locks, leases, queues and sessions of one store.
pub struct Machine {
    pub(crate) state: State,
    pub(crate) limits: Limits,
}

impl Machine {
    /// Creates an empty machine.
    ///
    /// Draw `hash_seed` at random in every process. It only decides which names share a hash bucket, so that clients
    /// cannot choose names that collide.
    pub fn new(limits: Limits, hash_seed: u128) -> Self {
        let (vigil, share) = (Vigil::new(&limits), Share::new(&limits));
        Self { state: State::new(hash_seed, vigil, share), limits }
    }

    /// Executes a command at `now`, completely or not at all. The same commands at the same times produce the same
    /// changes.
    ///
    /// Time never goes backwards: if `now` is before the time of the latest command, the machine uses that later time.
    pub fn apply<A: Ask>(&mut self, now: Timestamp, ask: A) -> Applied<A::Answer> {
        self.apply_for(None, now, ask)
    }

    /// Like [`Machine::apply`], on behalf of `asker`. Records the asker in front of the changes the command makes.
    pub fn apply_for<A: Ask>(
        &mut self,
        asker: Option<Arc<Asker>>,
        now: Timestamp,
        ask: A,
    ) -> Applied<A::Answer> {
        let mut effects = Effects::default();
        let outcome = self.apply_onto(&mut effects, asker, now, ask);
        let Effects { changes, wakeups, facts } = effects;
        Applied { outcome, changes, wakeups, facts }
    }

    /// Like [`Machine::apply_for`], but appends the changes, wakeups and facts to `effects`, after those of earlier
    /// commands.
    pub fn apply_onto<A: Ask>(
        &mut self,
        effects: &mut Effects,
        asker: Option<Arc<Asker>>,
        now: Timestamp,
        ask: A,
    ) -> Result<A::Answer, Rejection> {
        let now = now.max(self.state.now);
        self.state.now = now;
        let (n_before, n_facts) = (effects.changes.len(), effects.facts.len());
        let mut transition = Transition {
            state: &mut self.state,
            limits: &self.limits,
            now,
            changes: &mut effects.changes,
            n_before,
            wakeups: Vec::new(),
            facts: &mut effects.facts,
            stirred: VecDeque::new(),
        };
        let outcome = ask.decide(&mut transition);
        // Only after the decision, because the deciding code relies on the leases it has found.
        apply::sweep::trim(&mut transition);
        debug_assert!(transition.stirred.is_empty(), "a queue was left without a look at it");
        let n_changes = transition.n_changes() as u32;
        effects.wakeups.append(&mut transition.wakeups);
        if let Some(asker) = asker.filter(|_| n_changes > 0) {
            effects.facts[n_facts..].iter_mut().for_each(|fact| fact.asker = Some(asker.clone()));
            if asker.is_known() {
                effects.changes.insert(n_before, Change::Asked { asker, n_changes });
            }
        }
        outcome
    }

    /// Returns when [`crate::Sweep`] next has work to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        apply::sweep::next_deadline(&self.state, &self.limits)
    }

    /// Applies changes from a journal, which happened at `now`. After an error, the machine must not be used any
    /// further.
    pub fn absorb(&mut self, now: Timestamp, changes: &[Change]) -> Result<(), Incoherent> {
        changes.iter().try_for_each(|change| self.state.absorb(now, change))
    }

    /// Like [`Machine::absorb`], and appends the facts about the changes to `facts`, in the order in which the original
    /// commands reported them.
    pub fn absorb_and_tell(
        &mut self,
        now: Timestamp,
        changes: &[Change],
        facts: &mut Vec<Fact>,
    ) -> Result<(), Incoherent> {
        // The asker of the changes that follow, and for how many of them.
        let mut asked: Option<(&Arc<Asker>, u32)> = None;
        changes.iter().try_for_each(|change| {
            if let Change::Asked { asker, n_changes } = change {
                asked = Some((asker, *n_changes));
                return Ok(());
            }
            let asker = asked.map(|(asker, _)| asker.clone());
            facts.extend(self.state.fact(change).map(|fact| Fact { asker, ..fact }));
            asked = asked.map(|(asker, n)| (asker, n.saturating_sub(1))).filter(|(_, n)| *n > 0);
            self.state.absorb(now, change)
        })
    }

    /// Schedules every queue for another check. Call this after an import and the last [`Machine::absorb`], because the
    /// journal does not record which queues were due for a check.
    pub fn absorbed(&mut self) {
        self.state.mark_queues_pending();
    }

    /// Returns the time of the latest command or change.
    pub fn now(&self) -> Timestamp {
        self.state.now
    }

    /// Returns the limits of this machine.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the state of a lock at the latest time, with at most `n_queue_max` waiters.
    ///
    /// The view leaves out overdue leases, but does not show the waiters that get their place. Run [`crate::Settle`]
    /// first to see those as well.
    pub fn lock(&self, key: &LockKey, n_queue_max: usize) -> LockView {
        self.lock_in_part(key, Detail::queue(n_queue_max))
    }

    /// Like [`Machine::lock`], but `detail` limits both the waiters and the bytes of the view.
    pub fn lock_in_part(&self, key: &LockKey, detail: Detail) -> LockView {
        match self.state.find_lock(key) {
            Some(slot) => view::lock(&self.state, slot, self.state.now, detail),
            None => LockView {
                last_token: self.state.namespaces.floor_of(&key.namespace),
                holders: Vec::new(),
                n_holders: 0,
                queue: Vec::new(),
                n_waiting: 0,
                lapse: None,
            },
        }
    }

    /// Returns the token of the latest grant of a lock. If it was never granted, all later tokens are higher.
    pub fn last_token(&self, key: &LockKey) -> Token {
        self.lock_in_part(key, Detail { n_queue_max: 0, n_bytes_max: 0 }).last_token
    }

    /// Returns the holders of a lock that have one of these secrets, without overdue leases.
    pub fn holders_with(&self, key: &LockKey, secrets: &BTreeSet<[u8; 16]>) -> Vec<LeaseView> {
        let Some(slot) = self.state.find_lock(key) else { return Vec::new() };
        view::holders_with(&self.state, slot, self.state.now, secrets)
    }

    /// Returns whether a lease with this token holds the lock.
    pub fn is_held_with(&self, key: &LockKey, token: Token) -> bool {
        self.is_held_as(key, |lease| lease.token == token)
    }

    /// Returns whether a lease of this owner and dialect holds the lock.
    pub fn is_held_by(&self, key: &LockKey, owner: &Owner, dialect: Dialect) -> bool {
        let known = self.state.owners.find(owner);
        known.is_some_and(|owner| {
            self.is_held_as(key, |lease| lease.owner == owner && lease.dialect == dialect)
        })
    }

    fn is_held_as(&self, key: &LockKey, is_wanted: impl Fn(&Lease) -> bool) -> bool {
        let Some(slot) = self.state.find_lock(key) else { return false };
        let mut holders = view::named_holders(&self.state, slot);
        holders.any(|lease| is_wanted(lease) && self.state.overdue(lease, self.state.now).is_none())
    }

    /// Adds at most `n_max` more locks to the ordered lists of names. Returns whether all locks are in them.
    ///
    /// Until the first list request, the machine does not order names at all. Afterwards, it inserts every new name in
    /// order.
    pub fn order_names(&mut self, n_max: usize) -> bool {
        self.state.catalog(n_max)
    }

    /// Returns the names of a namespace's locks that are not before `from`, in order. The list is complete once
    /// [`Machine::order_names`] has returned true.
    pub fn names<'a>(
        &'a self,
        namespace: &str,
        from: &str,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let State { namespaces, locks, .. } = &self.state;
        let catalog = namespaces.find(namespace).map(|slot| &namespaces.get(slot).catalog);
        // Searched here, so that the iterator does not borrow `from`.
        let slots = catalog.map(|catalog| catalog.from(locks, from));
        slots.into_iter().flatten().map(|slot| &*locks[slot].name)
    }

    /// Returns the number and dialect of each lease that stays readable after its end, in order of number.
    pub fn listed_leases(
        &self,
        from: LeaseNumber,
    ) -> impl Iterator<Item = (LeaseNumber, Dialect)> + '_ {
        let numbers = self.state.listed.range(from..);
        let slots = numbers.filter_map(|number| self.state.find_lease(*number));
        slots.map(|slot| (self.state.leases[slot].number, self.state.leases[slot].dialect))
    }

    /// Returns the lease with this number, whether it is active, waiting or remembered.
    pub fn lease(&self, number: LeaseNumber) -> Option<LeaseView> {
        let slot = self.state.find_lease(number)?;
        Some(view::lease(&self.state, &self.state.leases[slot]))
    }

    /// Returns the complete record of a lease.
    pub fn lease_record(&self, number: LeaseNumber) -> Option<LeaseRecord> {
        let slot = self.state.find_lease(number)?;
        Some(view::lease_record(&self.state, &self.state.leases[slot]))
    }

    /// Returns a session that has not ended.
    pub fn session(&self, digest: &SessionDigest) -> Option<SessionRecord> {
        let session = &self.state.sessions[self.state.find_session(digest)?];
        let is_live = session.ending(self.state.now).is_none();
        is_live.then(|| view::session_record(&self.state, session))
    }

    /// Returns whether maintenance mode is on.
    pub fn is_in_maintenance(&self) -> bool {
        self.state.maintenance
    }

    /// Returns how many sessions of a dialect there are, including ended ones that still have leases to end.
    pub fn n_sessions(&self, dialect: Dialect) -> usize {
        self.state.n_sessions.get(&dialect).copied().unwrap_or_default()
    }

    /// Returns counts for the `n_max` namespaces with the most leases, the number of other namespaces, and the number
    /// of leases in those.
    pub fn namespaces(&self, n_max: usize) -> (Vec<NamespaceCount>, usize, u64) {
        view::namespaces(&self.state, n_max)
    }

    /// Returns how many locks, leases and sessions there are, and how many bytes they take.
    pub fn counts(&self) -> Counts {
        view::counts(&self.state)
    }
}
