//! Formats outcomes and states as text, so that tests can compare the model with the machine.

use leasehold_core::*;

use super::step;

/// Returns the parts of an outcome that the model and the machine must agree on.
pub(crate) fn summary(outcome: &Result<Outcome, Rejection>) -> String {
    match outcome {
        Ok(Outcome::Acquire(Acquired::Granted(grant))) => {
            let lease = &grant.lease;
            format!("{:?} {:?} {:?} {:?}", grant.kind, lease.id.number, lease.token, lease.deadline)
        }
        Ok(Outcome::Acquire(Acquired::Queued(number))) => format!("queued {number:?}"),
        Ok(Outcome::AcquireAll(AcquiredAll::Queued(number))) => format!("queued {number:?}"),
        Ok(Outcome::AcquireAll(AcquiredAll::Granted(grants))) => {
            let one = |grant: &Grant| Outcome::Acquire(Acquired::Granted(Box::new(grant.clone())));
            grants.iter().map(|grant| summary(&Ok(one(grant)))).collect::<Vec<_>>().join(", ")
        }
        Ok(Outcome::RenewAll(leases)) => {
            let one = |lease: &LeaseView| Outcome::Renew(Box::new(lease.clone()));
            leases.iter().map(|lease| summary(&Ok(one(lease)))).collect::<Vec<_>>().join(", ")
        }
        Ok(Outcome::ReleaseAll(leases)) => {
            let one = |lease: &Result<LeaseView, Rejection>| match lease {
                Ok(lease) => format!("released {:?}", lease.id.number),
                Err(why) => format!("{why:?}"),
            };
            leases.iter().map(one).collect::<Vec<_>>().join(", ")
        }
        Ok(Outcome::Cancel(is_cancelled)) => format!("cancelled {is_cancelled}"),
        Err(Rejection::Member { n, why }) => {
            format!("{n}: {}", summary(&Err(why.as_ref().clone())))
        }
        Ok(Outcome::Renew(lease)) => {
            format!("renewed {:?} {:?}", lease.id.number, lease.deadline)
        }
        Ok(Outcome::Release(lease)) => format!("released {:?}", lease.id.number),
        Ok(Outcome::Confirm(lease)) => format!("active {:?}", lease.number),
        Ok(Outcome::Amend(lease)) => format!("amended {:?} {:?}", lease.id.number, lease.ttl),
        Ok(Outcome::Revoke(leases)) => format!("revoked {}", leases.len()),
        Ok(Outcome::GiveUp(())) => "given up".into(),
        Ok(Outcome::OpenSession(SessionOpened { number, deadline })) => {
            format!("opened {number:?} {deadline:?}")
        }
        Ok(Outcome::KeepSession(deadline)) => format!("kept {deadline:?}"),
        Ok(Outcome::CloseSession(())) => "closed".into(),
        Ok(Outcome::EndSession(()) | Outcome::Prove(_) | Outcome::Maintain(())) => "done".into(),
        Ok(Outcome::StepAside(_)) => "done".into(),
        Ok(Outcome::Leave(()) | Outcome::Settle(()) | Outcome::Sweep(_)) => "done".into(),
        Ok(Outcome::Resume(_) | Outcome::Restore(())) => "done".into(),
        Err(Rejection::Held(holding)) => format!("held, {} waiting", holding.n_waiting),
        Err(other) => format!("{other:?}"),
    }
}

/// Returns everything a client can see, one line per lock and lease.
pub(crate) fn visible(machine: &Machine, n_leases: u64) -> Vec<String> {
    let locks = (0..step::N_LOCKS).map(step::key).map(|key| {
        let view = machine.lock(&key, usize::MAX);
        let mut holders: Vec<_> =
            view.holders.iter().map(|h| (h.id.number.0, h.token.get(), h.deadline)).collect();
        holders.sort_unstable();
        let queue: Vec<_> =
            view.queue.iter().map(|w| (w.id.number.0, w.phase, w.deadline)).collect();
        let lapse = view.lapse.map(|l| (l.owner, l.dialect, l.expired_at, l.grace_until));
        format!("{key:?} {holders:?} {queue:?} {:?} {lapse:?}", view.last_token.get())
    });
    let leases = (n_leases.saturating_sub(300)..=n_leases)
        .filter_map(|n| machine.lease(LeaseNumber(n)))
        .map(|lease| format!("{:?} {:?} {:?}", lease.id.number, lease.phase, lease.version));
    locks.chain(leases).collect()
}
