//! Handles closed connections.

use crate::arena::Slot;
use crate::change::Change;
use crate::lease::{Ending, Lease, LeaseNumber, Phase};
use crate::mutant;
use crate::state::State;
use crate::time::Span;
use crate::transition::Transition;

/// Handles the closed connection of a lease's client. A waiter ends, or is parked if a repeated request can find it. A
/// grant whose answer was not delivered is released. The leases of a group are treated alike.
pub(crate) fn leave(t: &mut Transition<'_>, number: LeaseNumber) {
    let Some(slot) = t.state.find_lease(number) else { return };
    let together = t.state.together(slot);
    if t.phase(slot) == Phase::Waiting && t.state.leases[slot].tethered {
        let stay = can_come_back(t.state, &t.state.leases[slot]).then_some(t.limits.park_max);
        for waiter in together {
            t.stirred.push_back(t.state.leases[waiter].lock);
            park(t, waiter, stay);
        }
    } else if !t.state.is_queued(slot) {
        give_back(t, slot, together);
    }
    t.promote_stirred();
}

/// Handles a wait whose client was told that the outcome is unknown. Returns whether the lease is active and kept for a
/// repeated request.
///
/// A waiter is parked for as long as after a restart if a repeated request can find it, else it ends. A lease that was
/// granted in the meantime is kept under the same condition, else it is released. The locks are left to the next sweep.
/// If they were promoted immediately, they would be granted to other waiters that have yet to step aside.
pub(crate) fn step_aside(t: &mut Transition<'_>, number: LeaseNumber) -> bool {
    let Some(slot) = t.state.find_lease(number) else { return false };
    let together = t.state.together(slot);
    let can_come_back = can_come_back(t.state, &t.state.leases[slot]);
    if t.phase(slot) == Phase::Waiting && t.state.leases[slot].tethered {
        let stay = can_come_back.then_some(t.limits.resume_park_max);
        for waiter in together {
            t.stirred.push_back(t.state.leases[waiter].lock);
            park(t, waiter, stay);
        }
    } else if !t.state.is_queued(slot) {
        if can_come_back {
            return t.state.leases[slot].is_active();
        }
        give_back(t, slot, together);
    }
    while let Some(lock) = t.stirred.pop_front() {
        if t.state.locks[lock].queue().is_some() {
            t.postpone(lock);
        }
    }
    false
}

/// Releases a grant whose answer was not delivered. No client knows of the lease, so it is not remembered, and the same
/// request can be made again.
fn give_back(t: &mut Transition<'_>, slot: Slot<Lease>, mut together: Vec<Slot<Lease>>) {
    let is_known_elsewhere = |slot: &Slot<Lease>| {
        let lease = &t.state.leases[*slot];
        lease.was_replayed() || lease.is_active() && lease.is_known_elsewhere()
    };
    if together.iter().any(is_known_elsewhere) && !mutant!(GiveBackWhatIsKnownElsewhere) {
        // Another connection was told of the grant, so its client holds the lock.
        return;
    }
    if mutant!(GroupGivenBackInPart) {
        together = vec![slot];
    }
    together.retain(|member| t.state.leases[*member].is_active());
    for member in together {
        let Lease { number: lease, lock, .. } = t.state.leases[member];
        let (how, at, kept) = (Ending::Released, t.now, false);
        t.record(Change::Ended { lease, how, at, kept, request: None, reason: None });
        t.stirred.push_back(lock);
    }
}

/// Does the same as [`leave`] for the waiters whose connections a restart has closed, for at most `n_max` of them.
/// Returns whether more are left.
pub(crate) fn resume(t: &mut Transition<'_>, n_max: usize) -> bool {
    let is_waiting = |lease: &Lease| lease.phase == Phase::Waiting && lease.tethered;
    let leases = t.state.leases.iter().filter(|(_, lease)| is_waiting(lease));
    let mut waiters: Vec<_> =
        leases.map(|(slot, lease)| (lease.number, slot, can_come_back(t.state, lease))).collect();
    waiters.sort_unstable();
    let more = waiters.len() > n_max;
    waiters.truncate(n_max);
    let locks: Vec<_> = waiters.iter().map(|(_, slot, _)| t.state.leases[*slot].lock).collect();
    // All waiters are parked before any lock is promoted, so that none of them is granted a lock.
    let stay = match mutant!(ResumedAsDeparted) {
        true => t.limits.park_max,
        false => t.limits.resume_park_max,
    };
    for (_, waiter, can_come_back) in waiters {
        park(t, waiter, can_come_back.then_some(stay));
    }
    // If there are more, the next sweep checks these queues. After a restart it checks every queue.
    for lock in locks.into_iter().filter(|_| !more) {
        t.promote(lock);
    }
    if mutant!(RestartWithFullTtl) {
        restart_every_ttl(t);
    }
    // No client is connected that could be woken.
    t.wakeups.clear();
    more
}

/// Returns whether a repeated request can find the lease, by a request id. Of a group, only the first lease has one.
fn can_come_back(state: &State, lease: &Lease) -> bool {
    let first = lease.group().and_then(|group| state.find_lease(group.first));
    !first.map_or(lease, |first| &state.leases[first]).requests().is_empty()
}

/// Implements the mutant `RestartWithFullTtl`.
fn restart_every_ttl(t: &mut Transition<'_>) {
    let active = t.state.leases.iter().filter(|(_, lease)| lease.is_active());
    let active: Vec<_> = active.map(|(_, l)| (l.number, l.ttl.from(t.now))).collect();
    for (lease, deadline) in active {
        t.record(Change::Renewed { lease, at: t.now, deadline, request: None });
    }
}

/// Parks a waiter for this long, or ends its wait if `stay` is `None`.
fn park(t: &mut Transition<'_>, slot: Slot<Lease>, stay: Option<Span>) {
    let lease = &t.state.leases[slot];
    let number = lease.number;
    if let Some(stay) = stay {
        let deadline = lease.deadline.min(t.now + stay);
        t.record(Change::Parked { lease: number, deadline });
    } else {
        let (how, kept) = (Ending::Released, lease.keep);
        let at = t.now;
        t.record(Change::Ended { lease: number, how, at, kept, request: None, reason: None });
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Acquire, Dialect, LeaseNumber, Limits, LockKey, Machine, Owner, Phase, Resume, Revoke,
        Secret, Span, StepAside, Sweep, Target, Timestamp, Wait,
    };

    /// Returns a machine with a held lock and five waiters. Some of them can return with their request id.
    fn machine() -> Machine {
        let mut machine = Machine::new(Limits::default(), 1);
        for n in 0..6_u8 {
            let owner = Owner::new("p", format!("o{n}").as_str());
            let lock = LockKey::new("ns", "a");
            let acquire = Acquire {
                ttl: Some(Span::from_secs(60)),
                wait: Wait::Connected(Span::from_secs(60)),
                request_id: (n % 2 == 0).then(|| format!("r{n}").as_str().into()),
                ..Acquire::new(lock, owner, Dialect(0), Secret([n; 16]))
            };
            machine.apply(Timestamp::from_nanos(n.into()), acquire);
        }
        machine
    }

    fn phase(machine: &Machine, n: u64) -> Option<Phase> {
        machine.lease(LeaseNumber(n)).map(|lease| lease.phase)
    }

    #[test]
    fn no_lock_is_granted_before_all_waiters_have_stepped_aside() {
        let mut machine = machine();
        let now = Timestamp::from_nanos(100);
        let revoke = |machine: &mut Machine| {
            let target = Target::Lock(LockKey::new("ns", "a"));
            machine.apply(now, Revoke { target, reason: "t".into() }).outcome.expect("revoked");
        };
        let step_aside = |machine: &mut Machine, n| {
            machine.apply(now, StepAside(LeaseNumber(n))).outcome.expect("done")
        };
        // Leases with an even number cannot come back. The first of them is granted the lock.
        revoke(&mut machine);
        assert_eq!(phase(&machine, 2), Some(Phase::Active));
        assert!(!step_aside(&mut machine, 2));
        assert_eq!((phase(&machine, 2), phase(&machine, 3)), (None, Some(Phase::Waiting)));
        machine.apply(now, Sweep { n_changes_max: 100 });
        assert!(step_aside(&mut machine, 3), "its request can be repeated");
        assert_eq!(phase(&machine, 3), Some(Phase::Active));
        revoke(&mut machine);
        for n in [4, 5, 6] {
            assert!(!step_aside(&mut machine, n));
        }
        machine.apply(now, Sweep { n_changes_max: 100 });
        assert_eq!([4, 5, 6].map(|n| phase(&machine, n)), [None, Some(Phase::Parked), None]);
    }

    #[test]
    fn all_waiters_are_seen_off_whether_at_once_or_a_few_at_a_time() {
        let (mut at_once, mut in_turns) = (machine(), machine());
        let now = Timestamp::from_nanos(100);
        assert_eq!(at_once.apply(now, Resume::ALL).outcome, Ok(false));
        let mut n_changes = Vec::new();
        loop {
            let applied = in_turns.apply(now, Resume { n_waiters_max: 2 });
            n_changes.push(applied.changes.len());
            if applied.outcome == Ok(false) {
                break;
            }
        }
        assert_eq!(n_changes, [2, 2, 1]);
        assert_eq!(in_turns.export(), at_once.export());
    }
}
