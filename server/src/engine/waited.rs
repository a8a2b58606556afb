//! What those who waited are told.

use leasehold_core::{
    Acquired, AcquiredAll, Command, Detail, Grant, GrantKind, LeaseNumber, LeaseView, LockKey,
    LockView, Outcome, Phase, Rejection, Wait, mutant,
};

use super::ask::Reply;
use super::writer::Writer;

/// What a connection waits for.
pub(super) enum Wanted {
    /// One lock.
    One(LockKey),
    /// All of these.
    All(Vec<LockKey>),
}

impl Wanted {
    /// What a command waits for on its connection, if that is what it does.
    pub(super) fn by(command: &Command) -> Option<Self> {
        match command {
            Command::Acquire(acquire) if matches!(acquire.wait, Wait::Connected(_)) => {
                Some(Self::One(acquire.lock.clone()))
            }
            Command::AcquireAll(all) if matches!(all.first.wait, Wait::Connected(_)) => {
                let first = &all.first.lock;
                let others = all.others.iter().map(|other| LockKey {
                    namespace: first.namespace.clone(),
                    name: other.name.clone(),
                });
                Some(Self::All(std::iter::once(first.clone()).chain(others).collect()))
            }
            _ => None,
        }
    }
}

/// The lease that waits after a command, the first if there are several.
pub(super) fn queued(outcome: &Result<Outcome, Rejection>) -> Option<LeaseNumber> {
    match outcome {
        Ok(Outcome::Acquire(Acquired::Queued(lease))) => Some(*lease),
        Ok(Outcome::AcquireAll(AcquiredAll::Queued(lease))) => Some(*lease),
        _ => None,
    }
}

impl Writer {
    /// What became of a lease that waited, or of the first of several that waited together.
    pub(super) fn waited(&self, lease: LeaseNumber, wanted: &Wanted) -> Reply {
        match wanted {
            Wanted::One(key) => match self.active(lease) {
                Some(lease) => {
                    let grant = Grant { lease, kind: GrantKind::New, previous: None };
                    Reply::Applied(Ok(Outcome::Acquire(Acquired::Granted(Box::new(grant)))))
                }
                None => Reply::WaitOver { n: 0, view: Box::new(self.in_the_way(key)) },
            },
            Wanted::All(keys) => self.waited_for_all(lease, keys),
        }
    }

    /// Told whole: if one of them has ended meanwhile, the wait was in vain, and the rest is given back.
    fn waited_for_all(&self, first: LeaseNumber, keys: &[LockKey]) -> Reply {
        let numbers = (first.0..).take(keys.len()).map(LeaseNumber);
        let active: Vec<_> = numbers.filter_map(|number| self.active(number)).collect();
        let is_whole = active.len() == keys.len() || mutant!(GroupToldInPart) && !active.is_empty();
        if is_whole {
            let grant = |lease| Grant { lease, kind: GrantKind::New, previous: None };
            let grants = active.into_iter().map(grant).collect();
            return Reply::Applied(Ok(Outcome::AcquireAll(AcquiredAll::Granted(grants))));
        }
        if let Some(left) = active.first() {
            drop(self.undelivered(left.id.number));
        }
        let is_taken = |key: &LockKey| !self.in_the_way(key).holders.is_empty();
        let n = keys.iter().position(is_taken).unwrap_or_default();
        Reply::WaitOver { n, view: Box::new(self.in_the_way(&keys[n])) }
    }

    /// A lock with as much of its holders as it takes to know who is in the way.
    fn in_the_way(&self, key: &LockKey) -> LockView {
        self.machine.lock_in_part(key, Detail { n_queue_max: 0, n_bytes_max: 1 })
    }

    fn active(&self, number: LeaseNumber) -> Option<LeaseView> {
        let lease = self.machine.lease(number)?;
        (lease.phase == Phase::Active && !self.is_over(&lease)).then_some(lease)
    }
}
