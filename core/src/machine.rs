//! The machine: commands in, changes out.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::absorb::Incoherent;
use crate::account::Share;
use crate::apply;
use crate::ask::Ask;
use crate::asker::Asker;
use crate::change::Change;
use crate::fact::Fact;
use crate::lease::{LeaseNumber, LeaseRecord};
use crate::limits::Limits;
use crate::name::{Dialect, LockKey};
use crate::outcome::{Applied, Effects, Rejection};
use crate::session::{SessionDigest, SessionRecord};
use crate::state::State;
use crate::time::Timestamp;
use crate::transition::Transition;
use crate::view::{self, Counts, Detail, LeaseView, LockView, NamespaceCount};
use crate::vigil::Vigil;

/// All locks, leases, queues and sessions of one store.
pub struct Machine {
    pub(crate) state: State,
    pub(crate) limits: Limits,
}

impl Machine {
    /// An empty machine. `hash_seed` should be drawn at random for every process: it decides nothing but
    /// which names share a hash bucket, so that nobody can choose names that do.
    pub fn new(limits: Limits, hash_seed: u128) -> Self {
        let (vigil, share) = (Vigil::new(&limits), Share::new(&limits));
        Self { state: State::new(hash_seed, vigil, share), limits }
    }

    /// Does what is asked at `now`, whole or not at all. The same commands at the same times give the
    /// same changes.
    ///
    /// A `now` before the latest one is taken for the latest one: time only grows.
    pub fn apply<A: Ask>(&mut self, now: Timestamp, ask: A) -> Applied<A::Answer> {
        self.apply_for(None, now, ask)
    }

    /// The same on somebody's word, which is written down before whatever the command changes.
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

    /// The same, with what follows from it added to what followed from others before.
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
        // Not before: whoever decides must be able to rely on what it has found.
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

    /// When there is next something for [`crate::Sweep`] to do.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        apply::sweep::next_deadline(&self.state, &self.limits)
    }

    /// Makes true what a journal says happened at `now`. On an error the machine is not to be used further.
    pub fn absorb(&mut self, now: Timestamp, changes: &[Change]) -> Result<(), Incoherent> {
        changes.iter().try_for_each(|change| self.state.absorb(now, change))
    }

    /// The same, and tells what happened, in the order in which it was told when it happened.
    pub fn absorb_and_tell(
        &mut self,
        now: Timestamp,
        changes: &[Change],
        facts: &mut Vec<Fact>,
    ) -> Result<(), Incoherent> {
        // Who asked for so many changes that follow.
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

    /// To be called after an import and the last [`Machine::absorb`]: every queue is looked at again, because which of
    /// them were waiting to be is not journaled.
    pub fn absorbed(&mut self) {
        self.state.mark_queues_pending();
    }

    /// The latest time anything happened.
    pub fn now(&self) -> Timestamp {
        self.state.now
    }

    /// The bounds it keeps.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is true of a lock at the latest time, with at most `n_queue_max` of its queue. Nothing overdue is
    /// shown; [`crate::Settle`] first also shows who is next instead.
    pub fn lock(&self, key: &LockKey, n_queue_max: usize) -> LockView {
        self.lock_in_part(key, Detail::queue(n_queue_max))
    }

    /// The same, without more of its holders and its queue than `detail` says.
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

    /// Puts the names of so many more locks in order; are all in order now? Nobody pays for the order of names before
    /// somebody wants a list. From then on every new name is put in its place.
    pub fn order_names(&mut self, n_max: usize) -> bool {
        self.state.catalog(n_max)
    }

    /// The names of a namespace's locks in order, from the first on that is not before `from`: all of them once
    /// [`Machine::order_names`] says so.
    pub fn names<'a>(
        &'a self,
        namespace: &str,
        from: &str,
    ) -> impl Iterator<Item = &'a str> + use<'a> {
        let State { namespaces, locks, .. } = &self.state;
        let catalog = namespaces.find(namespace).map(|slot| &namespaces.get(slot).catalog);
        // Found here, so that nobody has to keep `from`.
        let slots = catalog.map(|catalog| catalog.from(locks, from));
        slots.into_iter().flatten().map(|slot| &*locks[slot].name)
    }

    /// The leases that stay readable after their end, in the order of their numbers: number and dialect.
    pub fn listed_leases(
        &self,
        from: LeaseNumber,
    ) -> impl Iterator<Item = (LeaseNumber, Dialect)> + '_ {
        let numbers = self.state.listed.range(from..);
        let slots = numbers.filter_map(|number| self.state.find_lease(*number));
        slots.map(|slot| (self.state.leases[slot].number, self.state.leases[slot].dialect))
    }

    /// A lease by number, active, waiting or remembered.
    pub fn lease(&self, number: LeaseNumber) -> Option<LeaseView> {
        let slot = self.state.find_lease(number)?;
        Some(view::lease(&self.state, &self.state.leases[slot]))
    }

    /// All there is to know of a lease.
    pub fn lease_record(&self, number: LeaseNumber) -> Option<LeaseRecord> {
        let slot = self.state.find_lease(number)?;
        Some(view::lease_record(&self.state, &self.state.leases[slot]))
    }

    /// A session that is not over.
    pub fn session(&self, digest: &SessionDigest) -> Option<SessionRecord> {
        let session = &self.state.sessions[self.state.find_session(digest)?];
        let is_live = session.ending(self.state.now).is_none();
        is_live.then(|| view::session_record(&self.state, session))
    }

    /// Is maintenance on?
    pub fn is_in_maintenance(&self) -> bool {
        self.state.maintenance
    }

    /// How many sessions of a dialect are not over.
    pub fn n_sessions(&self, dialect: Dialect) -> usize {
        self.state.n_sessions.get(&dialect).copied().unwrap_or_default()
    }

    /// How much there is in the `n_max` namespaces with the most leases; how many others there are, and how many leases
    /// in them.
    pub fn namespaces(&self, n_max: usize) -> (Vec<NamespaceCount>, usize, u64) {
        view::namespaces(&self.state, n_max)
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        view::counts(&self.state)
    }
}
