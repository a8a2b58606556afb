//! Answers clients whose wait for a lock has ended.

use leasehold_core::{
    Acquired, AcquiredAll, Command, Detail, Grant, GrantKind, LeaseNumber, LeaseView, LockKey,
    LockView, Outcome, Phase, Rejection, Wait, mutant,
};

use super::ask::Reply;
use super::error::Error;
use super::mailbox::Told;
use super::metrics::Op;
use super::undelivered::Undelivered;
use super::waiters::Waiter;
use super::writer::Writer;

/// The locks that a connection waits for.
pub(super) enum Wanted {
    /// One lock.
    One(LockKey),
    /// All of these locks together.
    All(Vec<LockKey>),
}

impl Wanted {
    /// Returns the locks that a command waits for, if it is an acquire.
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

/// Returns the lease that waits after a command. If there are several, returns the first.
pub(super) fn queued(outcome: &Result<Outcome, Rejection>) -> Option<LeaseNumber> {
    match outcome {
        Ok(Outcome::Acquire(Acquired::Queued(lease))) => Some(*lease),
        Ok(Outcome::AcquireAll(AcquiredAll::Queued(lease))) => Some(*lease),
        _ => None,
    }
}

impl Writer {
    /// Answers the connections that waited for these leases.
    pub(super) fn wake(&mut self, leases: impl Iterator<Item = LeaseNumber>) {
        for lease in leases {
            let waiters = self.waiters.take(lease);
            // If several connections are answered, the lease is released only if none of the responses is delivered.
            let is_shared = waiters.len() > 1 && !mutant!(GiveBackWhatIsKnownElsewhere);
            let mut common = None;
            for Waiter { wanted, reply_to, sent_at, .. } in waiters {
                let reply = self.waited(lease, &wanted);
                let is_success = reply.as_ref().map_or(Some(false), Reply::is_success);
                self.metrics.ops.answered(Some(Op::Acquire), is_success, sent_at.elapsed());
                let reply = match reply {
                    Ok(reply) => reply,
                    Err(error) => {
                        self.outbox.add(reply_to, Err(error));
                        continue;
                    }
                };
                let guard = |lease| common.take().unwrap_or_else(|| self.undelivered(lease));
                let mut undelivered = reply.new_grant().map(guard);
                if is_shared {
                    (undelivered, common) = undelivered.map(Undelivered::split).unzip();
                }
                self.outbox.n_woken += usize::from(undelivered.is_some());
                self.outbox.add(reply_to, Ok(Told { reply, undelivered }));
            }
        }
    }

    /// Returns the reply for a lease that waited, or for the first of several that waited together. If the lease was
    /// granted but expired before the grant was durable, the outcome is unknown.
    fn waited(&self, lease: LeaseNumber, wanted: &Wanted) -> Result<Reply, Error> {
        match wanted {
            Wanted::One(_) if self.was_granted_in_vain(lease) => Err(Error::Unknown),
            Wanted::One(key) => Ok(match self.active(lease) {
                Some(lease) => {
                    let grant = Grant { lease, kind: GrantKind::New, previous: None };
                    Reply::Applied(Ok(Outcome::Acquire(Acquired::Granted(Box::new(grant)))))
                }
                None => Reply::WaitOver { n: 0, view: Box::new(self.in_the_way(key)) },
            }),
            Wanted::All(keys) => {
                let reply = self.waited_for_all(lease, keys);
                let mut numbers = (lease.0..).take(keys.len()).map(LeaseNumber);
                if numbers.any(|number| self.was_granted_in_vain(number)) {
                    return Err(Error::Unknown);
                }
                Ok(reply)
            }
        }
    }

    /// Reports a grant only if all leases are active. If one of them has ended in the meantime, the wait has failed and
    /// the other leases are released.
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

    /// Reads a lock with only enough of its holders to tell which is in the way.
    fn in_the_way(&self, key: &LockKey) -> LockView {
        self.machine.lock_in_part(key, Detail { n_queue_max: 0, n_bytes_max: 1 })
    }

    /// Returns whether the lease has expired but was not ended yet.
    fn was_granted_in_vain(&self, number: LeaseNumber) -> bool {
        let lease = self.machine.lease(number);
        lease.is_some_and(|lease| lease.phase == Phase::Active && self.is_over(&lease))
    }

    fn active(&self, number: LeaseNumber) -> Option<LeaseView> {
        let lease = self.machine.lease(number)?;
        (lease.phase == Phase::Active && !self.is_over(&lease)).then_some(lease)
    }
}
